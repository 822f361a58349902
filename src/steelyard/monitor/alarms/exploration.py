"""The policy repeats itself before it succeeds: groups stop differing, and so stop teaching.

An honest run that ends in all-pass groups also loses its entropy; it is told apart by its success.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import (
    EpisodeFacts,
    History,
    StepFacts,
    average,
    clusters,
    mean,
)
from steelyard.monitor.alarms.settings import ExplorationSettings
from steelyard.monitor.significance import Unit, growth
from steelyard.monitor.statistics import variety

_SHOWN = 16


def findings(history: History, settings: ExplorationSettings, rate: float) -> Iterator[Finding]:
    """`exploration_collapse`, over the visits of tasks that did not all succeed.

    H0: the share of distinct programs in such a group has not fallen since the reference. Besides
    being significant, it must have fallen by `min_fall`, as entropy (where it is known); pass@k −
    pass^k, the share of groups in which some but not all succeed, must be no larger than before;
    the kinds of those tasks must succeed no more often than before, or it is learning; and success
    must lie below `enough_success`.
    """
    if not history.looks_now or ("exploration_collapse", "") in history.known:
        return
    level = history.level(rate)
    before = _groups(history.reference, history)
    for window in history.windows:
        success = average(window, lambda e: e.truth)
        after = _groups(window, history)
        if success is None or success >= settings.enough_success or not before or not after:
            continue
        fallen = growth(_sameness(before), _sameness(after), level=level)
        if fallen is None or fallen.p > level:
            continue
        distinct_before, distinct_after = 1.0 - fallen.before, 1.0 - fallen.after
        entropy = _entropy(history.reference), _entropy(window)
        mixed = _mixed(history.reference, history), _mixed(window, history)
        kept = 1.0 - settings.min_fall
        if distinct_after > kept * distinct_before or mixed[1] > mixed[0]:
            continue
        if None not in entropy and entropy[1] > kept * entropy[0]:  # type: ignore[operator]
            continue
        kinds = {e.kind for group in after for e in group}
        there = _success(history.reference, kinds), _success(window, kinds)
        if None not in there and there[1] > there[0]:  # type: ignore[operator]
            continue
        last = [e for group in after[-4:] for e in group]
        yield Finding(
            name="exploration_collapse",
            text=(
                f"exploration collapses at {success:.0%} success: of the episodes of a group that "
                f"is not solved, {distinct_after:.0%} differ, {distinct_before:.0%} did at the "
                f"start (p = {fallen.p:.1g}), so nothing new is tried; raise the entropy bonus or "
                "the temperature, or imitate what fails (rl.rehearsal_rate_fraction)"
            ),
            evidence={
                "distinct_before": distinct_before,
                "distinct_after": distinct_after,
                "entropy_before": entropy[0],
                "entropy_after": entropy[1],
                "pass_at_k_minus_pass_hat_k_before": mixed[0],
                "pass_at_k_minus_pass_hat_k_after": mixed[1],
                "success": success,
                "success_of_these_kinds_before": there[0],
                "success_of_these_kinds_after": there[1],
                "p": fallen.p,
                "level": level,
                "window_steps": [s.step for s in window],
            },
            episodes=tuple(e.id for e in last[-_SHOWN:]),
            tasks=tuple(dict.fromkeys(e.task for group in after for e in group)),
        )
        return


def _visits(steps: Sequence[StepFacts], history: History) -> list[list[EpisodeFacts]]:
    return [g for g in clusters(steps, lambda e: e.raw is not None, history) if len(g) > 1]


def _groups(steps: Sequence[StepFacts], history: History) -> list[list[EpisodeFacts]]:
    """Visits in which some episode is not right by the independent outcome."""
    return [
        group
        for group in _visits(steps, history)
        if any(e.truth is not None and e.truth < 1.0 for e in group)
    ]


def _sameness(groups: Sequence[Sequence[EpisodeFacts]]) -> list[Unit]:
    """1 − `variety` of each group."""
    shares = [variety(len({e.program for e in group}), len(group)) for group in groups]
    return [Unit(None, 1.0 - share) for share in shares if share is not None]


def _success(steps: Sequence[StepFacts], kinds: Collection[str]) -> float | None:
    return average(steps, lambda e: e.truth if e.kind in kinds else None)


def _mixed(steps: Sequence[StepFacts], history: History) -> float:
    """The mean of pass@k − pass^k at k = the group's size."""
    spread = []
    for group in _visits(steps, history):
        right = sum((e.raw or 0.0) >= 1.0 for e in group)
        spread.append(float(0 < right < len(group)))
    return mean(spread) if spread else 0.0


def _entropy(steps: Sequence[StepFacts]) -> float | None:
    values = [s.metrics.get("entropy", math.nan) for s in steps]
    known = [v for v in values if math.isfinite(v)]
    return mean(known) if known else None
