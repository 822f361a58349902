"""The small interface between the scheduler and a model's forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor


@dataclass(eq=False, slots=True)
class Row:
    """One session's sequence.

    The scheduler writes `tokens` and `prompt_tokens` (how many of them the session's first request
    brought: what a group is likely to share). `cached` is how many leading tokens need no further
    computation: a back end raises it, the scheduler lowers it where a sequence was rewritten.
    The last `guesses` tokens are guessed.
    """

    tokens: list[int] = field(default_factory=list)
    prompt_tokens: int = 0
    cached: int = 0
    guesses: int = 0

    def set_tokens(self, token_ids: Sequence[int]) -> None:
        """Replaces the sequence, keeping what its beginning has in common with the old one."""
        shared = common_prefix(self.tokens, token_ids)
        self.tokens = list(token_ids)
        self.cached = min(self.cached, shared, len(self.tokens) - 1)
        if shared < self.prompt_tokens or not self.prompt_tokens:
            self.prompt_tokens = len(self.tokens)

    def take_guesses(self) -> list[int]:
        """Removes the guesses and returns them."""
        known = len(self.tokens) - self.guesses
        guesses = self.tokens[known:]
        del self.tokens[known:]
        self.guesses = 0
        return guesses


class Backend(Protocol):
    """A model with its weights and its caches. Called from the engine's thread only."""

    name: str
    checks_guesses: bool
    """Whether rows may end in guesses; such a row is cached up to the token before them."""

    def next_logits(self, rows: Sequence[Row]) -> tuple[Tensor, list[Row]]:
        """Runs what is not cached of `rows`; the logits after each row's last token, and after the
        token before each guess.

        Returns float32 logits [rows + guesses, vocabulary], those of a row together, and the rows
        in the order of the logits. The caller may overwrite the logits.
        """
        ...

    def forget(self, row: Row) -> None:
        """Drops what is cached for `row`."""
        ...

    def reset(self) -> None:
        """Drops everything that is cached."""
        ...

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copies new weights in. The caller has dropped the caches."""
        ...

    def weights(self) -> Mapping[str, Tensor]:
        """The weights as they are held, under their Hugging Face names, each tensor once."""
        ...


def common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    """The number of leading elements that `a` and `b` share."""
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(i for i in range(n) if a[i] != b[i])
