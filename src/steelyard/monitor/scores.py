"""A success rate with its uncertainty, as every view shows it."""

from __future__ import annotations

from typing import Any, TypeAlias

from steelyard.monitor.statistics import clustered_standard_error, wilson_interval
from steelyard.store import EvaluationRecord, RunReader, Tally

Json: TypeAlias = dict[str, Any]


def rate(tally: Tally) -> Json:
    """{pass_at_1, low, high, n, unscored}: null rates where nothing was scored, never 0."""
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


def score(reader: RunReader, evaluation: EvaluationRecord) -> Json:
    """An evaluation's rate, over all its episodes and by kind.

    `low` and `high` are the 95 % Wilson interval of independent samples; `standard_error` is
    clustered by task.
    """
    name, split = evaluation.name, evaluation.split
    by_task = reader.tallies(name, split, "task")
    values = [v for t in by_task.values() for v in [1.0] * t.solved + [0.0] * (t.n - t.solved)]
    clusters = [task for task, t in by_task.items() for _ in range(t.n)]
    return {
        **rate(evaluation.tally),
        "standard_error": clustered_standard_error(values, clusters) if values else None,
        "tasks": len(by_task),
        "split": split,
        "step": evaluation.step,
        "by_kind": {kind: rate(t) for kind, t in reader.tallies(name, split, "kind").items()},
    }


def headline(reader: RunReader, name: str) -> EvaluationRecord | None:
    """The evaluation of that name on the test split, or else on the one split that has it."""
    found = [e for e in reader.evaluations() if e.name == name]
    return min(found, key=lambda e: e.split != "test", default=None)
