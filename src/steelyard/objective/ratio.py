"""Ratios: how much likelier the policy makes what was sampled, in four scopes."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from steelyard.objective.checks import all_finite
from steelyard.objective.ragged import Runs, Tokens

Scope: TypeAlias = Literal["none", "token", "prefix", "sequence", "full"]


class LogRatio(NamedTuple):
    """`value_T` is log ρ_t, whose gradient is ∇ log π(token t) in every scope; `usable_T` is
    False where it is not finite, and there the value is 0 without a gradient."""

    value_T: Tensor
    usable_T: Tensor


def log_ratio(logp_T: Tensor, anchor_logp_T: Tensor, tokens: Tokens, scope: Scope) -> LogRatio:
    """log ρ_t, with x_t = log π_θ(token t) − log π_anchor(token t).

    - "token": x_t (PPO, GRPO, DAPO, CISPO).
    - "prefix": Σ_{k ≤ t} x_k, up to and with this token (CTPO).
    - "sequence": (1/n) Σ_k x_k over the episode's n action tokens (GSPO).
    - "full": Σ_k x_k over all of them: the exact weight of the whole trajectory.

    Beyond "token" the other tokens stand behind a stop-gradient (GSPO-token form:
    sg[s] · π/sg[π]), so that each turn keeps its own credit. For an advantage that is the same in
    the whole episode, the gradient of the "full" ratio itself is the sum over its tokens and that
    of the "sequence" ratio the mean. Without the stop-gradient a prefix ratio would weigh token k
    of n by n − k + 1 at θ = μ.

    Sums run over an episode's action tokens, observations not counted, across its segments. They
    are taken in float64.

    Args:
        logp_T: float32 [T], with gradient.
        anchor_logp_T: float32 [T], `prox` (or `behaviour`, for a row of the table that says so).
        tokens: all action tokens of every episode that occurs.

    A token with a non-finite log-prob is dropped, and in a wider scope with it every token whose
    sum it enters; the caller counts them. Nothing is clamped.

    Source: PPO 2017, eq. 6; GSPO (Zheng et al. 2025), eq. 7, 13 and 14; CTPO.
    """
    assert scope != "none"
    assert logp_T.shape == anchor_logp_T.shape == (len(tokens),)
    own_T = logp_T - anchor_logp_T.detach()
    whole = all_finite(own_T.detach())
    usable_T = torch.ones_like(own_T, dtype=torch.bool) if whole else torch.isfinite(own_T.detach())
    if not whole:
        own_T = torch.where(usable_T, own_T, 0.0)
    if scope == "token":
        return LogRatio(own_T, usable_T)
    episodes = tokens.episodes
    fixed_T = own_T.detach()
    value_T = _summed(fixed_T, episodes, scope)
    if own_T.requires_grad:
        value_T = value_T + (own_T - fixed_T)
    if whole:
        return LogRatio(value_T, usable_T)
    usable_T = _summed((~usable_T).to(own_T.dtype), episodes, scope) == 0
    return LogRatio(torch.where(usable_T, value_T, 0.0), usable_T)


def _summed(value_T: Tensor, episodes: Runs, scope: Scope) -> Tensor:
    if scope == "prefix":
        return episodes.running_sum(value_T).to(value_T.dtype)
    total_E = episodes.sum(value_T)
    total_E = total_E / episodes.length_R if scope == "sequence" else total_E
    return episodes.spread(total_E.to(value_T.dtype))
