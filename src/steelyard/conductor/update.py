"""From groups to one move of the weights: score, credit, step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.conductor.settings import AgreementSection
from steelyard.episodes import Episode, Group
from steelyard.learner import Batch, Learner, StepMetrics
from steelyard.objective import Algorithm, group_advantage, token_coefficients, token_loss


@dataclass(frozen=True, slots=True)
class Update:
    """What an update learned from. Tensors are over the action tokens of `batch`.

    `mismatch` is the mean absolute difference of the learner's and the engine's log-probs on the
    trained tokens, in nats.
    """

    episodes: list[Episode]
    batch: Batch
    advantage_T: Tensor
    prox_logp_T: Tensor
    metrics: StepMetrics
    mismatch: float
    limited_fraction: float


class Disagreement(ValueError):
    """Engine and learner do not compute the same policy; training on that would be wrong."""


def update(
    groups: Sequence[Group],
    learner: Learner,
    algorithm: Algorithm,
    *,
    learning_rate: float,
    temperature: float,
    agreement: AgreementSection | None = None,
) -> Update | None:
    """One optimiser step on the groups' scored episodes; None if none of them carries credit.

    With `agreement`, first compares the learner's log-probs with the engine's on these freshly
    sampled tokens. Raises: Disagreement beyond the bound.
    """
    assert algorithm.credit is not None, "imitation has its own loop"
    scored = [(e, g) for g, group in enumerate(groups) for e in group.episodes if not e.unscored]
    if not scored:
        return None
    reward_E = torch.tensor([e.outcome.reward for e, _ in scored])  # type: ignore[union-attr]
    advantage_E, exists_E = group_advantage(
        reward_E, torch.tensor([g for _, g in scored]), algorithm.credit
    )
    kept = [i for i in range(len(scored)) if exists_E[i]]
    episodes = [scored[i][0] for i in kept]
    batch = Batch.from_episodes(episodes)
    if len(batch) == 0:
        return None
    advantage_T = advantage_E[exists_E][batch.episode_T]
    # The denominator counts every token; those without credit then need not be run.
    weight_T = token_coefficients(batch.episode_T, algorithm.aggregate)
    weight_T = torch.where(advantage_T == 0, 0.0, weight_T)
    if agreement is not None:
        require_agreement(batch, learner, agreement, temperature)
    # One update per batch: the weights that score it are those it starts from, so the
    # learner's own log-probs at the batch's start are the values it computes on the way.
    prox_logp_T = batch.behaviour_logp_T.clone()
    limited_T = torch.zeros(len(batch), dtype=torch.bool)

    def loss(logp_T: Tensor, index_T: Tensor) -> Tensor:
        prox_logp_T[index_T] = logp_T.detach()
        value_T, limited_T[index_T] = token_loss(
            logp_T, prox_logp_T[index_T], advantage_T[index_T], algorithm
        )
        return value_T

    metrics = learner.step(
        batch, loss, weight_T, learning_rate=learning_rate, temperature=temperature
    )
    trained_T = weight_T != 0
    gap_T = (prox_logp_T - batch.behaviour_logp_T).abs()[trained_T]
    return Update(
        episodes=episodes,
        batch=batch,
        advantage_T=advantage_T,
        prox_logp_T=prox_logp_T,
        metrics=metrics,
        mismatch=float(gap_T.mean()) if len(gap_T) else 0.0,
        limited_fraction=float(limited_T[trained_T].float().mean()) if len(gap_T) else 0.0,
    )


def require_agreement(
    batch: Batch, learner: Learner, bounds: AgreementSection, temperature: float
) -> float:
    """Mean |log π_learner − log π_engine| on the batch's tokens, refused beyond the bound.

    Raises:
        Disagreement: names the size, the bound and the usual causes.
    """
    gap_T = (learner.score(batch, temperature=temperature) - batch.behaviour_logp_T).abs()
    gap = float(gap_T.mean())
    dtype = learner.settings.dtype
    bound = bounds.max_bfloat16 if dtype == "bfloat16" else bounds.max_float32
    if not gap <= bound:
        raise Disagreement(
            f"engine and learner disagree on freshly sampled tokens: mean |Δ log-prob| is {gap:.4f}"
            f" and the bound agreement.max_{dtype} is {bound:g}; usual causes are weights that did "
            "not reach the engine, different dtypes of [engine] and [learner], or an attention "
            "implementation that ignores the mask (try learner.share_prefixes = false)"
        )
    return gap
