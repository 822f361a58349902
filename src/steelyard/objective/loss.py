"""The loss of each action token under an algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from steelyard.objective.algorithm import Algorithm
from steelyard.objective.correction import (
    CorrectionWeight,
    correction_weight,
    interpolated_prox,
)
from steelyard.objective.distillation import Distillation, divergence
from steelyard.objective.limit import limit
from steelyard.objective.penalty import ClipCov, KLCov, entropy, kl_value
from steelyard.objective.ragged import Tokens, all_finite
from steelyard.objective.ratio import LogRatio, log_ratio


class Versions(NamedTuple):
    """Policy versions: of each token's sampler, at the batch's start, and now."""

    token_T: Tensor
    prox: int
    policy: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """What stays the same while a batch is learned from. All [T], none with a gradient.

    `prox_logp_T` None stands for the present log-probs, which is what they are in a batch's first
    update. `wide_T` (log ρ in the algorithm's scope, by a pass without gradient; NaN where it has
    none) and `correction` are computed beforehand over whole episodes; needed only where an
    episode's tokens are evaluated apart. `chosen_T` are the tokens that the covariance rule acts
    on.
    """

    tokens: Tokens
    advantage_T: Tensor
    behaviour_logp_T: Tensor | None = None
    prox_logp_T: Tensor | None = None
    reference_logp_T: Tensor | None = None
    wide_T: Tensor | None = None
    correction: CorrectionWeight | None = None
    chosen_T: Tensor | None = None
    versions: Versions | None = None

    def take(self, index_T: Tensor) -> Fixed:
        """The part at ascending `index_T`."""
        versions = self.versions
        return Fixed(
            tokens=self.tokens.take(index_T),
            advantage_T=self.advantage_T[index_T],
            behaviour_logp_T=_at(self.behaviour_logp_T, index_T),
            prox_logp_T=_at(self.prox_logp_T, index_T),
            reference_logp_T=_at(self.reference_logp_T, index_T),
            wide_T=_at(self.wide_T, index_T),
            correction=self.correction
            and CorrectionWeight(*(column_T[index_T] for column_T in self.correction)),
            chosen_T=_at(self.chosen_T, index_T),
            versions=versions and versions._replace(token_T=versions.token_T[index_T]),
        )


class TokenLoss(NamedTuple):
    """`value_T` to be minimised (carries the gradient).

    `limited_T`: the limit took the gradient or changed its weight; `corrected_T`: so did the
    correction; `dropped_T`: a non-finite number, which contributes nothing.
    """

    value_T: Tensor
    limited_T: Tensor
    corrected_T: Tensor
    dropped_T: Tensor


def token_loss(logp_T: Tensor, fixed: Fixed, algorithm: Algorithm) -> TokenLoss:
    """value_t = −w_t J_t + β KL_t + covariance penalty, before any averaging.

    J_t is the limited surrogate (`limit`), or A_t log π_t without a ratio; w_t the correction.

    Args:
        logp_T: float32 [T], the learner's log-probs of the sampled tokens, with gradient.

    At θ = prox = μ every row of the table has the gradient −A_t ∇ log π_t, KL apart. Non-finite
    log-probs and products that overflow are dropped and marked, and the denominator still counts
    them.
    """
    assert logp_T.shape == fixed.advantage_T.shape
    prox_T = _prox(logp_T, fixed, algorithm)
    ratio = _log_ratio(logp_T, prox_T, fixed, algorithm)
    usable_T = ratio.usable_T
    if _has_sampled_kl(algorithm):
        assert fixed.reference_logp_T is not None
        usable_T = usable_T & torch.isfinite(fixed.reference_logp_T)
    correction = fixed.correction
    if algorithm.correction is not None and correction is None:
        assert fixed.behaviour_logp_T is not None
        correction = correction_weight(
            prox_T, fixed.behaviour_logp_T, fixed.tokens, algorithm.correction
        )
    whole = int(usable_T.count_nonzero()) == len(usable_T)
    while True:
        # What is not usable is replaced before it is computed with: a gradient through an
        # infinity is NaN even where it is not used.
        value_T, limited_T = _values(
            logp_T if whole else torch.where(usable_T, logp_T, 0.0),
            prox_T if whole else torch.where(usable_T, prox_T, 0.0),
            ratio.value_T if whole else torch.where(usable_T, ratio.value_T, 0.0),
            usable_T,
            correction,
            fixed,
            algorithm,
        )
        if all_finite(value_T.detach()):
            kept_T = value_T if whole else torch.where(usable_T, value_T, 0.0)
            untouched_T = torch.zeros_like(usable_T)
            corrected_T = untouched_T if correction is None else correction.limited_T
            return TokenLoss(kept_T, limited_T, corrected_T, ~usable_T)
        finite_T = torch.isfinite(value_T.detach())
        assert bool((usable_T & ~finite_T).any())
        usable_T, whole = usable_T & finite_T, False


def _values(
    logp_T: Tensor,
    prox_T: Tensor,
    log_ratio_T: Tensor,
    usable_T: Tensor,
    correction: CorrectionWeight | None,
    fixed: Fixed,
    algorithm: Algorithm,
) -> tuple[Tensor, Tensor]:
    """The loss of each token, and where the limit acted."""
    advantage_T, covariance = fixed.advantage_T, algorithm.covariance
    if algorithm.ratio == "none":
        objective_T, limited_T = advantage_T * logp_T, torch.zeros_like(usable_T)
    else:
        objective_T, limited_T = limit(log_ratio_T, advantage_T, fixed.tokens, algorithm.limit)
    if correction is not None:
        objective_T = torch.where(usable_T, correction.weight_T, 0.0) * objective_T
    if isinstance(covariance, ClipCov):
        assert fixed.chosen_T is not None
        objective_T = torch.where(fixed.chosen_T, objective_T.detach(), objective_T)
    value_T = -objective_T
    if isinstance(covariance, KLCov):
        assert fixed.chosen_T is not None
        distance_T = (logp_T - prox_T).abs()
        value_T = value_T + covariance.coefficient * torch.where(fixed.chosen_T, distance_T, 0.0)
    if _has_sampled_kl(algorithm):
        assert algorithm.kl is not None
        assert fixed.reference_logp_T is not None
        reference_T = torch.where(usable_T, fixed.reference_logp_T, 0.0)
        kl_T = kl_value(logp_T, reference_T, algorithm.kl.estimator, log_ratio_T)
        value_T = value_T + algorithm.kl.coefficient * kl_T
    return value_T, limited_T


def _has_sampled_kl(algorithm: Algorithm) -> bool:
    """Whether the KL penalty is a term of each sampled token's loss."""
    return algorithm.kl is not None and algorithm.kl.estimator not in ("k1_reward", "full")


def vocabulary_loss(
    logit_CV: Tensor,
    algorithm: Algorithm,
    *,
    reference_logit_CV: Tensor | None = None,
    teacher_logit_CV: Tensor | None = None,
) -> Tensor:
    """−α H_t + β KL_t(π ‖ ref) + distillation, of the tokens of one chunk: [C], to be added.

    The second signature of the heart: terms that need the whole vocabulary get logits chunk by
    chunk, at the temperature that sampled, so that [tokens, vocabulary] never exists at once.
    """
    value_C = torch.zeros(len(logit_CV))
    if algorithm.entropy > 0.0:
        value_C = value_C - algorithm.entropy * entropy(logit_CV)
    if algorithm.kl is not None and algorithm.kl.estimator == "full":
        assert reference_logit_CV is not None
        exact = Distillation("reverse_kl", coefficient=algorithm.kl.coefficient)
        value_C = value_C + divergence(logit_CV, reference_logit_CV, exact)
    if algorithm.distillation is not None:
        assert teacher_logit_CV is not None
        value_C = value_C + divergence(logit_CV, teacher_logit_CV, algorithm.distillation)
    return value_C


def _at(value_T: Tensor | None, index_T: Tensor) -> Tensor | None:
    return None if value_T is None else value_T[index_T]


def _prox(logp_T: Tensor, fixed: Fixed, algorithm: Algorithm) -> Tensor:
    correction = algorithm.correction
    if correction is not None and correction.prox == "interpolated":
        assert fixed.behaviour_logp_T is not None
        assert fixed.versions is not None
        return interpolated_prox(
            logp_T,
            fixed.behaviour_logp_T,
            version_T=fixed.versions.token_T,
            prox_version=fixed.versions.prox,
            version=fixed.versions.policy,
        )
    return logp_T.detach() if fixed.prox_logp_T is None else fixed.prox_logp_T


def _log_ratio(logp_T: Tensor, prox_T: Tensor, fixed: Fixed, algorithm: Algorithm) -> LogRatio:
    anchor_T = prox_T
    if algorithm.anchor == "behaviour":
        assert fixed.behaviour_logp_T is not None
        anchor_T = fixed.behaviour_logp_T
    scope = "token" if algorithm.ratio == "none" else algorithm.ratio
    if fixed.wide_T is None:
        return log_ratio(logp_T, anchor_T, fixed.tokens, scope)
    own = log_ratio(logp_T, anchor_T, fixed.tokens, "token")
    usable_T = own.usable_T & torch.isfinite(fixed.wide_T)
    value_T = torch.where(usable_T, fixed.wide_T, 0.0) + own.value_T - own.value_T.detach()
    return LogRatio(value_T, usable_T)
