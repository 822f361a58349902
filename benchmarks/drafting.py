"""What guessing the next tokens saves where a policy plays a run's own episodes.

    python benchmarks/drafting.py CHECKPOINT [--rounds 3] [--drafts 0 4 8 16]

For each length of draft, one engine: a training-like batch (10 tasks, 8 episodes each) and the dev
tasks once each, by turns with the other lengths. Medians over the rounds; the first is warm-up.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from pathlib import Path

from steelyard.conductor.evaluation import evaluation_requests
from steelyard.conductor.rollouts import Request, group_requests
from steelyard.conductor.settings import read_run_file
from steelyard.conductor.workshop import Workshop
from steelyard.models import resolve
from steelyard.sandbox import SandboxSettings
from steelyard.tasks import Task, load_tasks

EXAMPLE = Path(__file__).parents[1] / "examples" / "falsy-defaults"


def batches(seed: int, train: list[Task], dev: list[Task]) -> dict[str, list[Request]]:
    """The two kinds of work of a run, with new seeds."""
    first = seed * 10 % len(train)
    tasks = (train + train)[first : first + 10]
    return {
        "10 groups of 8": [
            r for i, t in enumerate(tasks) for r in group_requests(t, f"{seed}/{i}", 8, seed)
        ],
        "dev tasks once": evaluation_requests(f"d{seed}", "dev", dev, 1, seed),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--drafts", type=int, nargs="+", default=[0, 4, 8, 16])
    options = parser.parse_args()
    settings = read_run_file(EXAMPLE / "run.toml")
    train, dev = (load_tasks(str(EXAMPLE / "tasks" / split)) for split in ("train", "dev"))
    shops = {
        n: Workshop(
            resolve(options.checkpoint),
            agent=settings.agent,
            engine=settings.engine.model_copy(update={"draft_tokens": n}),
            sandbox=SandboxSettings(),
            tasks=train,
        )
        for n in options.drafts
    }
    seconds: dict[tuple[str, int], list[float]] = {}
    solved: dict[tuple[str, int], list[float]] = {}
    for seed in range(1 + options.rounds):
        for name, requests in batches(seed, train, dev).items():
            for n, shop in shops.items():
                began = time.perf_counter()
                episodes = asyncio.run(shop.rollouts.episodes(requests))
                seconds.setdefault((name, n), []).append(time.perf_counter() - began)
                solved.setdefault((name, n), []).append(
                    sum(bool(e.solved) for e in episodes) / len(episodes)
                )
    print(f"{'work':<16}{'draft':>6}{'seconds':>9}{'ratio':>7}{'solved':>8}")
    for (name, n), taken in seconds.items():
        median = statistics.median(taken[1:])
        base = statistics.median(seconds[name, options.drafts[0]][1:])
        share = statistics.mean(solved[name, n])
        print(f"{name:<16}{n:>6}{median:>9.1f}{base / median:>7.2f}{share:>8.3f}")
    for n, shop in shops.items():
        stats = shop.engine.stats
        print(
            f"draft {n}: {stats.steps} steps, {stats.sampled_tokens} tokens, "
            f"{stats.guessed_tokens} guessed, {stats.held_guesses} held, "
            f"busy {stats.busy_seconds:.1f} s"
        )
        shop.close()


if __name__ == "__main__":
    main()
