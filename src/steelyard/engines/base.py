"""What every engine offers: tokens in, tokens and their log-probs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor


class EngineError(RuntimeError):
    """The engine failed or was closed; every request that waits for it gets this."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one call of `Session.sample` produced; the three lists are of one length.

    `logp` is log π(token) in nats under the distribution that was really sampled (after
    temperature; 0 for greedy decoding, whose distribution is a point). `version` is the policy
    version that sampled each token. `stopped` says that the last token is a stop token; otherwise
    the sample was cut at a limit.
    """

    token_ids: list[int]
    logp: list[float]
    version: list[int]
    stopped: bool


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counts since the engine started.

    `prefilled_tokens` went through the model without being sampled from; `reused_tokens` did not
    have to, because a cache already held them. `guessed_tokens` were drafted, and `held_guesses` of
    them were what was then sampled. `busy_seconds` is wall time spent in the model and the sampler.
    """

    sampled_tokens: int = 0
    prefilled_tokens: int = 0
    reused_tokens: int = 0
    guessed_tokens: int = 0
    held_guesses: int = 0
    steps: int = 0
    busy_seconds: float = 0.0
    load_seconds: float = 0.0


class Session(Protocol):
    """One episode's view of the engine."""

    async def sample(self, token_ids: Sequence[int], *, max_new_tokens: int) -> Sample:
        """Samples until a stop token or `max_new_tokens`.

        `token_ids` is the whole segment so far. What of it this session has cached (the longest
        common prefix with its earlier calls) is not computed again.

        Raises:
            ValueError: the request itself is impossible (no tokens, over the context limit…).
            EngineError: the engine failed, or this session was closed meanwhile.
        """
        ...

    def close(self) -> None:
        """Gives the session's cache back. Safe at any time, also twice."""
        ...


class Engine(Protocol):
    """Samples tokens from a policy version."""

    def open(self, seed: int) -> Session:
        """A session whose random stream depends on `seed` alone."""
        ...

    def load(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Swaps in new weights (Hugging Face state-dict names) at a decode-step boundary.

        Blocks until they are in and their fingerprint has been checked. Sequences in flight go on
        under the new weights.
        """
        ...

    def fingerprint(self) -> str:
        """A digest of the weights as the engine holds them."""
        ...

    @property
    def stats(self) -> EngineStats: ...

    def close(self) -> None:
        """Ends the engine; requests that still wait get an EngineError."""
        ...
