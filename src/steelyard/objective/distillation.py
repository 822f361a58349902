"""Distillation: divergences between teacher and student, over the vocabulary, token by token.

They take logits chunk by chunk, [C, V], so that [tokens, vocabulary] never exists at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from steelyard.objective.checks import require

Divergence: TypeAlias = Literal["forward_kl", "reverse_kl", "jsd", "jsd_scaled"]


@dataclass(frozen=True, slots=True)
class Distillation:
    """coefficient · temperature² · D(teacher, student), both softened by `temperature`.

    - "forward_kl": Σ T log(T/S), covers the teacher. "reverse_kl": Σ S log(S/T), seeks a mode.
    - "jsd": β KL(T‖M) + (1−β) KL(S‖M), M = βT + (1−β)S, 0 < β < 1 (GKD). It goes to 0 at both
      ends, while implementations that name β = 0 forward KL jump there; so the ends are refused.
    - "jsd_scaled": that divided by β(1−β), which is forward KL at β = 0 and reverse KL at β = 1
      without a jump.

    `top_k` keeps the teacher's k likeliest tokens one by one and all others as one bucket, on
    both sides: a proper divergence, and a lower bound of the full one. `entry_clip` bounds every
    vocabulary entry's term from above before the sum (OPSD: .05), so the sum may be negative and
    a clipped entry has no gradient. `temperature`² keeps the gradient's size (Hinton 2015).
    """

    divergence: Divergence = "forward_kl"
    beta: float = 0.5
    temperature: float = 1.0
    top_k: int | None = None
    entry_clip: float | None = None
    coefficient: float = 1.0

    def __post_init__(self) -> None:
        beta, temperature, top_k = self.beta, self.temperature, self.top_k
        require(
            self.divergence != "jsd" or 0.0 < beta < 1.0,
            f"distillation: jsd with beta = {beta} is 0 for all students; use 'forward_kl' for "
            "its limit at 0, 'reverse_kl' for 1, or 'jsd_scaled'",
        )
        require(0.0 <= beta <= 1.0, f"distillation: beta must lie in [0, 1], got {beta}")
        weighs = 0.0 < self.coefficient < math.inf
        require(weighs, f"distillation: coefficient must be above 0, got {self.coefficient}")
        require(temperature > 0.0, f"distillation: temperature must be above 0, got {temperature}")
        require(
            self.entry_clip is None or self.divergence in ("forward_kl", "reverse_kl"),
            "distillation: entry_clip bounds the terms of one sum; use it with forward_kl or "
            "reverse_kl",
        )
        require(top_k is None or top_k >= 1, f"distillation: top_k must be at least 1, got {top_k}")


def divergence(student_logit_CV: Tensor, teacher_logit_CV: Tensor, rule: Distillation) -> Tensor:
    """coefficient · temperature² · D per token: [C], with gradient to the student only.

    Source: Hinton et al. 2015, §2; GKD (Agarwal et al. 2024); OPSD (entry clip).
    """
    student_CV = (student_logit_CV / rule.temperature).log_softmax(-1)
    teacher_CV = (teacher_logit_CV.detach() / rule.temperature).log_softmax(-1)
    if rule.top_k is not None and rule.top_k < teacher_CV.shape[-1]:
        kept_CK = teacher_CV.topk(rule.top_k, -1).indices
        student_CV, teacher_CV = _bucketed(student_CV, kept_CK), _bucketed(teacher_CV, kept_CK)
    scale = rule.coefficient * rule.temperature**2
    kind, beta = rule.divergence, rule.beta
    if kind == "forward_kl" or (kind == "jsd_scaled" and beta == 0.0):
        return scale * _kl(teacher_CV, student_CV, rule.entry_clip)
    if kind == "reverse_kl" or (kind == "jsd_scaled" and beta == 1.0):
        return scale * _kl(student_CV, teacher_CV, rule.entry_clip)
    share = beta * (1.0 - beta) if kind == "jsd_scaled" else 1.0
    return scale / share * _jsd(teacher_CV, student_CV, beta)


def _kl(p_CV: Tensor, q_CV: Tensor, clip: float | None = None) -> Tensor:
    """Σ_v min(p (log p − log q), clip), of log-probs. An entry that p excludes contributes 0."""
    impossible_CV = p_CV == -math.inf
    # Masked before the product as well, or its gradient would be 0 · ∞.
    p_CV, q_CV = (torch.where(impossible_CV, 0.0, x_CV) for x_CV in (p_CV, q_CV))
    term_CV = torch.where(impossible_CV, 0.0, p_CV.exp() * (p_CV - q_CV))
    return (term_CV if clip is None else term_CV.clamp(max=clip)).sum(-1)


def _jsd(teacher_CV: Tensor, student_CV: Tensor, beta: float) -> Tensor:
    neither_CV = (teacher_CV == -math.inf) & (student_CV == -math.inf)
    mixture_CV = torch.logaddexp(
        torch.where(neither_CV, 0.0, teacher_CV) + math.log(beta),
        torch.where(neither_CV, 0.0, student_CV) + math.log1p(-beta),
    )
    return beta * _kl(teacher_CV, mixture_CV) + (1.0 - beta) * _kl(student_CV, mixture_CV)


def _bucketed(logp_CV: Tensor, kept_CK: Tensor) -> Tensor:
    """log-probs of the kept entries and of all others together: [C, K + 1]."""
    kept = logp_CV.gather(-1, kept_CK)
    others_CV = logp_CV.scatter(-1, kept_CK, -math.inf)
    return torch.cat([kept, others_CV.logsumexp(-1, keepdim=True)], -1)
