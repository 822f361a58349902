"""Evaluation: fixed tasks, fixed seeds, every check."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.conductor.listener import Listener
from steelyard.conductor.rollouts import Request, Rollouts, seed_of
from steelyard.episodes import Episode
from steelyard.store import Tally
from steelyard.tasks import Task


def evaluation_requests(
    name: str, split: str, tasks: Sequence[Task], samples: int, run_seed: int
) -> list[Request]:
    """`samples` episodes per task. The seeds do not depend on `name`.

    So two evaluations of one run differ by the policy alone.
    """
    return [
        Request(
            f"{name}/{split}/{task.name}/{i}",
            f"{name}/{split}/{task.name}",
            task,
            seed_of(run_seed, "evaluation", split, task.name, i),
        )
        for task in tasks
        for i in range(samples)
    ]


async def evaluate(
    rollouts: Rollouts, requests: Sequence[Request], listener: Listener
) -> list[Episode]:
    """Runs the episodes of an evaluation."""
    return await rollouts.episodes(requests, lambda _: listener.advance(1))


def tally(episodes: Sequence[Episode]) -> tuple[Tally, dict[str, Tally]]:
    """What was solved (training and held-out checks all pass), overall and by kind."""
    by_kind: dict[str, Tally] = {}
    for episode in episodes:
        before = by_kind.get(episode.kind, Tally(0, 0, 0))
        by_kind[episode.kind] = _plus(before, _counted(episode))
    total = Tally(0, 0, 0)
    for part in by_kind.values():
        total = _plus(total, part)
    return total, dict(sorted(by_kind.items()))


def _counted(episode: Episode) -> Tally:
    solved = episode.solved
    return Tally(0, 0, 1) if solved is None else Tally(int(solved), 1, 0)


def _plus(left: Tally, right: Tally) -> Tally:
    return Tally(left.solved + right.solved, left.n + right.n, left.unscored + right.unscored)
