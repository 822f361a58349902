"""Evaluation: fixed tasks, fixed seeds, every check."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from steelyard.conductor.listener import EvaluationReport, Listener
from steelyard.conductor.rollouts import Request, Rollouts, seed_of
from steelyard.episodes import Episode
from steelyard.monitor.scores import rate_over_tasks
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


def evaluation_report(name: str, split: str, episodes: Sequence[Episode]) -> EvaluationReport:
    """What a listener is told of an evaluation; its interval is the one that the signals have."""
    total = tally(episodes)
    by_kind = tallies(episodes, lambda episode: episode.kind)
    rate = rate_over_tasks(tallies(episodes, lambda episode: episode.task))
    return EvaluationReport(
        name,
        split,
        total.solved,
        total.n,
        {k: (t.solved, t.n) for k, t in sorted(by_kind.items())} if any(by_kind) else {},
        (rate["low"], rate["high"]) if total.n else None,
    )


def tally(episodes: Sequence[Episode]) -> Tally:
    """What was solved: training and held-out checks all pass. An unscored one is counted apart."""
    verdicts = [episode.solved for episode in episodes]
    unscored = sum(solved is None for solved in verdicts)
    return Tally(sum(solved is True for solved in verdicts), len(verdicts) - unscored, unscored)


def tallies(episodes: Sequence[Episode], of: Callable[[Episode], str]) -> dict[str, Tally]:
    """`tally` of the episodes that `of` gives the same name, by that name."""
    named: dict[str, list[Episode]] = defaultdict(list)
    for episode in episodes:
        named[of(episode)].append(episode)
    return {name: tally(some) for name, some in named.items()}
