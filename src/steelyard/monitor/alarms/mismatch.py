"""Engine and learner compute different log-probs of the same tokens."""

from __future__ import annotations

import math
from collections.abc import Iterator

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import History
from steelyard.monitor.alarms.settings import MismatchSettings
from steelyard.monitor.significance import outlier

_LEAST_SPREAD = 0.25


def findings(history: History, settings: MismatchSettings, rate: float) -> Iterator[Finding]:
    """`mismatch`: the mean |Δ log-prob| of a step exceeds its bound, and what was usual.

    H0: the log of the step's mismatch is one more of the earlier ones. A bound that is exceeded for
    three steps running needs no test: it may have been so from the start.
    """
    now = history.now.metrics.get("mismatch", math.nan)
    earlier = [s.metrics.get("mismatch", math.nan) for s in history.steps[:-1]]
    logs = [math.log(x) for x in earlier if x > 0]
    if not now > settings.max_nats:
        return
    level = rate / max(history.planned, 1)
    p = outlier(logs, math.log(now), _LEAST_SPREAD)
    lasting = history.running(lambda s: s.metrics.get("mismatch", math.nan) > settings.max_nats)
    if p <= level or lasting:
        why = "the third step running" if lasting else f"p = {p:.1g}"
        yield Finding(
            name="mismatch",
            text=(
                f"engine and learner differ by {now:.3g} nats a token at step {history.now.step} "
                f"({why}): what is learned from is not what was sampled; check that the last "
                "weights reached the engine"
            ),
            evidence={"mismatch": now, "bound": settings.max_nats, "p": p, "level": level},
            episodes=(),
        )
