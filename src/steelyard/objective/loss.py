"""The loss of each action token under an algorithm."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from steelyard.objective.algorithm import Algorithm
from steelyard.objective.limit import clip_min


class TokenLoss(NamedTuple):
    """`value_T` to be minimised (carries the gradient); `limited_T` marks tokens without one."""

    value_T: Tensor
    limited_T: Tensor


def token_loss(
    logp_T: Tensor, prox_logp_T: Tensor, advantage_T: Tensor, algorithm: Algorithm
) -> TokenLoss:
    """value_t = −min(ρ_t A_t, clip(ρ_t) A_t) with ρ_t = π_θ/π_prox; −A_t log π_θ without a ratio.

    Args:
        logp_T: float32 [T], the learner's log-probs of the sampled tokens, with gradient.
        prox_logp_T: float32 [T], the learner's own log-probs at the batch's start. On the first
            update they equal `logp_T` detached, and every ratio is exactly 1.
        advantage_T: float32 [T].

    At θ = prox every algorithm here has the gradient −A_t ∇log π_t.
    """
    assert logp_T.shape == prox_logp_T.shape == advantage_T.shape
    if algorithm.ratio == "none":
        return TokenLoss(-advantage_T * logp_T, torch.zeros_like(logp_T, dtype=torch.bool))
    ratio_T = torch.exp(logp_T - prox_logp_T.detach())
    if algorithm.limit is None:
        return TokenLoss(-ratio_T * advantage_T, torch.zeros_like(logp_T, dtype=torch.bool))
    objective_T, limited_T = clip_min(ratio_T, advantage_T, algorithm.limit)
    return TokenLoss(-objective_T, limited_T)
