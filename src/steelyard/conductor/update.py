"""From groups to moves of the weights: score, credit, step."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from steelyard.conductor.settings import AgreementSection
from steelyard.episodes import Episode, Group, Scored
from steelyard.learner import Batch, Learner, Scores, StepMetrics, ValueFit, VocabularyLoss
from steelyard.objective import (
    GAE,
    Algorithm,
    CorrectionWeight,
    Credit,
    Fixed,
    Rewards,
    Runs,
    Versions,
    correction_weight,
    covariance_choice,
    credit,
    explained_variance,
    kl_value,
    log_ratio,
    potential_reward,
    token_coefficients,
    token_loss,
    vocabulary_loss,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """How a batch is learned from: `epochs` passes in `minibatches` parts of whole groups, one
    optimiser step each. `seed` orders the parts."""

    learning_rate: float
    temperature: float
    epochs: int = 1
    minibatches: int = 1
    seed: str = ""

    @property
    def updates(self) -> int:
        """Optimiser steps on one batch."""
        return self.epochs * self.minibatches


@dataclass(frozen=True, slots=True)
class Update:
    """What an update learned from. Tensors are over the action tokens of `batch`.

    `advantage_T` and `prox_logp_T` are NaN for tokens that have no advantage, or that were never
    evaluated. `entropy_T` (nats), `log_ratio_T` (log π/prox) and `limited_T` are of the last
    optimiser step that ran the token, the first two NaN where none did; `trained_T` says which
    tokens carry weight. `start_version` is the policy that the update began from. `measures` are
    further numbers for the record.
    """

    episodes: list[Episode]
    batch: Batch
    advantage_T: Tensor
    prox_logp_T: Tensor
    entropy_T: Tensor
    log_ratio_T: Tensor
    limited_T: Tensor
    trained_T: Tensor
    start_version: int
    metrics: StepMetrics
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
    if isinstance(algorithm.credit, GAE):
        # Nothing was sampled in these, so no value is read in them; a group's mean counts them.
        scored = [(e, g) for e, g in scored if e.trajectory.n_action_tokens]
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
    logp_T = learner.logprobs(batch, torch.ones(len(batch)), temperature=temperature)
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
    """What other models say of the tokens; None where the algorithm asks none."""
    if not (algorithm.needs_reference or algorithm.needs_teacher or algorithm.critic):
        return None
    bootstraps = isinstance(algorithm.credit, GAE) and algorithm.credit.bootstrap_truncated
    truncated_E = torch.tensor([bootstraps and e.truncated for e in episodes])
    return learner.score(batch, temperature=plan.temperature, truncated_E=truncated_E)


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
    # The outcome is known after an episode's last turn.
    last_E = torch.bincount(batch.episode_K, minlength=batch.n_episodes).cumsum(0) - 1
    reward_K = torch.zeros(len(batch.episode_K)).index_add_(0, last_E, reward_E)
    if any(episode.potentials for episode in episodes):
        gamma = getattr(algorithm.credit, "gamma", 1.0)
        reward_K += potential_reward(_potentials(batch, episodes), Runs.of(batch.episode_K), gamma)
    reward_T = None
    if algorithm.kl is not None and algorithm.kl.estimator == "k1_reward":
        assert scores is not None
        assert scores.reference_logp_T is not None
        gap_T = kl_value(scores.logp_T, scores.reference_logp_T, "k1_reward")
        # A token that the reference cannot say is dropped from the penalty, not from the episode.
        reward_T = -algorithm.kl.coefficient * torch.where(torch.isfinite(gap_T), gap_T, 0.0)
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


def _potentials(batch: Batch, episodes: Sequence[Episode]) -> Tensor:
    """Φ before each turn; 0 in episodes without, which is Φ after the last turn too."""
    n_E = torch.bincount(batch.episode_K, minlength=batch.n_episodes).tolist()
    potentials = [e.potentials or (0.0,) * n for e, n in zip(episodes, n_E, strict=True)]
    assert [len(p) for p in potentials] == n_E, "a potential for every turn"
    return torch.tensor([value for p in potentials for value in p])


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
        self._advantage_T = torch.full((len(batch),), torch.nan)
        self._advantage_T[earned.index_A] = earned.advantage_A
        # What the learner itself computes at the batch's start, as far as it is evaluated.
        self._prox_logp_T = torch.full((len(batch),), torch.nan)
        # What the last step that ran a token saw of it.
        self._entropy_T, self._log_ratio_T = (
            torch.full((len(batch),), torch.nan) for _ in range(2)
        )
        self._limited_T, self._corrected_T, self._dropped_T = (
            torch.zeros(len(batch), dtype=torch.bool) for _ in range(3)
        )
        self._start_version = learner.steps_taken
        # Segments of one episode may be evaluated apart, and a wide ratio runs over all of them.
        self._apart = algorithm.spans_segments and len(batch.token_ids) > batch.n_episodes

    @property
    def _knows_prox(self) -> bool:
        """Whether prox is computed beforehand, and not on the way of the only step."""
        return self._plan.updates > 1 or self._apart

    def run(self) -> Update:
        parts = self._parts()
        # With one step the weights that score the batch are those that it starts from, so prox is
        # what that step computes on the way. Else it is computed before any of them has moved.
        if self._knows_prox:
            for part_T in parts:
                logp_T = self._learner.logprobs(
                    self._batch, part_T, temperature=self._plan.temperature
                )
                self._prox_logp_T = torch.where(logp_T.isnan(), self._prox_logp_T, logp_T)
        fixed = self._fixed()
        order = list(range(len(parts)))
        steps = []
        for epoch in range(self._plan.epochs):
            random.Random(f"minibatches {self._plan.seed} {epoch}").shuffle(order)
            steps += [self._step(parts[i], fixed) for i in order]
        trained_T = torch.stack(parts).any(0)
        return Update(
            episodes=self._episodes,
            batch=self._batch,
            advantage_T=self._advantage_T,
            prox_logp_T=self._prox_logp_T,
            entropy_T=self._entropy_T,
            log_ratio_T=self._log_ratio_T,
            limited_T=self._limited_T,
            trained_T=trained_T,
            start_version=self._start_version,
            metrics=StepMetrics.of_several(steps),
            measures=self._measures(trained_T, steps),
        )

    def _parts(self) -> list[Tensor]:
        """The coefficients of each minibatch, zero outside it: whole groups each.

        A denominator counts every token that has an advantage; those whose loss is 0 whatever the
        weights then need not be run.
        """
        batch, algorithm = self._batch, self._algorithm
        index_A = self._earned.index_A
        groups = torch.unique(batch.group_T[index_A]).tolist()
        random.Random(f"parts {self._plan.seed}").shuffle(groups)
        n_parts = min(self._plan.minibatches, len(groups))
        parts = []
        for i in range(n_parts):
            mine = torch.isin(batch.group_T[index_A], torch.tensor(groups[i::n_parts]))
            mine_A = index_A[mine]
            coefficient_T = torch.zeros(len(batch))
            coefficient_T[mine_A] = token_coefficients(
                batch.tokens.take(mine_A), algorithm.aggregate
            )
            if algorithm.learns_from_credit_alone:
                coefficient_T[self._advantage_T == 0] = 0.0
            parts.append(coefficient_T)
        return parts

    def _step(self, coefficient_T: Tensor, batch_fixed: Fixed) -> StepMetrics:
        fixed = dataclasses.replace(
            batch_fixed,
            wide_T=self._wide() if self._apart and self._algorithm.ratio != "none" else None,
            versions=Versions(
                self._batch.version_T, self._start_version, self._learner.steps_taken
            ),
        )
        first_pass = fixed.prox_logp_T is None

        def loss(logp_T: Tensor, index_T: Tensor) -> Tensor:
            if first_pass:
                self._prox_logp_T[index_T] = logp_T.detach()
            self._log_ratio_T[index_T] = logp_T.detach() - self._prox_logp_T[index_T]
            result = token_loss(logp_T, fixed.take(index_T), self._algorithm)
            self._limited_T[index_T] = result.limited_T
            self._corrected_T[index_T] = result.corrected_T
            self._dropped_T[index_T] |= result.dropped_T
            return result.value_T

        def on_entropy(entropy_T: Tensor, index_T: Tensor) -> None:
            self._entropy_T[index_T] = entropy_T

        return self._learner.step(
            self._batch,
            loss,
            coefficient_T,
            learning_rate=self._plan.learning_rate,
            temperature=self._plan.temperature,
            vocabulary=self._vocabulary(),
            values=self._value_fit(coefficient_T),
            on_entropy=on_entropy,
        )

    def _fixed(self) -> Fixed:
        """What all steps on the batch have in common."""
        batch, algorithm, scores = self._batch, self._algorithm, self._scores
        known = self._knows_prox
        chosen_T = None
        if algorithm.covariance is not None:
            index_A = self._earned.index_A
            logp_T = self._prox_logp_T if known else batch.behaviour_logp_T
            chosen_T = torch.zeros(len(batch), dtype=torch.bool)
            chosen_T[index_A] = covariance_choice(
                logp_T[index_A], self._earned.advantage_A, algorithm.covariance
            )
        return Fixed(
            tokens=batch.tokens,
            # Tokens without an advantage carry no coefficient; they are there for wide ratios.
            advantage_T=self._advantage_T.nan_to_num(0.0),
            behaviour_logp_T=batch.behaviour_logp_T,
            prox_logp_T=self._prox_logp_T if known else None,
            reference_logp_T=scores and scores.reference_logp_T,
            correction=self._correction() if self._apart else None,
            chosen_T=chosen_T,
        )

    def _wide(self) -> Tensor:
        batch, algorithm = self._batch, self._algorithm
        behaviour = algorithm.anchor == "behaviour"
        anchor_T = batch.behaviour_logp_T if behaviour else self._prox_logp_T
        present_T = self._learner.logprobs(
            batch, torch.ones(len(batch)), temperature=self._plan.temperature
        )
        wide = log_ratio(present_T, anchor_T, batch.tokens, algorithm.ratio)
        return torch.where(wide.usable_T, wide.value_T, torch.nan)

    def _correction(self) -> CorrectionWeight | None:
        rule, batch = self._algorithm.correction, self._batch
        if rule is None:
            return None
        return correction_weight(self._prox_logp_T, batch.behaviour_logp_T, batch.tokens, rule)

    def _vocabulary(self) -> VocabularyLoss | None:
        algorithm = self._algorithm
        if not algorithm.needs_vocabulary:
            return None

        def value(
            logit_CV: Tensor, reference_CV: Tensor | None, teacher_CV: Tensor | None
        ) -> Tensor:
            return vocabulary_loss(
                logit_CV,
                algorithm,
                reference_logit_CV=reference_CV,
                teacher_logit_CV=teacher_CV,
            )

        return VocabularyLoss(
            value,
            reads_reference=algorithm.kl is not None and algorithm.kl.estimator == "full",
            reads_teacher=algorithm.distillation is not None,
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

    def _measures(self, trained_T: Tensor, steps: Sequence[StepMetrics]) -> dict[str, float | None]:
        algorithm, scores, earned = self._algorithm, self._scores, self._earned

        def share(marked_T: Tensor) -> float:
            return float(marked_T[trained_T].float().mean()) if bool(trained_T.any()) else 0.0

        measures: dict[str, float | None] = {
            "limited_fraction": share(self._limited_T),
            "dropped_tokens": float(self._dropped_T.sum()),
        }
        if algorithm.correction is not None:
            measures["corrected_fraction"] = share(self._corrected_T)
        if scores is not None and scores.reference_logp_T is not None:
            gap_T = scores.logp_T - scores.reference_logp_T
            measures["kl_reference"] = float(gap_T.mean())
        if scores is not None and scores.teacher_logp_T is not None:
            measures["reverse_kl"] = float((scores.logp_T - scores.teacher_logp_T).mean())
        if earned.target_A is not None and scores is not None:
            assert scores.value_T is not None
            value_A = scores.value_T[earned.index_A]
            measures["explained_variance"] = explained_variance(value_A, earned.target_A)
            measures["value_loss"] = sum(s.value_loss for s in steps) / len(steps)
        return measures
