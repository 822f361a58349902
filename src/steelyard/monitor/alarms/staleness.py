"""What is learned from is no longer what the policy would do."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import History
from steelyard.monitor.alarms.settings import StalenessSettings
from steelyard.monitor.significance import outlier

_EFFECTIVE_SHARE = "ess_tokens"
_LEAST_SPREAD = 0.25


def findings(history: History, settings: StalenessSettings, rate: float) -> Iterator[Finding]:
    """`effective_sample_collapse` and `stale_samples`: a bound is broken, out of the usual
    or for three steps running.

    H0: the log of the step's figure is one more of the earlier ones. Effective sample size is
    (Σ w)² / Σ w² over the trained tokens' ratios w; its share is that over their number.
    """
    level = rate / 2 / max(history.planned, 1)
    share = history.now.metrics.get(_EFFECTIVE_SHARE, math.nan)
    p = outlier(_logs(history, _EFFECTIVE_SHARE, -1.0), -_log(share), _LEAST_SPREAD)
    lasting = history.running(
        lambda s: s.metrics.get(_EFFECTIVE_SHARE, math.nan) < settings.min_effective_share
    )
    if share < settings.min_effective_share and (p <= level or lasting):
        yield Finding(
            name="effective_sample_collapse",
            text=(
                f"step {history.now.step} learned from {share:.0%} of its tokens in effect "
                f"({_because(lasting, p)}): a few ratios outweigh the rest; allow less staleness, "
                "or fewer optimiser steps a batch"
            ),
            evidence={"effective_share": share, "p": p, "level": level},
        )
    stale = history.now.metrics.get("staleness", math.nan)
    p = outlier(_logs(history, "staleness", 1.0), _log(1.0 + stale), _LEAST_SPREAD)
    lasting = history.running(
        lambda s: s.metrics.get("staleness", math.nan) > settings.max_staleness
    )
    if stale > settings.max_staleness and (p <= level or lasting):
        yield Finding(
            name="stale_samples",
            text=(
                f"the samples of step {history.now.step} are {stale:.1f} policy versions old on "
                f"average ({_because(lasting, p)}): the learner outruns the engine; "
                "lower rl.staleness"
            ),
            evidence={"staleness": stale, "p": p, "level": level},
        )


def _because(lasting: bool, p: float) -> str:
    return "the third step running" if lasting else f"p = {p:.1g}"


def _logs(history: History, name: str, sign: float) -> Sequence[float]:
    offset = 1.0 if name == "staleness" else 0.0
    values = (_log(offset + s.metrics.get(name, math.nan)) for s in history.steps[:-1])
    return [sign * value for value in values if math.isfinite(value)]


def _log(value: float) -> float:
    return math.log(value) if value > 0 else math.nan
