"""Critics: what a history is worth, learned by regression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from steelyard.objective.checks import given, require


@dataclass(frozen=True, slots=True)
class Critic:
    """Where V comes from and how it learns.

    `kind` "network" is a model of its own (a copy of the policy's trunk with a value head);
    "head" is one linear layer on the policy's hidden states behind a stop-gradient, so that the
    value loss leaves the trunk's gradient exactly 0 (MIXER, Ranzato et al. 2016).
    `clip` bounds how far a value may move in one batch; None does not. `coefficient` weighs the
    value loss, which only moves the critic.
    """

    kind: Literal["network", "head"] = "network"
    clip: float | None = None
    coefficient: float = 1.0

    def __post_init__(self) -> None:
        weighs = 0.0 < self.coefficient < math.inf
        require(weighs, f"critic: coefficient must be above 0, got {self.coefficient}")
        moves = self.clip is None or self.clip > 0.0
        require(moves, f"critic: clip must be above 0, got {self.clip}; or leave it out")


def value_loss(
    value_X: Tensor,
    target_X: Tensor,
    *,
    old_value_X: Tensor | None = None,
    clip: float | None = None,
) -> Tensor:
    """L = ½ (V − R)², or ½ max[(V − R)², (clip(V, V_old ± ε) − R)²], per entry.

    Args:
        target_X: detached here; from `gae` before any whitening.
        old_value_X: the values at the batch's start; needed with `clip`.

    The clipped form has no gradient once V has moved ε towards its target; moving away from it
    is never excused. Source: PPO's reference implementation; Engstrom et al. 2020.
    """
    target_X = target_X.detach()
    plain_X = (value_X - target_X).square()
    if clip is None:
        return plain_X / 2
    old_X = given(old_value_X).detach()
    near_X = old_X + (value_X - old_X).clamp(-clip, clip)
    return torch.maximum(plain_X, (near_X - target_X).square()) / 2
