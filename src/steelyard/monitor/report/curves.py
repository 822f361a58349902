"""What the report's curves are drawn from: rates per step with intervals clustered by task."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from steelyard.monitor.statistics import clustered_interval
from steelyard.store import EpisodeRecord


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
    """The mean of values in [0, 1] with `clustered_interval`; None for no values.

    For partial credit the interval is wider than need be: p(1 − p) is the largest variance that
    values with a mean of p can have.
    """
    if not values:
        return None
    mean = min(1.0, math.fsum(values) / len(values))
    low, high = clustered_interval(values, tasks)
    return Rate(mean, low, high, len(values), len(set(tasks)))


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
    "failed tool calls": "n_call_errors",
    "repeated tool calls": "n_repeated_calls",
}
"""What an episode costs, by the field that counts it; a record may lack the last three."""


def _per_episode(episodes: Sequence[EpisodeRecord]) -> dict[str, float]:
    means = {}
    for name, field in _COUNTS.items():
        counts = [c for e in episodes if (c := getattr(e, field, None)) is not None]
        if counts and len(counts) == len(episodes):
            means[name] = sum(counts) / len(counts)
    return means
