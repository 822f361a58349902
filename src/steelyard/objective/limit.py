"""Limits: what keeps one sample from moving the model too far.

They work on log ρ, so that a product over a long episode may be large without overflowing before
it is bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from steelyard.objective.checks import require
from steelyard.objective.ragged import Tokens


@dataclass(frozen=True, slots=True)
class ClipMin:
    """PPO's pessimistic clip: min(ρA, clip(ρ, 1 − low, 1 + high) A).

    `dual` c > 1 also bounds the other side: max(·, cA) for A < 0.
    """

    low: float = 0.2
    high: float = 0.2
    dual: float | None = None

    def __post_init__(self) -> None:
        require(
            0.0 <= self.low <= 1.0 and self.high >= 0.0,
            "limit: clip bounds are distances from 1 with 0 ≤ low ≤ 1 and high ≥ 0, got "
            f"low={self.low}, high={self.high}",
        )
        bounds = self.dual is None or self.dual > 1.0
        require(bounds, f"limit: dual is an absolute ratio above 1, got {self.dual}")


@dataclass(frozen=True, slots=True)
class StopGradientClip:
    """CISPO: sg[clip(ρ, lowest_ratio, highest_ratio)] · A · log π.

    Both bounds are **absolute ratios**, not distances from 1: some trainers read the same number
    as 1 + ε. No token's gradient is dropped. `lowest_ratio` 0 is MiniMax-M1's: no lower bound.
    """

    highest_ratio: float = 5.0
    lowest_ratio: float = 0.0

    def __post_init__(self) -> None:
        _require_ratios(self.lowest_ratio, self.highest_ratio)


@dataclass(frozen=True, slots=True)
class WideningWindow:
    """CTPO: PPO's min with the window [e^{−low·t^p}, e^{high·t^p}], t the action token's number.

    `power` p = .5 follows the spread of a sum of t independent terms; p = 0 is a fixed window.
    `upper_for_negative` adds the authors' code to the paper's formula: with A < 0 the ratio is
    bounded by the window's upper edge too, so no gradient flows above it.
    """

    low: float = 0.025
    high: float = 0.05
    power: float = 0.5
    upper_for_negative: bool = False

    def __post_init__(self) -> None:
        require(
            all(x >= 0.0 for x in (self.low, self.high, self.power)),
            "limit: the window's low and high are log-distances ≥ 0 and power is ≥ 0, got "
            f"{self.low}, {self.high}, {self.power}",
        )


@dataclass(frozen=True, slots=True)
class Mask:
    """ρA where lowest_ratio ≤ ρ ≤ highest_ratio, nothing elsewhere, whatever the sign of A."""

    lowest_ratio: float = 0.5
    highest_ratio: float = 2.0

    def __post_init__(self) -> None:
        _require_ratios(self.lowest_ratio, self.highest_ratio)


@dataclass(frozen=True, slots=True)
class Truncate:
    """sg[min(ρ, highest_ratio)] · A · log π: truncated importance sampling; no gradient is lost."""

    highest_ratio: float = 5.0

    def __post_init__(self) -> None:
        _require_ratios(0.0, self.highest_ratio)


Limit: TypeAlias = ClipMin | StopGradientClip | WideningWindow | Mask | Truncate


class Limited(NamedTuple):
    """`objective_T`, to be maximised, and `limited_T`: where the limit changed the gradient."""

    objective_T: Tensor
    limited_T: Tensor


def limit(log_ratio_T: Tensor, advantage_T: Tensor, tokens: Tokens, rule: Limit | None) -> Limited:
    """J_t, whose gradient is coefficient_t · A_t · ∇ log π_t.

    Args:
        log_ratio_T: float [T], log ρ with the gradient of log π (`ratio.log_ratio`).
        advantage_T: float [T].

    Without a rule J_t = ρ_t A_t. Where a rule's coefficient is a constant, J_t = coefficient · A ·
    log ρ: its gradient is that of coefficient · A · log π, and its value means nothing.

    The clip of PPO only removes an incentive: with A > 0 nothing is limited below, with A < 0
    nothing above, unless `dual` or `upper_for_negative` says so.

    Source: PPO 2017, eq. 7; Ye et al. 2020 (dual clip); DAPO §3.1; MiniMax-M1 §3.1; CTPO; Ionides
    2008 (truncation).
    """
    match rule:
        case None:
            none_T = torch.zeros_like(log_ratio_T, dtype=torch.bool)
            return Limited(log_ratio_T.exp() * advantage_T, none_T)
        case ClipMin():
            low = math.log1p(-rule.low) if rule.low < 1.0 else -math.inf
            top = None if rule.dual is None else math.log(rule.dual)
            return _clip_min(log_ratio_T, advantage_T, low, math.log1p(rule.high), top)
        case WideningWindow():
            width_T = tokens.ordinals().to(log_ratio_T.dtype).pow_(rule.power)
            low_T, high_T = -rule.low * width_T, width_T.mul_(rule.high)
            top_T = high_T if rule.upper_for_negative else None
            return _clip_min(log_ratio_T, advantage_T, low_T, high_T, top_T)
        case Mask():
            ratio_T = log_ratio_T.detach().exp()
            outside_T = (ratio_T < rule.lowest_ratio) | (ratio_T > rule.highest_ratio)
            # Zeroed before the exponential: 0 · ∞ would be NaN.
            kept_T = torch.where(outside_T, 0.0, log_ratio_T).exp() * advantage_T
            return Limited(torch.where(outside_T, 0.0, kept_T), outside_T)
        case StopGradientClip():
            return _constant(log_ratio_T, advantage_T, rule.lowest_ratio, rule.highest_ratio)
        case Truncate():
            return _constant(log_ratio_T, advantage_T, 0.0, rule.highest_ratio)


_Edge = TypeVar("_Edge", float, Tensor)


def _clip_min(
    log_ratio_T: Tensor, advantage_T: Tensor, low: _Edge, high: _Edge, top: _Edge | None
) -> Limited:
    """Which edge binds depends on the sign of A: `high` above for A > 0, for A < 0 `low` below
    and `top` above. That is the minimum of the two products, without an infinity in one."""
    gain_T, loss_T = log_ratio_T.clamp(max=high), log_ratio_T.clamp(min=low, max=top)
    # A weight of 0 or 1 picks without a branch, which the signs of A would make the CPU guess.
    bounded_T = torch.lerp(loss_T, gain_T, advantage_T.sign().clamp_(min=0.0).to(loss_T.dtype))
    limited_T = (bounded_T.detach() != log_ratio_T.detach()) & advantage_T.bool()
    return Limited(bounded_T.exp() * advantage_T, limited_T)


def _constant(log_ratio_T: Tensor, advantage_T: Tensor, lowest: float, highest: float) -> Limited:
    ratio_T = log_ratio_T.detach().exp()
    coefficient_T = ratio_T.clamp(lowest, highest)
    return Limited(coefficient_T * advantage_T * log_ratio_T, coefficient_T != ratio_T)


def _require_ratios(lowest: float, highest: float) -> None:
    require(
        0.0 <= lowest <= 1.0 <= highest and lowest < highest,
        f"limit: lowest_ratio = {lowest} and highest_ratio = {highest} are absolute ratios and "
        "must lie on either side of 1, the ratio of a fresh sample; for a distance ε from 1 "
        "write 1 − ε or 1 + ε",
    )
