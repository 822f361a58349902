"""Correction for who really sampled: the gap between μ and π_prox, and nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from steelyard.objective.checks import require
from steelyard.objective.ragged import Tokens
from steelyard.objective.ratio import log_ratio


@dataclass(frozen=True, slots=True)
class Correction:
    """k = π_prox / μ, truncated to min(k, highest_ratio) or masked to 0 outside the bounds.

    `scope` is the product that k is: one token's, or the whole episode's with or without length
    normalisation. `prox` says where π_prox comes from: "recomputed" by a pass over the batch
    before its first update; "first_pass", the same numbers taken on the way, right while a batch
    has one update; "interpolated" between μ and π_θ by version, without that pass (A-3PO).

    Truncation with `highest_ratio` ∞ is decoupled PPO, at 2 TIS as verl has it; a mask of
    [.5, 5] is IcePop.
    """

    kind: Literal["truncate", "mask"] = "truncate"
    highest_ratio: float = 2.0
    lowest_ratio: float = 0.0
    scope: Literal["token", "sequence", "full"] = "token"
    prox: Literal["recomputed", "first_pass", "interpolated"] = "first_pass"

    def __post_init__(self) -> None:
        require(
            0.0 <= self.lowest_ratio < self.highest_ratio,
            "correction: bounds are absolute ratios with 0 ≤ lowest_ratio < highest_ratio, "
            f"got {self.lowest_ratio}, {self.highest_ratio}",
        )
        require(
            self.kind == "mask" or self.lowest_ratio == 0.0,
            f"correction: truncation has no lower bound, got lowest_ratio={self.lowest_ratio}; "
            "use kind = 'mask', or drop it",
        )
        require(
            self.highest_ratio >= 1.0,
            f"correction: highest_ratio = {self.highest_ratio} would weigh down tokens on which "
            "the engine and the learner agree; it is an absolute ratio, at least 1",
        )


class CorrectionWeight(NamedTuple):
    """`weight_T`, detached; `limited_T`: truncated, masked, or not finite."""

    weight_T: Tensor
    limited_T: Tensor


def correction_weight(
    prox_logp_T: Tensor, behaviour_logp_T: Tensor, tokens: Tokens, rule: Correction
) -> CorrectionWeight:
    """w_t = min(k_t, C), or k_t · 1[lowest ≤ k_t ≤ highest], with k = π_prox / μ.

    The denominator of the loss still counts masked tokens. A non-finite log-prob gives weight 0.

    Source: Hilton et al. 2021 and AReaL, Fu et al. 2025 (decoupled PPO); Yao et al. 2025 (TIS);
    Ling team 2025 (IcePop).
    """
    log_k_T, usable_T = log_ratio(
        prox_logp_T.detach(), behaviour_logp_T.detach(), tokens, rule.scope
    )
    inside_T = log_k_T <= math.log(rule.highest_ratio)
    if rule.kind == "truncate":
        weight_T = log_k_T.clamp(max=math.log(rule.highest_ratio)).exp()
    else:
        if rule.lowest_ratio > 0.0:
            inside_T &= log_k_T >= math.log(rule.lowest_ratio)
        weight_T = torch.where(inside_T, log_k_T.exp(), 0.0)
    return CorrectionWeight(torch.where(usable_T, weight_T, 0.0), ~(inside_T & usable_T))


def interpolated_prox(
    logp_T: Tensor,
    behaviour_logp_T: Tensor,
    *,
    version_T: Tensor,
    prox_version: int,
    version: int,
) -> Tensor:
    """log π_prox ≈ log μ + α (log π_θ − log μ), α = (v_prox − v_μ) / (v_θ − v_μ).

    A token sampled by the present version has α = 1. One sampled by the version at the batch's
    start has α = 0 after the first update: prox is then μ, the engine's rounding included, which a
    window as narrow as GSPO's would notice. Detached. Source: A-3PO (Li et al. 2025) in AReaL.
    """
    age_T = (version - version_T).clamp(min=1)
    alpha_T = ((prox_version - version_T).double() / age_T).clamp(0.0, 1.0)
    alpha_T = torch.where(version_T >= version, 1.0, alpha_T).to(logp_T.dtype)
    logp_T, behaviour_logp_T = logp_T.detach(), behaviour_logp_T.detach()
    return behaviour_logp_T + alpha_T * (logp_T - behaviour_logp_T)
