"""An algorithm is one choice per axis. What cannot be fails when it is built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from steelyard.objective.aggregate import Aggregate
from steelyard.objective.correction import Correction
from steelyard.objective.credit import (
    GAE,
    CreditRule,
    Filter,
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
        for broken, sentence in _contradictions(self):
            if broken:
                raise ValueError(f"algorithm {self.name!r}: {sentence}")

    @property
    def imitates(self) -> bool:
        """Whether it learns from demonstrations instead of its own episodes."""
        return isinstance(self.credit, Imitation)

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
        if self.credit is None or self.imitates:
            return
        covered = self.correction is not None or (
            self.anchor == "behaviour" and self.ratio != "none"
        )
        if staleness > 0 and not covered:
            raise ValueError(
                f"algorithm {self.name!r}: samples may lag by {staleness} versions and nothing "
                "corrects for it, since the ratio's denominator is the learner's own "
                "recomputation; set algorithm.correction, or anchor = 'behaviour'"
            )
        if updates_per_batch > 1 and self.ratio == "none" and not isinstance(self.credit, Filter):
            raise ValueError(
                f"algorithm {self.name!r}: {updates_per_batch} updates per batch make all but the "
                "first off-policy, and ratio 'none' is right only for fresh samples; set "
                "ratio = 'token', or one update"
            )
        if updates_per_batch == 1 and self.critic is not None and self.critic.clip is not None:
            raise ValueError(
                f"algorithm {self.name!r}: critic.clip holds values near where the batch began, "
                "and with one update per batch they are still there; set rl.epochs or "
                "rl.minibatches above 1, or drop it"
            )
        if updates_per_batch == 1 and isinstance(self.covariance, KLCov):
            raise ValueError(
                f"algorithm {self.name!r}: covariance 'kl_cov' holds tokens near where the batch "
                "began, and with one update per batch they are still there; set rl.epochs or "
                "rl.minibatches above 1, or drop it"
            )
        if (
            updates_per_batch > 1
            and self.correction is not None
            and self.correction.prox == "first_pass"
        ):
            raise ValueError(
                f"algorithm {self.name!r}: correction.prox = 'first_pass' takes the first update's "
                f"numbers on the way, and there are {updates_per_batch} updates; use 'recomputed'"
            )


def _contradictions(row: Algorithm) -> list[tuple[bool, str]]:
    learned = (isinstance(row.credit, RewardToGo) and row.credit.baseline == "learned") or (
        isinstance(row.credit, GAE)
    )
    rewarded = not isinstance(row.credit, Imitation | Filter | TeacherLogRatio | None)
    return [
        (
            row.limit is not None and row.ratio == "none",
            "a limit bounds a ratio, and ratio is 'none'; set limit = 'none' too, or a ratio",
        ),
        (
            isinstance(row.credit, Imitation) and row.ratio != "none",
            "imitation weighs demonstrated tokens, which no policy sampled, so no ratio exists; "
            "set ratio = 'none'",
        ),
        (
            isinstance(row.credit, Imitation) and row.correction is not None,
            "imitation weighs demonstrated tokens, which no policy sampled, so there is nothing "
            "to correct; drop correction",
        ),
        (
            row.correction is not None and row.anchor == "behaviour" and row.ratio != "none",
            "the ratio is already taken over behaviour, so correction would apply the same weight "
            "twice; drop it, or set anchor = 'prox'",
        ),
        (
            row.anchor == "behaviour" and row.ratio == "none",
            "anchor is the denominator of a ratio, and ratio is 'none', so nothing would be "
            "corrected; set a ratio, or correction",
        ),
        (
            isinstance(row.limit, WideningWindow) and row.ratio in ("sequence", "full"),
            f"ratio {row.ratio!r} is one number for the episode, and a window that widens with the "
            "token's number would limit it differently at each; use ratio = 'prefix'",
        ),
        (
            learned and row.critic is None,
            "credit needs values and no critic learns them; set critic = 'network' or 'head'",
        ),
        (
            row.critic is not None and not learned,
            "a critic would be trained and not used; set critic = 'none', or credit = 'gae' or "
            "credit = { kind = 'reward_to_go', baseline = 'learned' }",
        ),
        (
            row.kl is not None and row.kl.estimator == "k1_reward" and not rewarded,
            "kl 'k1_reward' is taken off the reward, which this credit does not read; set "
            "kl = 'k2', or 'none'",
        ),
        (
            row.kl is not None and row.kl.estimator == "k3_ratio" and row.ratio == "none",
            "kl 'k3_ratio' multiplies by the ratio, and ratio is 'none'; use 'k2'",
        ),
        (
            row.credit is None and row.distillation is None,
            "nothing to learn from: neither credit nor distillation; set one of them",
        ),
        (
            row.credit is None and (row.ratio != "none" or row.correction is not None),
            "a ratio or a correction weighs credit, and there is none; drop them",
        ),
        (
            row.covariance is not None and isinstance(row.credit, Imitation | Filter | None),
            "covariance compares log-probs with credit, which does not vary here; drop it",
        ),
        (
            row.correction is not None
            and row.correction.prox == "interpolated"
            and row.spans_segments,
            "correction.prox 'interpolated' is defined token by token; use 'recomputed' with a "
            "ratio over the episode",
        ),
        (row.entropy < 0.0, f"entropy must be ≥ 0, got {row.entropy}"),
    ]
