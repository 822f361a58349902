"""Penalties and shaping: KL to the reference, entropy, covariance, length, potentials."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from steelyard.objective.checks import given, require
from steelyard.objective.credit import CreditRule, Filter, GroupComparison
from steelyard.objective.ragged import Runs
from steelyard.objective.returns import td_error

KLEstimator: TypeAlias = Literal["k1_reward", "k2", "k3", "k3_k2", "k3_ratio", "full"]


@dataclass(frozen=True, slots=True)
class KL:
    """coefficient · KL(π ‖ π_ref), estimated at the sampled tokens, or over the vocabulary.

    With x = log π − log π_ref, on-policy:

    | estimator | value | expected gradient |
    |---|---|---|
    | "k1_reward" | x, detached, taken off the reward | ∇ KL(π ‖ ref), through the policy gradient |
    | "k2" | x²/2 | ∇ KL(π ‖ ref) |
    | "k3" | e^{−x} − 1 + x | ∇ KL(ref ‖ π), the other direction |
    | "k3_k2" | k3 | that of k2 |
    | "k3_ratio" | ρ k3, ρ with gradient | ∇ KL(π ‖ ref), also where ρ ≠ 1 |
    | "full" | Σ_v π (log π − log ref) | exact, and costs the vocabulary |

    k1 as a loss is not offered: its expected gradient is 0. Source: Schulman 2020 (estimators);
    arXiv 2510.01555 (gradients); DeepSeek-V3.2 (ρ k3).
    """

    coefficient: float = 1e-3
    estimator: KLEstimator = "k2"

    def __post_init__(self) -> None:
        require(
            0.0 < self.coefficient < torch.inf,
            f"kl: coefficient must be above 0, got {self.coefficient}; to switch it off write "
            "kl = 'none'",
        )


def kl_value(
    logp_T: Tensor,
    reference_logp_T: Tensor,
    estimator: KLEstimator,
    log_ratio_T: Tensor | None = None,
) -> Tensor:
    """The estimator's value per token, with the gradient that the table of `KL` states.

    Args:
        log_ratio_T: log ρ with gradient, for "k3_ratio".
    """
    x_T = logp_T - reference_logp_T.detach()
    match estimator:
        case "k1_reward":
            return x_T.detach()
        case "k2":
            return x_T.square() / 2
        case "k3":
            return torch.expm1(-x_T) + x_T
        case "k3_k2":
            k2_T = x_T.square() / 2
            return (torch.expm1(-x_T) + x_T).detach() + (k2_T - k2_T.detach())
        case "k3_ratio":
            return given(log_ratio_T).exp() * (torch.expm1(-x_T) + x_T)
    raise AssertionError(f"{estimator!r} needs the vocabulary: distillation.divergence")


def entropy(logit_CV: Tensor) -> Tensor:
    """H_t = −Σ_v p_v log p_v in nats, with gradient: [C]."""
    logp_CV = logit_CV.log_softmax(-1)
    # A token that constrained decoding excludes has logit −∞ and contributes 0.
    return -(logp_CV.exp() * torch.where(logp_CV == -torch.inf, 0.0, logp_CV)).sum(-1)


@dataclass(frozen=True, slots=True)
class ClipCov:
    """Drops the gradient of a random `fraction` of the tokens whose centred product
    (log π − mean)(A − mean) lies in (lowest, highest). Cui et al. 2025, whose code opens the
    policy's clip to ±1 (`limit = { low = 1, high = 1 }`); the limit here stays the row's."""

    fraction: float = 2e-4
    lowest: float = 1.0
    highest: float = 5.0

    def __post_init__(self) -> None:
        _require_fraction(self.fraction)


@dataclass(frozen=True, slots=True)
class KLCov:
    """Adds coefficient · |log π − log π_prox| to the loss of the `fraction` of tokens with the
    largest covariance. Cui et al. 2025: a fraction of 2e-3 for 7B, 2e-4 for 32B."""

    fraction: float = 2e-3
    coefficient: float = 1.0

    def __post_init__(self) -> None:
        _require_fraction(self.fraction)


def _require_fraction(fraction: float) -> None:
    sentence = f"covariance: fraction must lie in (0, 1], got {fraction}; .002 is .2 %"
    require(0.0 < fraction <= 1.0, sentence)


def covariance(logp_T: Tensor, advantage_T: Tensor) -> Tensor:
    """c_t = (log π_t − mean)(A_t − mean) over the batch: what makes entropy fall."""
    logp_T, advantage_T = logp_T.detach(), advantage_T.detach()
    return (logp_T - logp_T.mean()) * (advantage_T - advantage_T.mean())


def covariance_choice(
    logp_T: Tensor, advantage_T: Tensor, rule: ClipCov | KLCov, seed: int = 0
) -> Tensor:
    """Which tokens the rule acts on: bool [T].

    Chosen once over the whole batch from the log-probs at its start, so that micro-batches do not
    change the choice.
    """
    covariance_T = covariance(logp_T, advantage_T)
    count = min(max(1, int(rule.fraction * len(covariance_T))), len(covariance_T))
    if isinstance(rule, KLCov):
        chosen = covariance_T.topk(count).indices
    else:
        inside = ((covariance_T > rule.lowest) & (covariance_T < rule.highest)).nonzero()[:, 0]
        order = torch.randperm(len(inside), generator=torch.Generator().manual_seed(seed))
        chosen = inside[order[:count]]
    return torch.zeros_like(advantage_T, dtype=torch.bool).index_fill(0, chosen, True)


def overlong_penalty(length_E: Tensor, *, longest: int, buffer: int) -> Tensor:
    """0 up to longest − buffer, then falling linearly to −1 at `longest`, and −1 beyond.

    Added to the reward. A group must be judged mixed by what it solved, not by this: lengths
    always differ. Source: DAPO §3.4, eq. 13 (§4.1: 20480 and 4096 tokens).
    """
    sentence = f"overlong: buffer must lie in (0, longest], got {buffer=}, {longest=}"
    require(0 < buffer <= longest, sentence)
    return ((longest - buffer - length_E) / buffer).clamp(-1.0, 0.0)


def potential_reward(
    potential_K: Tensor, episodes: Runs, gamma: float = 1.0, after_E: Tensor | None = None
) -> Tensor:
    """F_k = γ Φ(h_{k+1}) − Φ(h_k), which leaves the optimal policies as they are.

    Args:
        potential_K: Φ of the history before turn k.
        after_E: Φ after the last turn. It must be 0 where the episode terminates; another value
            pays for how it ended.

    Source: Ng, Harada and Russell 1999, theorem 1.
    """
    nothing_K = torch.zeros_like(potential_K)
    return td_error(nothing_K, potential_K, episodes, gamma=gamma, after_E=after_E)


def shaping_warning(rule: CreditRule | None, gamma: float = 1.0) -> str:
    """One sentence if potential-based shaping cannot be seen by this credit, else empty.

    Summed over an episode with γ = 1 the shaping telescopes to −Φ(h_0), which every episode of a
    group shares.
    """
    by_episode = isinstance(rule, GroupComparison) and rule.level == "episode"
    if gamma != 1.0 or not (by_episode or isinstance(rule, Filter)):
        return ""
    return (
        "potential-based shaping telescopes to the constant −Φ(start) in an episode's return, "
        "so a comparison of episodes gets nothing from it; use credit at level 'turn' or GAE"
    )
