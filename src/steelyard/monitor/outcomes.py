"""How many episodes ended in which outcome: no two kinds of ending are ever added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from steelyard.episodes import Cause, OutcomeKind, Scored, StopReason, Unscored, outcome_kind
from steelyard.monitor.scores import Json
from steelyard.store.lookup import Ending, Endings


def outcome_counts(found: Mapping[Ending, int]) -> Json:
    """Episodes by outcome, in training, in evaluations, and by held-out checks; zeros left out."""
    counts: dict[str, Counter[OutcomeKind]] = {
        "training": Counter(), "evaluation": Counter(), "heldout": Counter(),
    }  # fmt: skip
    for e, n in found.items():
        where = "training" if e.purpose == "train" else "evaluation"
        counts[where][_kind(e.raw, e.cause, e.stop_reason)] += n
        if e.heldout is not None or e.heldout_cause is not None:
            counts["heldout"][_kind(e.heldout, e.heldout_cause, e.stop_reason)] += n
    return {
        where: {kind.value: of[kind] for kind in OutcomeKind if of[kind]}
        for where, of in counts.items()
    }


def outcome_rows(found: Mapping[Ending, Endings], details: Mapping[str, str | None]) -> list[Json]:
    """One row for each kind of outcome, also for those that no episode had.

    `carries_reward` says whether its episodes enter a group's baseline and the loss. `example` is
    the first such episode, `detail` what is known of it, from `details` by episode.
    """
    counts = outcome_counts({e: of.n for e, of in found.items()})
    first: dict[OutcomeKind, Endings] = {}
    for e, of in found.items():
        kind = _kind(e.raw, e.cause, e.stop_reason)
        if kind not in first or of.first < first[kind].first:
            first[kind] = of
    examples = {kind: of.example for kind, of in first.items()}
    return [
        {
            "outcome": kind.value,
            "carries_reward": kind.scored,
            **{column: counts[column].get(kind.value, 0) for column in counts},
            "example": examples.get(kind),
            "detail": details[examples[kind]] if kind in examples else None,
        }
        for kind in OutcomeKind
    ]


def _kind(reward: float | None, cause: str | None, stop_reason: str) -> OutcomeKind:
    if reward is not None:
        return outcome_kind(Scored(reward), StopReason(stop_reason))
    assert cause is not None  # the store holds one of the two
    return outcome_kind(Unscored(Cause(cause)), StopReason(stop_reason))
