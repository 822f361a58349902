"""An episode is one attempt at a task; a group is the attempts that are compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from steelyard.episodes.outcome import Cause, Outcome, Scored, Unscored
from steelyard.episodes.trajectory import Trajectory


class StopReason(StrEnum):
    """Why an episode ended."""

    SUBMITTED = "submitted"
    """The agent called `submit`, or gave its single answer."""
    TRUNCATED = "truncated"
    """A turn was cut before its stop token."""
    STUCK = "stuck"
    """The agent said the same over and over, refused each time: that is failing, not a limit that
    came too soon."""
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"
    TIME_LIMIT = "time_limit"
    FAILED = "failed"
    """Our own failure; the outcome is Unscored and names its cause."""


class OutcomeKind(StrEnum):
    """What an episode counts as: every episode is exactly one of these.

    Those before the causes carry a reward; a `Cause` never does.
    """

    SOLVED = "solved"
    """Full reward, however the episode ended."""
    WRONG = "wrong"
    """The agent handed in, and earned less than the full reward."""
    AGENT_TIMEOUT = "agent_timeout"
    TRUNCATED = "truncated"
    STUCK = "stuck"
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"
    VERIFIER_ERROR = Cause.VERIFIER_ERROR.value
    VERIFIER_TIMEOUT = Cause.VERIFIER_TIMEOUT.value
    MALFORMED_REWARD = Cause.MALFORMED_REWARD.value
    SANDBOX_FAILURE = Cause.SANDBOX_FAILURE.value
    INFRASTRUCTURE_FAILURE = Cause.INFRASTRUCTURE_FAILURE.value

    @property
    def scored(self) -> bool:
        """Whether an episode of this kind carries a reward."""
        return self.value not in set(Cause)


_ENDED_AS = {
    StopReason.SUBMITTED: OutcomeKind.WRONG,
    StopReason.TRUNCATED: OutcomeKind.TRUNCATED,
    StopReason.STUCK: OutcomeKind.STUCK,
    StopReason.TURN_LIMIT: OutcomeKind.TURN_LIMIT,
    StopReason.TOKEN_LIMIT: OutcomeKind.TOKEN_LIMIT,
    StopReason.TIME_LIMIT: OutcomeKind.AGENT_TIMEOUT,
}


def outcome_kind(outcome: Outcome, stop_reason: StopReason) -> OutcomeKind:
    """What an episode with this outcome, ended for this reason, counts as."""
    if isinstance(outcome, Unscored):
        return OutcomeKind(outcome.cause.value)
    return OutcomeKind.SOLVED if outcome.solved else _ENDED_AS[stop_reason]


_CUT = {
    StopReason.TRUNCATED,
    StopReason.TURN_LIMIT,
    StopReason.TOKEN_LIMIT,
    StopReason.TIME_LIMIT,
}


@dataclass(slots=True)
class Episode:
    """One attempt of an agent at a task: a Trajectory plus an Outcome.

    `heldout` grades the same final workspace with behaviour that the verifier does not try. It
    feeds monitoring and evaluation, never a reward, a baseline or a loss. It is None where the
    task has no held-out checks. `potentials` holds the potential of the state before each turn,
    for potential-based shaping; empty without. `seconds` holds wall time per phase
    ("sampling", "tools", "grading").
    """

    id: str
    task: str
    group: str
    trajectory: Trajectory
    outcome: Outcome
    stop_reason: StopReason
    heldout: Outcome | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    kind: str = ""
    potentials: tuple[float, ...] = ()

    @property
    def solved(self) -> bool | None:
        """Training and held-out checks all pass: what evaluations count. None without a verdict.

        A verifier's failure settles the answer whatever the held-out checks would have said. It is
        still None where those could not be scored: were failures counted there and passes not,
        what is missing would depend on the outcome, and every rate would be too low.
        """
        if isinstance(self.outcome, Unscored) or isinstance(self.heldout, Unscored):
            return None
        return self.outcome.solved and (self.heldout is None or self.heldout.solved)

    @property
    def truncated(self) -> bool:
        """Whether a limit ended it, not the agent: what would have come next is not known."""
        return self.stop_reason in _CUT

    @property
    def unscored(self) -> bool:
        return isinstance(self.outcome, Unscored)


class GroupVerdict(StrEnum):
    """What a group can teach: only a group of mixed raw outcomes carries a gradient."""

    MIXED = "mixed"
    ALL_PASS = "all_pass"
    ALL_FAIL = "all_fail"
    UNSCORED = "unscored"
    """Fewer than two scored episodes: nothing to compare."""


@dataclass(slots=True)
class Group:
    """The episodes of one task that are compared with each other."""

    id: str
    task: str
    episodes: list[Episode]

    @property
    def rewards(self) -> list[float]:
        """The rewards of the scored episodes, in episode order."""
        return [e.outcome.reward for e in self.episodes if isinstance(e.outcome, Scored)]

    @property
    def verdict(self) -> GroupVerdict:
        """Judged by the raw outcomes: lengths and shares of checks always differ a little."""
        raw = [e.outcome.raw for e in self.episodes if isinstance(e.outcome, Scored)]
        if len(raw) < 2:
            return GroupVerdict.UNSCORED
        if min(raw) < max(raw):
            return GroupVerdict.MIXED
        return GroupVerdict.ALL_PASS if min(raw) >= 1.0 else GroupVerdict.ALL_FAIL
