"""What happened, token by token, exactly as the model saw it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

NO_VERSION = -1
"""The policy version of a token that no policy sampled."""


@dataclass(slots=True)
class Segment:
    """One linear token sequence that grows only by appending.

    Per token: its id, whether the policy sampled it (an action) or only read it (context), the
    log-prob under the distribution that really sampled it (0 for context), and the policy version
    that sampled it (`NO_VERSION` for context).

    A segment whose context was forked, compacted or rewritten by its template names its `parent`
    segment (an index in the trajectory) and the token position at which it left it. Each sampled
    token is an action in exactly one segment; elsewhere it is context.
    """

    token_ids: list[int] = field(default_factory=list)
    action_mask: list[bool] = field(default_factory=list)
    behaviour_logp: list[float] = field(default_factory=list)
    version: list[int] = field(default_factory=list)
    parent: int | None = None
    fork_position: int | None = None

    def __len__(self) -> int:
        return len(self.token_ids)

    def append_context(self, token_ids: Sequence[int]) -> None:
        """Appends tokens that the policy did not sample: the prompt, an observation."""
        n = len(token_ids)
        self.token_ids.extend(token_ids)
        self.action_mask.extend([False] * n)
        self.behaviour_logp.extend([0.0] * n)
        self.version.extend([NO_VERSION] * n)

    def append_action(
        self, token_ids: Sequence[int], behaviour_logp: Sequence[float], version: Sequence[int]
    ) -> None:
        """Appends sampled tokens as they were sampled, stop token included; all of one length."""
        assert len(token_ids) == len(behaviour_logp) == len(version)
        self.token_ids.extend(token_ids)
        self.action_mask.extend([True] * len(token_ids))
        self.behaviour_logp.extend(behaviour_logp)
        self.version.extend(version)

    def read_only(self, start: int, stop: int) -> None:
        """Makes the actions in [start, stop) context: read on, never learned from."""
        n = stop - start
        self.action_mask[start:stop] = [False] * n
        self.behaviour_logp[start:stop] = [0.0] * n
        self.version[start:stop] = [NO_VERSION] * n

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The four per-token fields as arrays: int32, bool, float32, int32."""
        return {
            "token_ids": np.asarray(self.token_ids, dtype=np.int32),
            "action_mask": np.asarray(self.action_mask, dtype=np.bool_),
            "behaviour_logp": np.asarray(self.behaviour_logp, dtype=np.float32),
            "version": np.asarray(self.version, dtype=np.int32),
        }

    @property
    def n_action_tokens(self) -> int:
        return sum(self.action_mask)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call that the policy wrote, and what came back. `error` is set if it was refused."""

    name: str
    arguments: dict[str, Any]
    result: str
    error: bool = False


@dataclass(frozen=True, slots=True)
class Turn:
    """One action and the observation that followed, as half-open token ranges of one segment."""

    segment: int
    action: tuple[int, int]
    observation: tuple[int, int]
    text: str
    calls: tuple[ToolCall, ...] = ()


@dataclass(slots=True)
class Trajectory:
    """The segments and turns of one episode."""

    segments: list[Segment] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)

    @property
    def calls(self) -> list[ToolCall]:
        """Every tool call, in the order in which they were made."""
        return [call for turn in self.turns for call in turn.calls]

    @property
    def n_repeated_calls(self) -> int:
        """How many calls have the name and the arguments of the call before them."""
        return sum((a.name, a.arguments) == (b.name, b.arguments) for a, b in pairwise(self.calls))

    @property
    def n_action_tokens(self) -> int:
        return sum(s.n_action_tokens for s in self.segments)

    @property
    def n_tokens(self) -> int:
        return sum(len(s) for s in self.segments)
