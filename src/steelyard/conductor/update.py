"""From groups to moves of the weights: score, credit, step."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.conductor.settings import AgreementSection
from steelyard.episodes import Episode, Group, Scored
from steelyard.learner import Batch, Learner, Scores, StepMetrics, ValueFit
from steelyard.objective import (
    Algorithm,
    CorrectionWeight,
    Credit,
    Fixed,
    Rewards,
    Versions,
    correction_weight,
    covariance_choice,
    credit,
    explained_variance,
    log_ratio,
    overlong_penalty,
    token_coefficients,
    token_loss,
    vocabulary_loss,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a batch is learned from: `epochs` passes in `minibatches` parts of whole groups, one
    optimiser step each. `longest` and `overlong_buffer` (tokens) shape the reward if set."""

    learning_rate: float
    temperature: float
    epochs: int = 1
    minibatches: int = 1
    overlong_buffer: int | None = None
    longest: int = 1
    seed: int = 0

    @property
    def updates(self) -> int:
        return self.epochs * self.minibatches


@dataclass(frozen=True, slots=True)
class Update:
    """What an update learned from. Tensors are over the action tokens of `batch`.

    `mismatch` is the mean absolute difference of the learner's and the engine's log-probs on the
    trained tokens, in nats; `measures` are further numbers for the record.
    """

    episodes: list[Episode]
    batch: Batch
    advantage_T: Tensor
    prox_logp_T: Tensor
    metrics: StepMetrics
    mismatch: float
    measures: dict[str, float | None]


class Disagreement(ValueError):
    """Engine and learner do not compute the same policy; training on that would be wrong."""


def update(
    groups: Sequence[Group],
    learner: Learner,
    algorithm: Algorithm,
    plan: Plan,
    agreement: AgreementSection | None = None,
) -> Update | None:
    """Learns from the groups' scored episodes; None if none of them has a token with credit.

    With `agreement`, first compares the learner's log-probs with the engine's on these freshly
    sampled tokens. Raises: Disagreement beyond the bound.
    """
    scored = [(e, g) for g, group in enumerate(groups) for e in group.episodes if not e.unscored]
    if not scored:
        return None
    episodes = [episode for episode, _ in scored]
    batch = Batch.from_episodes(episodes)
    if len(batch) == 0:
        return None
    if agreement is not None:
        require_agreement(batch, learner, agreement, plan.temperature)
    scores = _scores(batch, episodes, learner, algorithm, plan)
    group_E = torch.tensor([g for _, g in scored])
    earned = _credit(batch, episodes, group_E, scores, algorithm, plan)
    if len(earned.index_A) == 0:
        return None
    return _Learning(batch, episodes, scores, earned, learner, algorithm, plan).run()


def require_agreement(
    batch: Batch, learner: Learner, bounds: AgreementSection, temperature: float
) -> float:
    """Mean |log π_learner − log π_engine| on the batch's tokens, refused beyond the bound.

    Raises:
        Disagreement: names the size, the bound and the usual causes.
    """
    logp_T = learner.score(batch, temperature=temperature).logp_T
    gap = float((logp_T - batch.behaviour_logp_T).abs().mean())
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


def _scores(
    batch: Batch, episodes: Sequence[Episode], learner: Learner, algorithm: Algorithm, plan: Plan
) -> Scores | None:
    """A pass before the first update; None where that update sees all that is needed anyway."""
    recomputed = algorithm.correction is not None and algorithm.correction.prox == "recomputed"
    scored = (algorithm.needs_reference, algorithm.needs_teacher, algorithm.critic is not None)
    if not any(scored) and plan.updates == 1 and not recomputed and not _apart(batch, algorithm):
        return None
    truncated_E = torch.tensor([e.truncated for e in episodes])
    return learner.score(batch, temperature=plan.temperature, truncated_E=truncated_E)


def _apart(batch: Batch, algorithm: Algorithm) -> bool:
    """Whether a ratio spans segments, which the learner may evaluate one without the other."""
    wide = algorithm.ratio in ("prefix", "sequence", "full") or (
        algorithm.correction is not None and algorithm.correction.scope != "token"
    )
    return wide and len(batch.token_ids) > batch.n_episodes


def _credit(
    batch: Batch,
    episodes: Sequence[Episode],
    group_E: Tensor,
    scores: Scores | None,
    algorithm: Algorithm,
    plan: Plan,
) -> Credit:
    if algorithm.credit is None:
        return Credit(torch.zeros(len(batch)), torch.arange(len(batch)))
    reward_E = torch.tensor([_reward(episode) for episode in episodes])
    if plan.overlong_buffer is not None:
        length_E = torch.tensor([e.trajectory.n_tokens for e in episodes])
        reward_E += overlong_penalty(length_E, longest=plan.longest, buffer=plan.overlong_buffer)
    # The outcome is known after an episode's last turn.
    last_E = torch.bincount(batch.episode_K, minlength=batch.n_episodes).cumsum(0) - 1
    reward_K = torch.zeros(len(batch.episode_K)).index_add_(0, last_E, reward_E)
    reward_T = None
    if algorithm.kl is not None and algorithm.kl.estimator == "k1_reward":
        assert scores is not None
        assert scores.reference_logp_T is not None
        reward_T = -algorithm.kl.coefficient * (scores.logp_T - scores.reference_logp_T)
    return credit(
        algorithm.credit,
        batch.tokens,
        Rewards(reward_K, batch.episode_K, group_E),
        reward_T=reward_T,
        value_T=scores and scores.value_T,
        after_E=scores and scores.after_E,
        logp_T=scores and scores.logp_T,
        teacher_logp_T=scores and scores.teacher_logp_T,
    )


def _reward(episode: Episode) -> float:
    assert isinstance(episode.outcome, Scored)
    return episode.outcome.reward


class _Learning:
    """The optimiser steps on one batch whose credit is settled."""

    def __init__(
        self,
        batch: Batch,
        episodes: list[Episode],
        scores: Scores | None,
        earned: Credit,
        learner: Learner,
        algorithm: Algorithm,
        plan: Plan,
    ) -> None:
        self._batch, self._episodes, self._scores = batch, episodes, scores
        self._learner, self._algorithm, self._plan = learner, algorithm, plan
        self._earned = earned
        self._advantage_T = torch.zeros(len(batch))
        self._advantage_T[earned.index_A] = earned.advantage_A
        self._has_credit_T = torch.zeros(len(batch), dtype=torch.bool)
        self._has_credit_T[earned.index_A] = True
        self._chosen_T: Tensor | None = None
        if algorithm.covariance is not None:
            start_logp_T = batch.behaviour_logp_T if scores is None else scores.logp_T
            self._chosen_T = covariance_choice(
                start_logp_T, self._advantage_T, algorithm.covariance, plan.seed
            )
        # What the learner itself computes at the batch's start, as far as it is known.
        self._prox_logp_T = (
            batch.behaviour_logp_T.clone() if scores is None else scores.logp_T.clone()
        )
        self._limited_T, self._corrected_T, self._dropped_T = (
            torch.zeros(len(batch), dtype=torch.bool) for _ in range(3)
        )
        self._trained_T = torch.zeros(len(batch), dtype=torch.bool)
        self._start_version = learner.steps_taken

    def run(self) -> Update:
        steps = [self._step(part_T) for part_T in self._parts()]
        trained_T = self._trained_T
        gap_T = (self._prox_logp_T - self._batch.behaviour_logp_T).abs()[trained_T]

        def share(marked_T: Tensor) -> float:
            return float(marked_T[trained_T].float().mean()) if len(gap_T) else 0.0

        measures: dict[str, float | None] = {
            "limited_fraction": share(self._limited_T),
            "dropped_tokens": float(self._dropped_T.sum()),
        }
        if self._algorithm.correction is not None:
            measures["corrected_fraction"] = share(self._corrected_T)
        if self._algorithm.needs_reference and self._scores is not None:
            assert self._scores.reference_logp_T is not None
            measures["kl_reference"] = float(
                (self._scores.logp_T - self._scores.reference_logp_T).mean()
            )
        if self._algorithm.needs_teacher and self._scores is not None:
            assert self._scores.teacher_logp_T is not None
            measures["reverse_kl"] = float(
                (self._scores.logp_T - self._scores.teacher_logp_T).mean()
            )
        if self._earned.target_A is not None and self._scores is not None:
            assert self._scores.value_T is not None
            measures["explained_variance"] = explained_variance(
                self._scores.value_T[self._earned.index_A], self._earned.target_A
            )
            measures["value_loss"] = sum(s.value_loss for s in steps) / len(steps)
        return Update(
            episodes=self._episodes,
            batch=self._batch,
            advantage_T=self._advantage_T,
            prox_logp_T=self._prox_logp_T,
            metrics=StepMetrics.of_several(steps),
            mismatch=float(gap_T.mean()) if len(gap_T) else 0.0,
            measures=measures,
        )

    def _parts(self) -> list[Tensor]:
        """Per optimiser step, which tokens it learns from: whole groups, shuffled every epoch."""
        plan, group_T = self._plan, self._batch.group_T
        if plan.minibatches == 1:
            return [self._has_credit_T] * plan.epochs
        present = torch.unique(group_T[self._has_credit_T]).tolist()
        parts = []
        for epoch in range(plan.epochs):
            random.Random(f"minibatches {plan.seed} {epoch}").shuffle(present)
            for i in range(min(plan.minibatches, len(present))):
                mine = torch.tensor(present[i :: plan.minibatches])
                parts.append(self._has_credit_T & torch.isin(group_T, mine))
        return parts

    def _step(self, part_T: Tensor) -> StepMetrics:
        batch, algorithm, plan = self._batch, self._algorithm, self._plan
        coefficient_T = torch.zeros(len(batch))
        index_T = part_T.nonzero()[:, 0]
        coefficient_T[index_T] = token_coefficients(batch.tokens.take(index_T), algorithm.aggregate)
        # The denominator counts every token; those without any term then need not be run.
        only_credit = not algorithm.needs_reference and not algorithm.needs_vocabulary
        if only_credit and algorithm.critic is None and algorithm.covariance is None:
            coefficient_T = torch.where(self._advantage_T == 0, 0.0, coefficient_T)
        self._trained_T |= coefficient_T != 0
        fixed = self._fixed()

        def loss(logp_T: Tensor, index_T: Tensor) -> Tensor:
            # Bins are sorted by their tokens; an episode must come in reading order.
            order = torch.argsort(index_T)
            here = index_T[order]
            if self._scores is None:
                self._prox_logp_T[index_T] = logp_T.detach()
            result = token_loss(logp_T[order], fixed.take(here), algorithm)
            self._limited_T[here] = result.limited_T
            self._corrected_T[here] = result.corrected_T
            self._dropped_T[here] = result.dropped_T
            return result.value_T[torch.argsort(order)]

        return self._learner.step(
            batch,
            loss,
            coefficient_T,
            learning_rate=plan.learning_rate,
            temperature=plan.temperature,
            vocabulary=self._vocabulary if algorithm.needs_vocabulary else None,
            values=self._value_fit(coefficient_T),
        )

    def _fixed(self) -> Fixed:
        batch, algorithm, scores = self._batch, self._algorithm, self._scores
        apart = _apart(batch, algorithm)
        return Fixed(
            tokens=batch.tokens,
            advantage_T=self._advantage_T,
            behaviour_logp_T=batch.behaviour_logp_T,
            prox_logp_T=scores and scores.logp_T,
            reference_logp_T=scores and scores.reference_logp_T,
            wide_T=self._wide() if apart and algorithm.ratio != "none" else None,
            correction=self._correction() if apart else None,
            chosen_T=self._chosen_T,
            versions=Versions(batch.version_T, self._start_version, self._learner.steps_taken),
        )

    def _wide(self) -> Tensor:
        assert self._scores is not None
        batch = self._batch
        anchor_T = self._scores.logp_T
        if self._algorithm.anchor == "behaviour":
            anchor_T = batch.behaviour_logp_T
        present_T = self._learner.score(batch, temperature=self._plan.temperature).logp_T
        wide = log_ratio(present_T, anchor_T, batch.tokens, self._algorithm.ratio)
        return torch.where(wide.usable_T, wide.value_T, torch.nan)

    def _correction(self) -> CorrectionWeight | None:
        rule = self._algorithm.correction
        if rule is None:
            return None
        assert self._scores is not None
        batch = self._batch
        return correction_weight(self._scores.logp_T, batch.behaviour_logp_T, batch.tokens, rule)

    def _vocabulary(
        self, logit_CV: Tensor, reference_CV: Tensor | None, teacher_CV: Tensor | None
    ) -> Tensor:
        return vocabulary_loss(
            logit_CV,
            self._algorithm,
            reference_logit_CV=reference_CV,
            teacher_logit_CV=teacher_CV,
        )

    def _value_fit(self, coefficient_T: Tensor) -> ValueFit | None:
        rule = self._algorithm.critic
        if rule is None:
            return None
        assert self._scores is not None
        assert self._scores.value_T is not None
        assert self._earned.target_A is not None
        target_T = torch.zeros(len(self._batch))
        target_T[self._earned.index_A] = self._earned.target_A
        return ValueFit(target_T, self._scores.value_T, coefficient_T, rule)
