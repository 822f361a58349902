"""What an episode was worth: scored with its checks, or unscored with its cause.

An error is never a zero. A verifier that crashed, a sandbox that could not start and a reward
that could not be read say nothing about the policy, so they carry no reward at all: they leave
the group, its baseline and the loss, and are counted under their cause.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias


class Cause(StrEnum):
    """Why an episode has no reward."""

    VERIFIER_ERROR = "verifier_error"
    """The verifier itself failed: it crashed, or the task is broken."""
    VERIFIER_TIMEOUT = "verifier_timeout"
    """The verifier did not finish in its time for a reason other than the graded code."""
    MALFORMED_REWARD = "malformed_reward"
    """The verifier finished and left a reward that is missing, not a number or out of range."""
    SANDBOX_FAILURE = "sandbox_failure"
    """The sandbox could not be started or died."""
    INFRASTRUCTURE_FAILURE = "infrastructure_failure"
    """Engine, disk, or anything else of ours."""


@dataclass(frozen=True, slots=True)
class Check:
    """One named behavioural test with its verdict; `detail` says what was seen if it failed."""

    name: str
    passed: bool
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Scored:
    """A reward that the verifier vouches for, and every named check behind it.

    `reward` is what training sees, `raw` what the verifier said: the same unless the reward was
    shaped, and then `components` holds its parts by name. `checks` is empty where an episode was
    decided without running any (never submitted, truncated).
    """

    reward: float
    checks: tuple[Check, ...] = ()
    raw: float = math.nan
    components: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if math.isnan(self.raw):
            object.__setattr__(self, "raw", self.reward)
        if not math.isfinite(self.reward):
            raise ValueError(f"a reward must be finite, got {self.reward!r}")

    @property
    def solved(self) -> bool:
        """Whether the raw outcome counts as a success: full reward."""
        return self.raw >= 1.0


@dataclass(frozen=True, slots=True)
class Unscored:
    """No reward exists, and this is why."""

    cause: Cause
    detail: str = ""


Outcome: TypeAlias = Scored | Unscored
