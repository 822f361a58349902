"""How many episodes ended in which outcome: no two kinds of ending are ever added up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from steelyard.episodes import Cause, OutcomeKind, Scored, StopReason, Unscored, outcome_kind
from steelyard.monitor.scores import Json
from steelyard.store import EpisodeRecord


def kind_of(record: EpisodeRecord) -> OutcomeKind:
    """What an episode counts as by its verifier: held-out checks have no say in it."""
    return _kind(record.raw, record.cause, record.stop_reason)


def outcome_counts(records: Sequence[EpisodeRecord]) -> Json:
    """Episodes by outcome, in training, in evaluations, and by held-out checks; zeros left out."""
    return {
        "training": _counted(kind_of(r) for r in records if r.purpose == "train"),
        "evaluation": _counted(kind_of(r) for r in records if r.purpose == "eval"),
        "heldout": _counted(_heldout_kinds(records)),
    }


def outcome_rows(records: Sequence[EpisodeRecord]) -> list[Json]:
    """One row for each kind of outcome, also for those that no episode had.

    `carries_reward` says whether its episodes enter a group's baseline and the loss. `example` is
    the first such episode, `detail` what is known of it.
    """
    first: dict[OutcomeKind, EpisodeRecord] = {}
    for record in records:
        first.setdefault(kind_of(record), record)
    counts = outcome_counts(records)
    return [
        {
            "outcome": kind.value,
            "carries_reward": kind.scored,
            **{column: counts[column].get(kind.value, 0) for column in counts},
            "example": first[kind].id if kind in first else None,
            "detail": first[kind].cause_detail if kind in first else None,
        }
        for kind in OutcomeKind
    ]


def _heldout_kinds(records: Iterable[EpisodeRecord]) -> Iterable[OutcomeKind]:
    for r in records:
        if r.heldout_reward is not None or r.heldout_cause is not None:
            yield _kind(r.heldout_reward, r.heldout_cause, r.stop_reason)


def _kind(reward: float | None, cause: str | None, stop_reason: str) -> OutcomeKind:
    if reward is not None:
        return outcome_kind(Scored(reward), StopReason(stop_reason))
    assert cause is not None  # the store holds one of the two
    return outcome_kind(Unscored(Cause(cause)), StopReason(stop_reason))


def _counted(kinds: Iterable[OutcomeKind]) -> dict[str, int]:
    found = Counter(kinds)
    return {kind.value: found[kind] for kind in OutcomeKind if found[kind]}
