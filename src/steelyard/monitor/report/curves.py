"""What the report's curves are drawn from: rates per step with intervals clustered by task."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from steelyard.monitor.statistics import clustered_standard_error
from steelyard.store import EpisodeRecord

_Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Rate:
    """A mean of values in [0, 1] with its 95 % interval; `n` values from `tasks` tasks."""

    value: float
    low: float
    high: float
    n: int
    tasks: int


@dataclass(frozen=True, slots=True)
class StepRates:
    """One step's training episodes: what the verifier paid, and what held-out checks accept.

    `paid` and `accepted` are over the same episodes, those that both could score.
    """

    step: int
    reward: Rate | None
    paid: Rate | None
    accepted: Rate | None
    unscored: int
    per_episode: dict[str, float]

    @property
    def gap(self) -> float | None:
        return self.paid.value - self.accepted.value if self.paid and self.accepted else None


def clustered_rate(values: Sequence[float], tasks: Sequence[str]) -> Rate | None:
    """Wilson's interval for p̂ with n_eff = n · Var_iid(p̂) / Var_clustered(p̂) samples, ≤ n.

    Samples of one task agree with each other, so n of them say less than n independent ones.
    Where all values are equal nothing shows how much they agree: then n_eff is the number of
    tasks. Values lie in [0, 1]; for partial credit the interval is wider than need be, for p(1 −
    p) is the largest variance at a mean of p. None for no values.

    Source: Korn and Graubard 1998 (effective sample size), with Wilson's interval.
    """
    if not values:
        return None
    n, clusters = len(values), len(set(tasks))
    mean = min(1.0, max(0.0, math.fsum(values) / n))
    independent = mean * (1.0 - mean) / n
    clustered = clustered_standard_error(values, tasks) ** 2
    effective = float(clusters)
    if independent > 0:
        effective = n * independent / clustered if clustered > 0 else math.inf
    effective = min(float(n), max(1.0, effective))
    low, high = _wilson(mean, effective)
    return Rate(mean, low, high, n, clusters)


def step_rates(episodes: Iterable[EpisodeRecord]) -> list[StepRates]:
    """Per RL step, ascending; `episodes` are training episodes."""
    by_step: dict[int, list[EpisodeRecord]] = defaultdict(list)
    for episode in episodes:
        by_step[episode.step].append(episode)
    return [_of_step(step, by_step[step]) for step in sorted(by_step)]


def solved_rate(episodes: Iterable[EpisodeRecord]) -> Rate | None:
    """How often training and held-out checks all passed, of the episodes with a verdict."""
    known = [e for e in episodes if e.solved is not None]
    return clustered_rate([float(bool(e.solved)) for e in known], [e.task for e in known])


def _of_step(step: int, episodes: Sequence[EpisodeRecord]) -> StepRates:
    scored = [e for e in episodes if e.raw is not None]
    both = [e for e in scored if e.heldout_reward is not None]
    return StepRates(
        step,
        _mean([(e, e.raw) for e in scored]),
        _mean([(e, e.raw) for e in both]),
        _mean([(e, e.heldout_reward) for e in both]),
        len(episodes) - len(scored),
        _per_episode(episodes),
    )


def _mean(values: Sequence[tuple[EpisodeRecord, float | None]]) -> Rate | None:
    known = [(e.task, v) for e, v in values if v is not None]
    if any(not 0.0 <= v <= 1.0 for _, v in known):
        return None  # a reward of another scale is no rate
    return clustered_rate([v for _, v in known], [task for task, _ in known])


_COUNTS = {
    "turns": "n_turns",
    "tokens": "n_action_tokens",
    "tool calls": "n_calls",
    "calls answered with an error": "n_call_errors",
    "repeated calls": "n_repeated_calls",
}
"""What an episode costs, by the field that counts it; a record may lack the last three."""


def _per_episode(episodes: Sequence[EpisodeRecord]) -> dict[str, float]:
    means = {}
    for name, field in _COUNTS.items():
        counts = [c for e in episodes if (c := getattr(e, field, None)) is not None]
        if counts and len(counts) == len(episodes):
            means[name] = sum(counts) / len(counts)
    return means


def _wilson(mean: float, n: float) -> tuple[float, float]:
    """`wilson_interval` for a number of samples that is no whole number."""
    centre = mean + _Z * _Z / (2 * n)
    half = _Z * math.sqrt(mean * (1.0 - mean) / n + _Z * _Z / (4 * n * n))
    scale = 1.0 + _Z * _Z / n
    low = 0.0 if mean == 0.0 else (centre - half) / scale
    high = 1.0 if mean == 1.0 else (centre + half) / scale
    return low, high
