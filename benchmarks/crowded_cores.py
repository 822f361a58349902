"""What another process on the same cores costs a training step.

    python benchmarks/crowded_cores.py [--rounds 3] [--limit 100]

Each process takes optimiser steps on the same packed batch with torch's default threads, as GNU's
OpenMP comes and with the short spinning that the `steelyard` command sets: alone, in turns, and
then two side by side. Medians of the steps after the first, and of the rounds; a pair that is not
done after `--limit` seconds is stopped.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import time

STEPS = 3
SPINNING = {"as OpenMP comes": None, "GOMP_SPINCOUNT=10000": "10000"}


def step_seconds() -> float:
    """Seconds of one step on eight groups of eight branches, SmolLM2-135M in bfloat16."""
    import torch

    from steelyard.episodes import Segment, Trajectory
    from steelyard.learner import Batch, Learner, LearnerSettings
    from steelyard.models import EMBEDDED, resolve

    draw = random.Random(0)

    def tokens(n: int) -> list[int]:
        return [draw.randrange(49_000) for _ in range(n)]

    trajectories = []
    for _ in range(8):
        prompt = tokens(200)
        for _ in range(8):
            segment = Segment()
            segment.append_context(prompt)
            segment.append_action(tokens(24), [0.0] * 24, [0] * 24)
            trajectories.append(Trajectory([segment]))
    batch = Batch.from_trajectories(trajectories)
    learner = Learner(resolve(EMBEDDED), LearnerSettings(max_bin_tokens=768))
    weight_T = torch.full((len(batch),), 1 / len(batch))
    seconds = []
    for _ in range(STEPS + 1):
        began = time.perf_counter()
        learner.step(batch, lambda logp_T, index_T: -logp_T, weight_T, learning_rate=1e-9)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds[1:])


def measure(processes: int, spin_count: str | None, limit: float) -> list[float]:
    """The median step of each process; empty if they were stopped."""
    environment = {k: v for k, v in os.environ.items() if k != "GOMP_SPINCOUNT"}
    if spin_count is not None:
        environment["GOMP_SPINCOUNT"] = spin_count
    children = [
        subprocess.Popen(
            [sys.executable, __file__, "--child"],
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    deadline = time.monotonic() + limit
    try:
        outputs = [c.communicate(timeout=deadline - time.monotonic())[0] for c in children]
    except subprocess.TimeoutExpired:
        return []
    finally:
        for child in children:
            child.kill()
            child.wait()
    return [float(output) for output in outputs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=100.0)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(step_seconds())
        return
    alone: dict[str, list[float]] = {name: [] for name in SPINNING}
    for _ in range(options.rounds):
        for name, spin_count in SPINNING.items():
            alone[name] += measure(1, spin_count, options.limit)
    print("| | alone, s a step | two side by side, s a step |\n|---|---|---|")
    for name, spin_count in SPINNING.items():
        pair = measure(2, spin_count, options.limit)
        together = (
            f"{statistics.mean(pair):.1f}" if pair else f"not done after {options.limit:.0f} s"
        )
        print(f"| {name} | {statistics.median(alone[name]):.1f} | {together} |", flush=True)


if __name__ == "__main__":
    main()
