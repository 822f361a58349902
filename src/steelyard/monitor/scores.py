"""A success rate with its uncertainty, as every view shows it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from steelyard.monitor.statistics import (
    clustered_interval,
    clustered_standard_error,
    wilson_interval,
)
from steelyard.store import Counts, EpisodeFilter, EvaluationRecord, RunReader, Tally

Json: TypeAlias = dict[str, Any]


def rate(tally: Tally) -> Json:
    """{pass_at_1, low, high, n, unscored} of one task: a 95 % Wilson interval of its samples.

    Null rates where nothing was scored, never 0.
    """
    if tally.n == 0:
        return {"pass_at_1": None, "low": None, "high": None, "n": 0, "unscored": tally.unscored}
    low, high = wilson_interval(tally.solved, tally.n)
    return {
        "pass_at_1": tally.solved / tally.n,
        "low": low,
        "high": high,
        "n": tally.n,
        "unscored": tally.unscored,
    }


def rate_over_tasks(by_task: Mapping[str, Tally]) -> Json:
    """`rate` over the samples of several tasks: its 95 % interval is `clustered_interval`."""
    total = Tally(
        sum(t.solved for t in by_task.values()),
        sum(t.n for t in by_task.values()),
        sum(t.unscored for t in by_task.values()),
    )
    found = rate(total)
    if total.n:
        found["low"], found["high"] = clustered_interval(*samples(by_task))
    return found


def samples(by_task: Mapping[str, Tally]) -> tuple[list[float], list[str]]:
    """Every scored sample as 1 or 0, and the task of each."""
    values = [float(i < t.solved) for t in by_task.values() for i in range(t.n)]
    return values, [task for task, t in by_task.items() for _ in range(t.n)]


def tally_of(found: Counts) -> Tally:
    """What an evaluation would count of them."""
    return Tally(found.solved, found.known, found.n - found.known)


def score(reader: RunReader, evaluation: EvaluationRecord) -> Json:
    """An evaluation's rate, over all its episodes and by kind.

    The 95 % intervals and `standard_error` are clustered by task.
    """
    name, split = evaluation.name, evaluation.split
    by_task: dict[str, Tally] = {}
    by_kind: dict[str, dict[str, Tally]] = defaultdict(dict)
    of_this = EpisodeFilter(evaluation=name, split=split)
    for (kind, task), found in reader.counts(["kind", "task"], of_this).items():
        by_task[task] = by_kind[kind][task] = tally_of(found)
    values, clusters = samples(by_task)
    return {
        **rate_over_tasks(by_task),
        "standard_error": clustered_standard_error(values, clusters) if values else None,
        "tasks": len(by_task),
        "split": split,
        "step": evaluation.step,
        "by_kind": {kind: rate_over_tasks(tasks) for kind, tasks in sorted(by_kind.items())},
    }


def evaluation_tallies(reader: RunReader) -> dict[tuple[str, str], dict[str, Tally]]:
    """(evaluation, split) → task → its tally, of every evaluation with an episode."""
    found: dict[tuple[str, str], dict[str, Tally]] = defaultdict(dict)
    every = reader.counts(["evaluation", "split", "task"], EpisodeFilter(purpose="eval"))
    for (name, split, task), counts in every.items():
        found[name, split][task] = tally_of(counts)
    return found


def headline(evaluations: Iterable[EvaluationRecord], name: str) -> EvaluationRecord | None:
    """The evaluation of that name on the test split, or else on the one split that has it."""
    found = [e for e in evaluations if e.name == name]
    return min(found, key=lambda e: e.split != "test", default=None)
