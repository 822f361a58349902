"""What lanes save: parts of a batch side by side on one thread each, against operations on two.

    python benchmarks/lanes.py CHECKPOINT [--rounds 3]

Sampling: a training-like batch (10 tasks, 8 episodes each) and the dev tasks once each, played by
the checkpoint's policy. Training: one optimiser step on the batch just sampled. One and two lanes
by turns; medians over the rounds, the first of which is warm-up.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from drafting import EXAMPLE, batches
from steelyard.conductor.settings import read_run_file
from steelyard.conductor.workshop import Workshop
from steelyard.episodes import Episode
from steelyard.learner import Batch, Learner
from steelyard.models import release_memory, release_threads, resolve
from steelyard.sandbox import SandboxSettings
from steelyard.tasks import load_tasks

LANES = (1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    settings = read_run_file(EXAMPLE / "run.toml")
    train, dev = (load_tasks(str(EXAMPLE / "tasks" / split)) for split in ("train", "dev"))
    model = resolve(options.checkpoint)
    shops, learners = {}, {}
    for n in LANES:
        shops[n] = Workshop(
            model,
            agent=settings.agent,
            engine=settings.engine.model_copy(update={"lanes": n}),
            sandbox=SandboxSettings(),
            tasks=train,
        )
        learners[n] = Learner(model, settings.learner.model_copy(update={"lanes": n}))
    seconds: dict[tuple[str, int], list[float]] = {}

    def timed(name: str, n: int, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        result = work()
        seconds.setdefault((name, n), []).append(time.perf_counter() - began)
        release_threads()
        release_memory()
        return result

    for seed in range(1 + options.rounds):
        episodes: list[Episode] = []
        for name, requests in batches(seed, train, dev).items():
            for n in LANES:
                episodes += timed(
                    name, n, lambda n=n, r=requests: asyncio.run(shops[n].rollouts.episodes(r))
                )
        sampled = Batch.from_episodes(episodes[:80])
        weight_T = torch.full((len(sampled),), 1 / len(sampled))
        for n in LANES:
            timed(
                "an update on them",
                n,
                lambda n=n, b=sampled, w=weight_T: learners[n].step(
                    b, lambda logp_T, index_T: -logp_T, w, learning_rate=1e-9
                ),
            )
    print("| work | one lane, s | two lanes, s | ratio |\n|---|---|---|---|")
    for name in dict.fromkeys(name for name, _ in seconds):
        one, two = (statistics.median(seconds[name, n][1:]) for n in LANES)
        print(f"| {name} | {one:.1f} | {two:.1f} | {one / two:.2f} |")
    for shop in shops.values():
        shop.close()


if __name__ == "__main__":
    main()
