"""Limits: what keeps one sample from moving the model too far."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class ClipMin:
    """PPO's pessimistic clip with bounds 1 − `low` and 1 + `high`."""

    low: float = 0.2
    high: float = 0.2

    def __post_init__(self) -> None:
        if not 0.0 <= self.low < 1.0 or self.high < 0.0:
            raise ValueError(
                f"limit: clip bounds are distances from 1 with 0 ≤ low < 1 and high ≥ 0, got "
                f"low={self.low}, high={self.high}"
            )


def clip_min(ratio_T: Tensor, advantage_T: Tensor, limit: ClipMin) -> tuple[Tensor, Tensor]:
    """J_t = min(ρ_t A_t, clip(ρ_t, 1 − ε_l, 1 + ε_h) A_t).

    Args:
        ratio_T: float [T], π_θ/π_prox, carrying the gradient.
        advantage_T: float [T].

    Returns:
        objective_T: float [T], to be maximised.
        limited_T: bool [T], where the clipped term was smaller, so no gradient flows.

    The clip only ever removes an incentive: with A > 0 nothing is clipped below, with A < 0
    nothing above. Source: PPO (Schulman et al. 2017) eq. 7; separate bounds, DAPO §3.1.
    """
    plain_T = ratio_T * advantage_T
    clipped_T = ratio_T.clamp(1.0 - limit.low, 1.0 + limit.high) * advantage_T
    return torch.minimum(plain_T, clipped_T), (clipped_T < plain_T).detach()
