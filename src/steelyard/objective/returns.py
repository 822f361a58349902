"""From rewards and values to returns and advantages, over turns or over tokens.

X is either axis. Observation tokens are not part of it: what a token-level estimator carries
from one action token to the next crosses the observation between them unchanged.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from steelyard.objective.checks import require, require_finite
from steelyard.objective.ragged import Runs


class Advantages(NamedTuple):
    """`advantage_X` and the critic's regression target `target_X` = advantage + value."""

    advantage_X: Tensor
    target_X: Tensor


def reward_to_go(reward_X: Tensor, episodes: Runs, gamma: float = 1.0) -> Tensor:
    """R_k = Σ_{j ≥ k} γ^{j−k} r_j.

    Args:
        reward_X: the reward that followed entry k, `gamma` per entry.

    Returns:
        Like the rewards [X]. With an outcome reward and γ = 1 it is the outcome, at every step.

    Source: Williams 1992 (REINFORCE); Sutton et al. 2000, theorem 1.
    """
    return episodes.sum_to_go(reward_X, gamma).to(reward_X.dtype)


def td_error(
    reward_X: Tensor,
    value_X: Tensor,
    episodes: Runs,
    *,
    gamma: float = 1.0,
    after_E: Tensor | None = None,
) -> Tensor:
    """δ_k = r_k + γ V(h_{k+1}) − V(h_k).

    Args:
        value_X: V of the history before entry k; for a token at position t it is read at t − 1.
        after_E: V after the last entry of each episode: 0 where it terminated, the critic's value
            where it was truncated. None means that every episode terminated.

    With V from Monte-Carlo continuations or from a process reward model this is their advantage
    (VinePPO). Source: Sutton 1988.
    """
    following_X = episodes.next(value_X, after_E)
    return torch.add(reward_X.to(value_X.dtype), following_X, alpha=gamma) - value_X


def gae(
    reward_X: Tensor,
    value_X: Tensor,
    episodes: Runs,
    *,
    gamma: float = 1.0,
    lam: float = 0.95,
    after_E: Tensor | None = None,
) -> Advantages:
    """A_k = δ_k + γλ A_{k+1}, target_k = A_k + V(h_k).

    λ = 0 is the TD error, λ = 1 with γ = 1 the Monte-Carlo return minus the value.

    Args:
        after_E: as in `td_error`. A truncated episode needs its value there, or the critic learns
            that running out of tokens is worthless.

    The target is taken here, before anyone whitens the advantage: a whitened target would teach
    the critic another scale. λ is per action token or per turn, whichever X is: over tokens
    λ = .95 leaves .0059 of a terminal reward after 100.

    Source: Schulman et al. 2016 (GAE), eq. 16; λ = .95 PPO 2017, table 3.
    """
    delta_X = td_error(reward_X, value_X, episodes, gamma=gamma, after_E=after_E)
    advantage_X = episodes.sum_to_go(delta_X, gamma * lam).to(value_X.dtype)
    return Advantages(advantage_X, advantage_X + value_X)


def bilevel_gae(
    reward_K: Tensor,
    value_T: Tensor,
    turns: Runs,
    episodes: Runs,
    *,
    turn_gamma: float = 0.95,
    turn_lam: float = 1.0,
    gamma: float = 1.0,
    lam: float = 1.0,
    after_E: Tensor | None = None,
) -> Advantages:
    """GAE over turns, whose return is then the terminal reward of a GAE inside each turn.

    δ_k = r_k + γ_turn V_{k+1} − V_k with V_k read before the turn's last token; the turn's return
    A_k + V_k ends the tokens of that turn and of no other.

    Args:
        reward_K: after each turn. A turn whose reward is 0 stays a turn: boundaries are given by
            `turns`, never found in the rewards.
        turns: the tokens of each turn; `episodes`: the turns of each episode.

    Source: VAGEN (Wang et al. 2025), bi-level GAE.
    """
    value_K = value_T[turns.last_R]
    outer = gae(reward_K, value_K, episodes, gamma=turn_gamma, lam=turn_lam, after_E=after_E)
    reward_T = torch.zeros_like(value_T)
    reward_T[turns.last_R] = outer.target_X.to(reward_T.dtype)
    return gae(reward_T, value_T, turns, gamma=gamma, lam=lam)


def whiten(advantage_X: Tensor, epsilon: float = 1e-8) -> Tensor:
    """(A − mean) / (std + ε), over the whole batch; std with ddof 1."""
    if len(advantage_X) < 2:
        return advantage_X - advantage_X.mean() if len(advantage_X) else advantage_X
    return (advantage_X - advantage_X.mean()) / (advantage_X.std() + epsilon)


def continuation_values(reward_C: Tensor, state_C: Tensor) -> tuple[Tensor, Tensor]:
    """V̂(h) = (1/K) Σ_k R(continuation k), over the scored continuations of each history.

    Args:
        reward_C: rewards of scored continuations only.
        state_C: int, the history that each continues.

    Returns:
        value_S and state_S: the value and the label of every history that has at least one scored
        continuation; others are absent. The standard error of a binary reward is √(V(1−V)/K).

    Source: VinePPO (Kazemnejad et al. 2024).
    """
    require_finite(reward_C, "a continuation's reward")
    state_S, index_C, count_S = torch.unique(state_C, return_inverse=True, return_counts=True)
    total_S = torch.zeros(len(state_S), dtype=torch.float64)
    total_S.index_add_(0, index_C, reward_C.double())
    return (total_S / count_S).to(reward_C.dtype), state_S


def process_values(score_K: Tensor, episodes: Runs) -> Tensor:
    """V_k = Π_{j ≤ k} p_j, the probability that no step up to k is wrong.

    Args:
        score_K: in (0, 1], a process reward model's probability that step k is right.

    As a value substitute, V_k stands for the history after step k; as step rewards the scores
    themselves are added to `reward_K`. The product falls with length, so long correct solutions
    look worse than short ones. Source: Lightman et al. 2023 (PRM800K).
    """
    possible = bool(((score_K > 0) & (score_K <= 1)).all())
    require(possible, "process scores: each must lie in (0, 1]; they are probabilities")
    return episodes.running_sum(score_K.double().log()).exp().to(score_K.dtype)


def explained_variance(value_X: Tensor, target_X: Tensor) -> float | None:
    """1 − Var(target − value) / Var(target): 1 perfect, 0 no better than a constant.

    None where the targets do not vary, since nothing is there to explain.
    """
    variance = float(target_X.double().var(unbiased=False)) if len(target_X) else 0.0
    if variance < 1e-12:
        return None
    return 1.0 - float((target_X.double() - value_X.double()).var(unbiased=False)) / variance
