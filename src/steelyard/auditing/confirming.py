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

    Of each probe whose timeouts can be held against a verifier (answers, right work) the first
    that ran out of time is graded again by itself, and then the reference: if the one is in time
    now, or the other is not, nothing is known of any of the probe's timeouts.
    """
    held: dict[str, bool] = {}
    kept = list(outcomes)
    for place, ((probe, submission), outcome) in enumerate(zip(planned, outcomes, strict=True)):
        if probe.family not in ("answers", "right-work") or not out_of_time(outcome):
            continue
        if probe.name not in held:
            control = reference(submission)
            held[probe.name] = out_of_time(grade(submission)) and not (
                control is not None and out_of_time(grade(control))
            )
        if not held[probe.name]:
            kept[place] = None
    return kept


def out_of_time(outcome: Outcome | None) -> bool:
    """Whether the verifier was not done in its time."""
    return isinstance(outcome, Unscored) and outcome.cause is Cause.VERIFIER_TIMEOUT
