"""The rows that a reader gives back."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from numpy.typing import ArrayLike


@dataclass(frozen=True, slots=True)
class StepRecord:
    """The numbers of one step; `values` leaves out nothing, a missing one is NaN."""

    phase: str
    step: int
    version: int | None
    time: float
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Tally:
    """Successes among the episodes that have a verdict, and how many have none."""

    solved: int
    n: int
    unscored: int


@dataclass(frozen=True, slots=True)
class TrainingRewards:
    """The training episodes of one step, those of unused groups too: the figures say how good the
    policy is, not what dynamic sampling kept.

    `raw` is the mean raw reward of the scored, None without any. `paired` of them have the held-out
    checks' verdict too: the verifier passes `paired_passed` of these, and those checks
    `paired_heldout`.
    """

    tally: Tally
    raw: float | None
    paired: int
    paired_passed: int
    paired_heldout: int


@dataclass(frozen=True, slots=True)
class EvaluationRecord:
    """One evaluation; `seconds` is its wall time, where it was recorded."""

    name: str
    split: str
    step: int
    time: float
    seconds: float | None
    tally: Tally


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """One training group; `rewards` are raw, as its verdict. `distinct_files` counts the
    different final workspaces in it."""

    id: str
    step: int
    task: str
    kind: str
    split: str
    verdict: str
    used: bool
    rewards: tuple[float | None, ...]
    distinct_files: int


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """An episode's row, without its tokens, turns and files. `solved` is None if unknown.

    `reward` is what training saw, `raw` what the verifier said; `components` are the parts of a
    shaped reward, `potentials` those before each turn. Of its `n_calls` tool calls,
    `n_call_errors` were answered with an error and `n_repeated_calls` equal the call just before
    in name and arguments. `oldest_version` is the oldest policy that sampled one of its tokens.
    """

    id: str
    group: str
    task: str
    kind: str
    split: str
    purpose: str
    step: int
    evaluation: str | None
    sample: int
    seed: int | None
    stop_reason: str
    reward: float | None
    raw: float | None
    components: dict[str, float]
    potentials: tuple[float, ...]
    cause: str | None
    cause_detail: str | None
    heldout_reward: float | None
    heldout_cause: str | None
    solved: bool | None
    n_turns: int
    n_calls: int
    n_call_errors: int
    n_repeated_calls: int
    oldest_version: int | None
    n_action_tokens: int
    n_tokens: int
    seconds: dict[str, float]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; `time` in seconds since the epoch."""

    time: float
    step: int | None
    kind: str
    text: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TokenFields:
    """What the learner computed of one segment: one value per action token, in order.

    Nats, except `advantage` and the flags `limited`; NaN for a token that was not evaluated. None
    leaves what is recorded. `log_ratio` is log π/prox in the batch's last optimiser step.
    """

    episode: str
    segment: int
    prox_logp: ArrayLike | None = None
    advantage: ArrayLike | None = None
    entropy: ArrayLike | None = None
    log_ratio: ArrayLike | None = None
    limited: ArrayLike | None = None

    def given(self) -> dict[str, ArrayLike]:
        """The fields that are not None, by name."""
        values = {name: getattr(self, name) for name in TOKEN_FIELDS}
        return {name: value for name, value in values.items() if value is not None}


TOKEN_FIELDS = tuple(f.name for f in fields(TokenFields))[2:]
"""The names of what the learner computes, as the columns are called."""
