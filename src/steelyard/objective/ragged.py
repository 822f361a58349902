"""Flat, ragged tensors: what belongs together stands together, without padding."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


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
        """The run of each entry."""
        return torch.repeat_interleave(self.length_R, output_size=self.size)

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
        total_X = value_X.cumsum(0, dtype=torch.float64)
        before_R = total_X[self.start_R] - value_X[self.start_R].double()
        return total_X.sub_(self.spread(before_R))

    def sum_to_go(self, value_X: Tensor, factor: float = 1.0) -> Tensor:
        """y_i = x_i + factor · y_{i+1} within each run: float64 [X].

        All runs step back from their ends together, so this takes as many steps as the longest
        run has entries, however many runs there are.
        """
        y_X = value_X.double()
        if factor == 1.0:
            return self.spread(self.sum(y_X)) - self.running_sum(y_X) + y_X
        y_X = y_X.clone()
        length_R, order_R = self.length_R.sort(descending=True)
        last_R = self.last_R[order_R]
        longest = int(length_R[0]) if len(self) else 0
        # How many runs are longer than each distance from the end.
        remaining = len(self) - torch.bincount(length_R, minlength=longest + 1).cumsum(0)
        for distance, n in enumerate(remaining[1:longest].tolist(), start=1):
            here = last_R[:n] - distance
            y_X[here] += factor * y_X[here + 1]
        return y_X

    def next(self, value_X: Tensor, after_R: Tensor) -> Tensor:
        """x_{i+1} within the run; after its last entry, the run's own `after_R`."""
        following_X = torch.cat([value_X[1:], value_X[:1]])
        following_X[self.last_R] = after_R.to(value_X.dtype)
        return following_X


def all_finite(value_X: Tensor) -> bool:
    """Whether no entry is infinite or NaN. One pass: an infinity or a NaN spoils the sum, and a
    sum that is spoilt by overflow alone is looked at again."""
    return bool(torch.isfinite(value_X.sum())) or bool(torch.isfinite(value_X).all())


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
