"""The loss of each action token under an algorithm."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from steelyard.objective.algorithm import Algorithm
from steelyard.objective.checks import all_finite, given
from steelyard.objective.correction import CorrectionWeight, correction_weight, interpolated_prox
from steelyard.objective.distillation import Distillation, divergence
from steelyard.objective.limit import limit
from steelyard.objective.penalty import ClipCov, KLCov, entropy, kl_value
from steelyard.objective.ragged import Tokens
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
        columns = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return Fixed(**{name: _at(value, index_T) for name, value in columns.items()})


def _at(value: Any, index_T: Tensor) -> Any:
    """The part of a column, of each column in a tuple, or of nothing."""
    match value:
        case Tensor():
            return value[index_T]
        case Tokens():
            return value.take(index_T)
        case tuple():
            return type(value)(*(_at(part, index_T) for part in value))
    return value


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
    log_ratio_T, usable_T = _log_ratio(logp_T, prox_T, fixed, algorithm)
    correction = fixed.correction
    if algorithm.correction is not None and correction is None:
        behaviour_T = given(fixed.behaviour_logp_T)
        correction = correction_weight(prox_T, behaviour_T, fixed.tokens, algorithm.correction)
    weight_T = None if correction is None else correction.weight_T
    reference_T = given(fixed.reference_logp_T) if _has_sampled_kl(algorithm) else None
    if reference_T is not None:
        usable_T = usable_T & torch.isfinite(reference_T)
    terms = _Terms(logp_T, prox_T, log_ratio_T, weight_T, reference_T)
    while True:
        whole = int(usable_T.count_nonzero()) == len(usable_T)
        value_T, limited_T = _values(terms if whole else terms.only(usable_T), fixed, algorithm)
        if all_finite(value_T.detach()):
            break
        finite_T = torch.isfinite(value_T.detach())
        assert bool((usable_T & ~finite_T).any())
        usable_T = usable_T & finite_T
    value_T = value_T if whole else torch.where(usable_T, value_T, 0.0)
    corrected_T = torch.zeros_like(usable_T) if correction is None else correction.limited_T
    return TokenLoss(value_T, limited_T, corrected_T, ~usable_T)


class _Terms(NamedTuple):
    """What a token's loss is computed from, besides its credit. None: it has no such term."""

    logp_T: Tensor
    prox_T: Tensor
    log_ratio_T: Tensor
    weight_T: Tensor | None
    reference_T: Tensor | None

    def only(self, usable_T: Tensor) -> _Terms:
        """With 0 where it is not usable: a gradient through an infinity is NaN even where the
        value is not used."""
        present = {k: x_T for k, x_T in self._asdict().items() if x_T is not None}
        return self._replace(**{k: torch.where(usable_T, x_T, 0.0) for k, x_T in present.items()})


def _values(terms: _Terms, fixed: Fixed, algorithm: Algorithm) -> tuple[Tensor, Tensor]:
    """The loss of each token, and where the limit acted."""
    advantage_T, covariance, kl = fixed.advantage_T, algorithm.covariance, algorithm.kl
    if algorithm.ratio == "none":
        objective_T = advantage_T * terms.logp_T
        limited_T = torch.zeros_like(objective_T, dtype=torch.bool)
    else:
        objective_T, limited_T = limit(
            terms.log_ratio_T, advantage_T, fixed.tokens, algorithm.limit
        )
    if terms.weight_T is not None:
        objective_T = terms.weight_T * objective_T
    if isinstance(covariance, ClipCov):
        objective_T = torch.where(given(fixed.chosen_T), objective_T.detach(), objective_T)
    value_T = -objective_T
    if isinstance(covariance, KLCov):
        distance_T = torch.where(given(fixed.chosen_T), (terms.logp_T - terms.prox_T).abs(), 0.0)
        value_T = value_T + covariance.coefficient * distance_T
    if kl is not None and terms.reference_T is not None:
        kl_T = kl_value(terms.logp_T, terms.reference_T, kl.estimator, terms.log_ratio_T)
        value_T = value_T + kl.coefficient * kl_T
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
        exact = Distillation("reverse_kl", coefficient=algorithm.kl.coefficient)
        value_C = value_C + divergence(logit_CV, given(reference_logit_CV), exact)
    if algorithm.distillation is not None:
        value_C = value_C + divergence(logit_CV, given(teacher_logit_CV), algorithm.distillation)
    return value_C


def _prox(logp_T: Tensor, fixed: Fixed, algorithm: Algorithm) -> Tensor:
    correction = algorithm.correction
    if correction is None or correction.prox != "interpolated":
        return logp_T.detach() if fixed.prox_logp_T is None else fixed.prox_logp_T
    sampled, prox, policy = given(fixed.versions)
    behaviour_T = given(fixed.behaviour_logp_T)
    return interpolated_prox(
        logp_T, behaviour_T, version_T=sampled, prox_version=prox, version=policy
    )


def _log_ratio(logp_T: Tensor, prox_T: Tensor, fixed: Fixed, algorithm: Algorithm) -> LogRatio:
    over_behaviour = algorithm.anchor == "behaviour"
    anchor_T = given(fixed.behaviour_logp_T) if over_behaviour else prox_T
    scope = "token" if algorithm.ratio == "none" else algorithm.ratio
    if fixed.wide_T is None:
        return log_ratio(logp_T, anchor_T, fixed.tokens, scope)
    own = log_ratio(logp_T, anchor_T, fixed.tokens, "token")
    usable_T = own.usable_T & torch.isfinite(fixed.wide_T)
    value_T = torch.where(usable_T, fixed.wide_T, 0.0) + own.value_T - own.value_T.detach()
    return LogRatio(value_T, usable_T)
