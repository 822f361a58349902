"""Credit: what an episode was worth compared with the others of its group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """How a group's rewards become advantages.

    `baseline` "mean" subtracts the group mean, "leave_one_out" the mean of the others, "none"
    nothing. `scale` "std" divides by the group's standard deviation (`ddof` 1: sample, 0:
    population) plus `epsilon`.
    """

    baseline: Literal["none", "mean", "leave_one_out"] = "mean"
    scale: Literal["none", "std"] = "none"
    ddof: int = 1
    epsilon: float = 1e-4

    def __post_init__(self) -> None:
        if self.scale == "std" and self.baseline != "mean":
            raise ValueError(
                f"credit: scale 'std' is defined for baseline 'mean', not {self.baseline!r}: the "
                "deviation would be taken around another centre than the one subtracted"
            )


def group_advantage(
    reward_E: Tensor, group_E: Tensor, rule: GroupComparison
) -> tuple[Tensor, Tensor]:
    """A_i = (r_i − b_i) / s, with b and s taken over the scored episodes of i's group.

    Args:
        reward_E: float [E], the rewards of scored episodes only. Unscored ones never enter.
        group_E: int [E], the group of each episode.
        rule: the baseline and the scale.

    Returns:
        advantage_E: float32 [E].
        exists_E: bool [E]. A group of one has nothing to compare with: under a group baseline
            its advantage does not exist, and it must leave the batch (its entry is 0 and unused).
            Trainers that keep it train on the raw reward.

    An all-equal group gets exactly 0 everywhere, also under `scale="std"` (0 / ε, not NaN).

    Source: DeepSeekMath §4.1 (mean, std); Dr.GRPO §3.2 (no std); RLOO (leave one out, G/(G−1)
    times the centred reward).
    """
    assert reward_E.shape == group_E.shape
    assert reward_E.dim() == 1
    if not bool(torch.isfinite(reward_E).all()):
        raise ValueError("credit: a reward is not finite; unscored episodes must not be passed")
    reward_E = reward_E.to(torch.float32)
    _, index_E = torch.unique(group_E, return_inverse=True)
    n_groups = int(index_E.max()) + 1 if index_E.numel() else 0
    count_G = torch.zeros(n_groups).index_add_(0, index_E, torch.ones_like(reward_E))
    sum_G = torch.zeros(n_groups).index_add_(0, index_E, reward_E)
    count_E = count_G[index_E]
    exists_E = count_E >= 2
    if rule.baseline == "none":
        return reward_E.clone(), torch.ones_like(exists_E)
    centred_E = reward_E - sum_G[index_E] / count_E
    # Rounding must not turn an all-equal group into a signal.
    lowest_G = torch.full((n_groups,), torch.inf).scatter_reduce_(0, index_E, reward_E, "amin")
    highest_G = torch.full((n_groups,), -torch.inf).scatter_reduce_(0, index_E, reward_E, "amax")
    centred_E = torch.where((lowest_G == highest_G)[index_E], 0.0, centred_E)
    if rule.baseline == "leave_one_out":
        centred_E = centred_E * count_E / (count_E - 1).clamp(min=1)
    if rule.scale == "std":
        square_G = torch.zeros(n_groups).index_add_(0, index_E, centred_E**2)
        deviation_G = (square_G / (count_G - rule.ddof).clamp(min=1)).sqrt()
        centred_E = centred_E / (deviation_G[index_E] + rule.epsilon)
    return torch.where(exists_E, centred_E, 0.0), exists_E
