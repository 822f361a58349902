"""Tells a verifier that runs out of time from a machine that is too busy to run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steelyard.auditing.submission import Probe, Submission
from steelyard.episodes import Cause, Outcome, Unscored

Grade = Callable[[Submission], Outcome | None]


def without_busy_times(
    planned: Sequence[tuple[Probe, Submission]],
    outcomes: Sequence[Outcome | None],
    grade: Grade,
    reference: Callable[[Submission], Submission | None],
) -> list[Outcome | None]:
    """The outcomes, but None for what ran out of time only because the machine was busy.

    What counts are the timeouts that can be held against a verifier (answers, right work). Of each
    probe they are graded again one by one, in the task's own time, until one is out of time where
    the reference is not: that one is confirmed, and those after it are believed. The others are
    None.
    """
    confirmed: set[str] = set()
    kept = list(outcomes)
    for place, ((probe, submission), outcome) in enumerate(zip(planned, outcomes, strict=True)):
        if probe.family not in ("answers", "right-work") or not out_of_time(outcome):
            continue
        if probe.name in confirmed:
            continue
        control = reference(submission)
        if out_of_time(grade(submission)) and not (
            control is not None and out_of_time(grade(control))
        ):
            confirmed.add(probe.name)
        else:
            kept[place] = None
    return kept


def out_of_time(outcome: Outcome | None) -> bool:
    """Whether the verifier was not done in its time."""
    return isinstance(outcome, Unscored) and outcome.cause is Cause.VERIFIER_TIMEOUT
