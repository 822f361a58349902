"""Aggregation: per-token values become one number, once, over the global batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Aggregate:
    """How token values are averaged.

    - "token_mean": 1 / (tokens of the batch). Long episodes weigh more (DAPO).
    - "sequence_mean": 1 / (episodes · tokens of the episode). The original GRPO.
    - "constant": 1 / (episodes · `length`), so no length bias (Dr.GRPO).
    """

    kind: Literal["token_mean", "sequence_mean", "constant"] = "token_mean"
    length: int | None = None

    def __post_init__(self) -> None:
        if self.kind == "constant" and self.length is not None and self.length <= 0:
            raise ValueError(f"aggregate: length must be positive, got {self.length}")


def token_coefficients(episode_T: Tensor, rule: Aggregate) -> Tensor:
    """c_t such that loss = Σ_t c_t · value_t over the whole batch.

    Computed once, over all micro-batches and ranks, before any of them is evaluated: however the
    batch is then split, the sum is the same.

    Args:
        episode_T: int [T], the episode of each action token of the global batch.

    Returns:
        coefficient_T: float32 [T]; sums to 1 for "token_mean" and "sequence_mean".
    """
    assert episode_T.dim() == 1
    n_tokens = episode_T.numel()
    if n_tokens == 0:
        return torch.zeros(0)
    if rule.kind == "token_mean":
        return torch.full((n_tokens,), 1.0 / n_tokens)
    _, index_T, count_E = torch.unique(episode_T, return_inverse=True, return_counts=True)
    n_episodes = count_E.numel()
    if rule.kind == "sequence_mean":
        tokens_T = count_E[index_T].to(torch.float32)
        return torch.reciprocal(n_episodes * tokens_T)
    if rule.length is None:
        raise ValueError("aggregate: kind 'constant' needs length, in tokens (Dr.GRPO's L_max)")
    return torch.full((n_tokens,), 1.0 / (n_episodes * rule.length))
