"""How one attempt failed, as its record shows it: the same for training, evaluation, experiment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from steelyard.episodes import Episode, Scored, StopReason, Unscored
from steelyard.store import EpisodeRecord


class Symptom(StrEnum):
    """What is seen of one attempt; every attempt has exactly one."""

    SOLVED = "solved"
    """Full reward of the verifier, whatever held-out checks say."""
    UNSCORED = "unscored"
    TRUNCATED = "truncated"
    """A turn was cut before its stop token."""
    UNPARSED = "unparsed"
    """It was not handed in, and at least half of its calls could not be read as calls."""
    REPEATS_ITSELF = "repeats_itself"
    """It was not handed in, and at least half of its calls are the call before them again, or the
    episode was ended for such calls."""
    NOT_HANDED_IN = "not_handed_in"
    """A limit of turns, tokens or time ended it."""
    REJECTED = "rejected"
    """The verifier refuses what the held-out checks accept."""
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a task. `raw` and `heldout` are rewards, None where there is none; `calls`
    counts its tool calls, `unread` those that could not be read, `repeated` those that equal the
    call before them."""

    id: str
    stop_reason: StopReason
    raw: float | None
    cause: str | None
    cause_detail: str | None
    heldout: float | None
    calls: int = 0
    unread: int = 0
    repeated: int = 0

    @property
    def accepted(self) -> bool:
        return self.raw is not None and self.raw >= 1.0

    @property
    def heldout_accepts(self) -> bool | None:
        """None where no held-out check spoke of it."""
        return None if self.heldout is None else self.heldout >= 1.0

    @property
    def symptom(self) -> Symptom:
        if self.raw is None:
            return Symptom.UNSCORED
        if self.accepted:
            return Symptom.SOLVED
        if self.stop_reason is StopReason.TRUNCATED:
            return Symptom.TRUNCATED
        if self.stop_reason is not StopReason.SUBMITTED:
            return self._never_handed_in
        return Symptom.REJECTED if self.heldout_accepts else Symptom.WRONG

    @property
    def _never_handed_in(self) -> Symptom:
        if self.calls and 2 * self.unread >= self.calls:
            return Symptom.UNPARSED
        stuck = self.stop_reason is StopReason.STUCK
        if stuck or (self.calls and 2 * self.repeated >= self.calls):
            return Symptom.REPEATS_ITSELF
        return Symptom.NOT_HANDED_IN


def of_record(record: EpisodeRecord, unread: int) -> Attempt:
    """`unread`: how many of its calls could not be read."""
    return Attempt(
        record.id,
        StopReason(record.stop_reason),
        record.raw,
        record.cause,
        record.cause_detail,
        record.heldout_reward,
        record.n_calls,
        unread,
        record.n_repeated_calls,
    )


def of_episode(episode: Episode) -> Attempt:
    calls = episode.trajectory.calls
    outcome, heldout = episode.outcome, episode.heldout
    lost = outcome if isinstance(outcome, Unscored) else None
    return Attempt(
        episode.id,
        episode.stop_reason,
        outcome.raw if isinstance(outcome, Scored) else None,
        lost.cause.value if lost else None,
        lost.detail if lost else None,
        heldout.raw if isinstance(heldout, Scored) else None,
        len(calls),
        sum(not call.name for call in calls),
        episode.trajectory.n_repeated_calls,
    )
