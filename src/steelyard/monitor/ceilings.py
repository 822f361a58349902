"""The best success that a policy can reach while tasks that refuse right work stay in."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.monitor.causes import Certainty, Why, decide
from steelyard.monitor.run_evidence import RunEvidence
from steelyard.monitor.scores import Json
from steelyard.monitor.statistics import wilson_interval
from steelyard.store import RunReader

_REFUSING = ("rejects", "broken")
"""Kinds of audit findings (steelyard.auditing.findings.Kind) that deny right work its reward."""


def ceilings(record: RunEvidence) -> dict[str, Json]:
    """Per split: 1 − blocked / tasks, and how sure that is.

    A task blocks where its verifier refuses right work and never paid an attempt in full. `shown`
    were decided by the audit or by an experiment, `suspected` by held-out checks that accept what
    the verifier refuses. On these tasks the ceiling lies between `low` (all suspects are real) and
    `high` (none is). `low_95` and `high_95` say it of such tasks in general: Wilson's bounds of
    the share of blocked ones, of shown and suspected together and of shown alone. A task without
    held-out checks and without an experiment is taken to be sound, so a ceiling is an upper bound.
    """
    refused = _refused_by_audit(record.reader) | _refused_by_experiment(record)
    splits: dict[str, list[str]] = {}
    for task, facts in record.tasks.items():
        splits.setdefault(facts.split, []).append(task)
    return {split: _ceiling(record, tasks, refused) for split, tasks in splits.items()}


def _ceiling(record: RunEvidence, tasks: list[str], refused: set[str]) -> Json:
    never_paid = [t for t in tasks if not record.tasks[t].attempts.paid]
    shown = sorted(t for t in never_paid if t in refused)
    suspected = sorted(t for t in never_paid if t not in refused and _suspected(record, t))
    n, blocked = len(tasks), len(shown) + len(suspected)
    return {
        "tasks": n,
        "shown": shown,
        "suspected": suspected,
        "low": 1 - blocked / n,
        "high": 1 - len(shown) / n,
        "low_95": 1 - wilson_interval(blocked, n)[1],
        "high_95": 1 - wilson_interval(len(shown), n)[0],
    }


def _suspected(record: RunEvidence, task: str) -> bool:
    if task in record.experiments:
        return False  # it has decided otherwise
    return decide(record.attempts_at(task), ()).verdict is Why.REJECTS_RIGHT_WORK


def _refused_by_experiment(record: RunEvidence) -> set[str]:
    return {
        task
        for task, made in record.experiments.items()
        if made["certainty"] == Certainty.SHOWN.value
        and made["verdict"] in (Why.REJECTS_RIGHT_WORK.value, Why.ERROR.value)
    }


def _refused_by_audit(reader: RunReader) -> set[str]:
    """Tasks of which the audit at the run's start proved it."""
    found: Iterable[Json] = (event.data for event in reader.events("audit"))
    return {data["task"] for data in found if set(data.get("kinds", ())) & set(_REFUSING)}
