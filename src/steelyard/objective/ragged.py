"""Flat, ragged tensors: what belongs together stands together, without padding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

_BLOCK = 32
"""Entries that are summed in one product. Short enough to stay in the cache."""


@dataclass(frozen=True)
class Runs:
    """Maximal runs of equal owners in an int tensor [X]; R runs, numbered in order.

    An owner's entries must be consecutive and in reading order. Sums are taken in float64, since
    a running sum over a batch of a million tokens would lose a float32 log-ratio of 1e-4.
    """

    start_R: Tensor
    length_R: Tensor
    size: int
    """Entries in all."""

    @classmethod
    def of(cls, owner_X: Tensor) -> Runs:
        """The runs of `owner_X`."""
        assert owner_X.dim() == 1
        size = len(owner_X)
        first = torch.zeros(min(size, 1), dtype=torch.int64)
        start_R = torch.cat([first, (owner_X[1:] != owner_X[:-1]).nonzero()[:, 0] + 1])
        stop_R = torch.cat([start_R[1:], torch.tensor([size])])[: len(start_R)]
        return cls(start_R, stop_R - start_R, size)

    def __len__(self) -> int:
        return len(self.start_R)

    @property
    def last_R(self) -> Tensor:
        """Where each run ends, inclusive."""
        return self.start_R + self.length_R - 1

    def spread(self, value_R: Tensor) -> Tensor:
        """Each entry's run's value."""
        return value_R.index_select(0, self.run_X)

    @cached_property
    def run_X(self) -> Tensor:
        """The run of each entry: int32, since half the bytes are half the time."""
        return torch.repeat_interleave(self.length_R.to(torch.int32), output_size=self.size)

    def ordinal_X(self) -> Tensor:
        """Place within the run, counted from 1: int32."""
        start_X = self.spread(self.start_R.to(torch.int32))
        return torch.arange(1, self.size + 1, dtype=torch.int32).sub_(start_X)

    def sum(self, value_X: Tensor) -> Tensor:
        """Σ over each run: float64 [R]."""
        if not len(self):
            return value_X.double()
        return torch.segment_reduce(value_X.double(), "sum", lengths=self.length_R, unsafe=True)

    def running_sum(self, value_X: Tensor) -> Tensor:
        """y_i = Σ_{j ≤ i, same run} x_j: float64 [X]."""
        y_X = value_X.to(torch.float64, copy=True)
        # A run's first entry takes off what the run before it has summed up to.
        y_X[self.start_R[1:]] -= self.sum(y_X)[:-1]
        return y_X.cumsum_(0)

    def sum_to_go(self, value_X: Tensor, factor: float = 1.0) -> Tensor:
        """y_i = x_i + factor · y_{i+1} within each run: float64 [X].

        Entries must be finite. The rounding error is 1e-16 of the greatest sum of any run, since
        what a run passes back to the one before it is taken off again.
        """
        y_X = torch.empty(self.size + -self.size % _BLOCK, dtype=torch.float64)
        y_X[: self.size], y_X[self.size :] = value_X, 0.0
        # As if all runs were one; then each run's last entry pays for what the next passes back.
        first_R = _sum_to_go(y_X, factor)[self.start_R]
        first_R[:-1] -= factor ** self.length_R[:-1].double() * first_R[1:]
        y_X.index_add_(0, self.last_R[:-1], first_R[1:], alpha=-factor)
        return _sum_to_go(y_X, factor)[: self.size]

    def next(self, value_X: Tensor, after_R: Tensor | None = None) -> Tensor:
        """x_{i+1} within the run; after its last entry, the run's own `after_R`, or 0."""
        following_X = torch.cat([value_X[1:], value_X[:1]])
        following_X[self.last_R] = 0.0 if after_R is None else after_R.to(value_X.dtype)
        return following_X


def _sum_to_go(value_X: Tensor, factor: float) -> Tensor:
    """y_i = x_i + factor · y_{i+1}, float64 [X], as two matrix products over blocks of W entries.

    The first sums within every block, with powers of the factor; what a block gets from the next
    one is the same recurrence over blocks, with factor^W. All powers are ≥ 0, so a discount never
    grows.
    """
    if len(value_X) <= 1:
        return value_X
    missing = -len(value_X) % _BLOCK
    padded_X = functional.pad(value_X, (0, missing)) if missing else value_X
    place_W = torch.arange(_BLOCK, dtype=value_X.dtype)
    power_WW = (factor ** (place_W[:, None] - place_W).clamp(min=0.0)).tril()
    y_BW = padded_X.view(-1, _BLOCK) @ power_WW
    next_B = _sum_to_go(y_BW[:, 0], factor**_BLOCK)[1:]
    y_BW[:-1].addmm_(next_B[:, None], factor ** (_BLOCK - place_W)[None])
    return y_BW.view(-1)[: len(value_X)]


def dense(owner_X: Tensor) -> tuple[Tensor, int]:
    """Numbers owners 0 … n − 1, in the order of their labels; entries may stand anywhere."""
    labels, index_X = torch.unique(owner_X, return_inverse=True)
    return index_X, len(labels)


@dataclass(frozen=True)
class Tokens:
    """Whose token it is: int64 [T] each, over the action tokens of scored episodes.

    An episode's tokens are consecutive and in reading order, across its segments; those of a turn
    and of a segment are consecutive within it. Everything here lives on the CPU: it is small.

    `ordinal_T` is a token's place among its episode's action tokens, from 1. None counts those
    at hand; `take` keeps the places that the tokens had.
    """

    turn_T: Tensor
    segment_T: Tensor
    episode_T: Tensor
    group_T: Tensor
    ordinal_T: Tensor | None = None

    def __post_init__(self) -> None:
        shape = self.episode_T.shape
        assert all(x.shape == shape for x in (self.turn_T, self.segment_T, self.group_T))

    def __len__(self) -> int:
        return len(self.episode_T)

    def take(self, index_T: Tensor) -> Tokens:
        """The tokens at ascending `index_T`."""
        return Tokens(
            self.turn_T[index_T],
            self.segment_T[index_T],
            self.episode_T[index_T],
            self.group_T[index_T],
            self.ordinals()[index_T],
        )

    def ordinals(self) -> Tensor:
        """`ordinal_T`, counted if it was not given."""
        return self.episodes.ordinal_X() if self.ordinal_T is None else self.ordinal_T

    @cached_property
    def episodes(self) -> Runs:
        """The tokens of each episode."""
        return Runs.of(self.episode_T)

    def groups_E(self) -> Tensor:
        """The group of each episode that has tokens."""
        return self.group_T[self.episodes.start_R]
