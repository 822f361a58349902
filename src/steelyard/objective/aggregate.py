"""Aggregation: per-token values become one number, once, over the global batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from steelyard.objective.checks import require
from steelyard.objective.ragged import Tokens, dense


@dataclass(frozen=True, slots=True)
class Aggregate:
    """How token values are averaged.

    - "token_mean": 1 / (tokens of the batch). Long episodes weigh more (DAPO, as trainers have it).
    - "sequence_mean": 1 / (episodes · tokens of the episode). The original GRPO.
    - "prompt_mean": 1 / (groups · tokens of the group). Every task weighs the same (DAPO, eq. 12).
    - "constant": 1 / (episodes · `length`), so no length bias (Dr.GRPO); length 1 is the mean over
      episodes of their sums (REINFORCE). Some trainers omit the division by episodes.
    """

    kind: Literal["token_mean", "sequence_mean", "prompt_mean", "constant"] = "token_mean"
    length: int | None = None

    def __post_init__(self) -> None:
        positive = self.length is None or self.length > 0
        require(positive, f"aggregate: length must be positive, got {self.length}")


@dataclass(frozen=True, slots=True)
class Totals:
    """What the denominators count, over all micro-batches and ranks."""

    tokens: int
    episodes: int
    groups: int

    @classmethod
    def of(cls, tokens: Tokens) -> Totals:
        """Of one part of the batch. Parts are added; no group may be in two of them."""
        return cls(len(tokens), len(tokens.episodes), len(torch.unique(tokens.groups_E())))

    def __add__(self, other: Totals) -> Totals:
        return Totals(
            self.tokens + other.tokens,
            self.episodes + other.episodes,
            self.groups + other.groups,
        )


def token_coefficients(
    tokens: Tokens,
    rule: Aggregate,
    totals: Totals | None = None,
    *,
    dtype: torch.dtype = torch.float32,
) -> Tensor:
    """c_t such that loss = Σ_t c_t · value_t over the whole batch.

    Computed before any micro-batch is evaluated: however the batch is then split, the sum is the
    same.

    Args:
        tokens: those of this rank; all tokens of every episode (of every group, for
            "prompt_mean") that has any here.
        totals: counted over all ranks; None means that `tokens` is the whole batch.

    Returns:
        coefficient_T: `dtype` [T]; over the whole batch it sums to 1, except for "constant".
    """
    if len(tokens) == 0:
        return torch.zeros(0, dtype=dtype)
    totals = totals or Totals.of(tokens)
    match rule.kind:
        case "token_mean":
            return torch.full((len(tokens),), 1.0 / totals.tokens, dtype=dtype)
        case "sequence_mean":
            episodes = tokens.episodes
            weight_E = (totals.episodes * episodes.length_R).to(dtype).reciprocal()
            return episodes.spread(weight_E)
        case "prompt_mean":
            index_E, n_groups = dense(tokens.groups_E())
            count_G = torch.zeros(n_groups, dtype=torch.int64)
            count_G.index_add_(0, index_E, tokens.episodes.length_R)
            weight_E = (totals.groups * count_G[index_E]).to(dtype).reciprocal()
            return tokens.episodes.spread(weight_E)
        case "constant":
            if rule.length is None:
                raise ValueError(
                    "aggregate: kind 'constant' needs length, in tokens (Dr.GRPO's L_max)"
                )
            return torch.full((len(tokens),), 1.0 / (totals.episodes * rule.length), dtype=dtype)
