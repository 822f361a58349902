"""An algorithm is one choice per axis. What cannot be fails when it is built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from steelyard.objective.aggregate import Aggregate
from steelyard.objective.correction import Correction
from steelyard.objective.credit import (
    GAE,
    CreditRule,
    Filter,
    GroupComparison,
    Imitation,
    RewardToGo,
    TeacherLogRatio,
)
from steelyard.objective.critic import Critic
from steelyard.objective.distillation import Distillation
from steelyard.objective.limit import Limit, WideningWindow
from steelyard.objective.penalty import KL, ClipCov, KLCov
from steelyard.objective.ratio import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """Where the weight of a sampled token comes from, and how it is limited and averaged.

    `credit` None: no policy-gradient term, only `distillation`. `ratio` "none" weighs log π
    itself and is right only for fresh samples. `anchor` is the ratio's denominator: `prox`, or
    `behaviour` for algorithms that put the sampler there. `entropy` is the bonus's coefficient.
    `source` is the paper, `sources` says per axis where in it the choice and its numbers stand.
    """

    name: str
    credit: CreditRule | None
    ratio: Scope = "none"
    limit: Limit | None = None
    aggregate: Aggregate = field(default_factory=Aggregate)
    anchor: Literal["prox", "behaviour"] = "prox"
    correction: Correction | None = None
    kl: KL | None = None
    entropy: float = 0.0
    covariance: ClipCov | KLCov | None = None
    critic: Critic | None = None
    distillation: Distillation | None = None
    source: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _refuse(self, _contradictions(self))

    @property
    def imitates(self) -> bool:
        """Whether it learns from demonstrations instead of its own episodes."""
        return isinstance(self.credit, Imitation)

    @property
    def divides_by_mean(self) -> bool:
        """Whether it takes rewards as shares of success, which are never negative."""
        return isinstance(self.credit, GroupComparison) and self.credit.scale == "mean"

    @property
    def needs_reference(self) -> bool:
        """Whether a frozen anchor must score the tokens."""
        return self.kl is not None

    @property
    def needs_teacher(self) -> bool:
        """Whether a teacher must score the tokens."""
        return self.distillation is not None or isinstance(self.credit, TeacherLogRatio)

    @property
    def needs_vocabulary(self) -> bool:
        """Whether a term reads the logits of the whole vocabulary."""
        return (
            self.entropy > 0.0
            or self.distillation is not None
            or (self.kl is not None and self.kl.estimator == "full")
        )

    @property
    def spans_segments(self) -> bool:
        """Whether a ratio runs over an episode's tokens across its segments."""
        wide_correction = self.correction is not None and self.correction.scope != "token"
        return self.ratio in ("prefix", "sequence", "full") or wide_correction

    @property
    def learns_from_credit_alone(self) -> bool:
        """Whether a token with advantage 0 has loss 0, so that an all-equal group is silent."""
        others = (self.kl, self.critic, self.covariance, self.distillation)
        return self.entropy == 0.0 and all(part is None for part in others)

    def require_fit(self, *, staleness: int, updates_per_batch: int) -> None:
        """Refuses a run in which the samples' age would go uncorrected, or a part do nothing.

        Args:
            staleness: policy versions that a sample may lag behind the learner.
            updates_per_batch: optimiser steps on one batch.

        Raises:
            ValueError: one sentence that names the axis to change.
        """
        if self.credit is not None and not self.imitates:
            _refuse(self, _misfits(self, staleness, updates_per_batch))


def _refuse(row: Algorithm, contradictions: Iterator[str]) -> None:
    for sentence in contradictions:
        raise ValueError(f"algorithm {row.name!r}: {sentence}")


def _contradictions(row: Algorithm) -> Iterator[str]:
    """Why these choices cannot be had together, a sentence each."""
    credit, correction, kl = row.credit, row.correction, row.kl
    learned = isinstance(credit, GAE) or (
        isinstance(credit, RewardToGo) and credit.baseline == "learned"
    )
    if row.limit is not None and row.ratio == "none":
        yield "a limit bounds a ratio, and ratio is 'none'; set limit = 'none' too, or a ratio"
    if row.imitates and row.ratio != "none":
        yield "no policy sampled the demonstrations, so no ratio exists; set ratio = 'none'"
    if row.imitates and correction is not None:
        yield "no policy sampled the demonstrations: nothing to correct; drop correction"
    if row.anchor == "behaviour" and row.ratio != "none" and correction is not None:
        yield "correction and a ratio over behaviour apply the same weight twice; drop one"
    if row.anchor == "behaviour" and row.ratio == "none":
        yield "anchor divides a ratio, and there is none, so nothing would be corrected; set one"
    if isinstance(row.limit, WideningWindow) and row.ratio in ("sequence", "full"):
        yield (
            f"ratio {row.ratio!r} is one number for the episode, and a window that widens with the "
            "token's number would limit it differently at each; use ratio = 'prefix'"
        )
    if learned and row.critic is None:
        yield "credit needs values and no critic learns them; set critic = 'network' or 'head'"
    if row.critic is not None and not learned:
        yield (
            "a critic would be trained and not used; set critic = 'none', or credit = 'gae' or "
            "credit = { kind = 'reward_to_go', baseline = 'learned' }"
        )
    unrewarded = isinstance(credit, Imitation | Filter | TeacherLogRatio | None)
    if kl is not None and kl.estimator == "k1_reward" and unrewarded:
        yield "kl 'k1_reward' lowers the reward, which this credit does not read; set kl = 'k2'"
    if kl is not None and kl.estimator == "k1_reward" and row.divides_by_mean:
        yield "kl 'k1_reward' makes rewards negative, and credit divides by a mean; set kl = 'k2'"
    if kl is not None and kl.estimator == "k3_ratio" and row.ratio == "none":
        yield "kl 'k3_ratio' multiplies by the ratio, and ratio is 'none'; use 'k2'"
    if credit is None and row.distillation is None:
        yield "nothing to learn from: neither credit nor distillation; set one of them"
    if credit is None and (row.ratio != "none" or correction is not None):
        yield "a ratio or a correction weighs credit, and there is none; drop them"
    if row.covariance is not None and isinstance(credit, Imitation | Filter | None):
        yield "covariance compares log-probs with credit, which does not vary here; drop it"
    if correction is not None and correction.prox == "interpolated" and row.spans_segments:
        yield "correction.prox 'interpolated' is defined for token ratios; use 'recomputed'"
    if row.entropy < 0.0:
        yield f"entropy must be ≥ 0, got {row.entropy}"


def _misfits(row: Algorithm, staleness: int, updates: int) -> Iterator[str]:
    """Why a run whose samples age like this cannot have the algorithm, a sentence each."""
    correction, critic = row.correction, row.critic
    over_behaviour = row.anchor == "behaviour" and row.ratio != "none"
    still_there = (
        "and with one update per batch they are still there; set rl.epochs or rl.minibatches "
        "above 1, or drop it"
    )
    if staleness > 0 and correction is None and not over_behaviour:
        yield (
            f"samples may lag by {staleness} versions and nothing corrects for it, since the "
            "ratio's denominator is the learner's own recomputation; set algorithm.correction, "
            "or anchor = 'behaviour'"
        )
    if updates > 1 and row.ratio == "none" and not isinstance(row.credit, Filter):
        yield (
            f"{updates} updates per batch make all but the first off-policy, and ratio 'none' is "
            "right only for fresh samples; set ratio = 'token', or one update"
        )
    if updates == 1 and critic is not None and critic.clip is not None:
        yield f"critic.clip holds values near where the batch began, {still_there}"
    if updates == 1 and isinstance(row.covariance, KLCov):
        yield f"covariance 'kl_cov' holds tokens near where the batch began, {still_there}"
    if updates > 1 and correction is not None and correction.prox == "first_pass":
        yield (
            "correction.prox = 'first_pass' takes the first update's numbers on the way, and "
            f"there are {updates} updates; use 'recomputed'"
        )
