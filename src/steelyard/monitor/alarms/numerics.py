"""Loss or gradient is not a number, or the gradient jumps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import History
from steelyard.monitor.alarms.settings import NumericsSettings
from steelyard.monitor.significance import outlier

_LEAST_SPREAD = 0.25
"""Of log gradient norms: batches differ by that much in any run."""
_REMEMBERED = 20


def findings(history: History, settings: NumericsSettings, rate: float) -> Iterator[Finding]:
    """`not_finite` (exact: no false alarm) and `gradient_spike`.

    H0: the log gradient norm of this step is one more of the latest ones.
    """
    metrics, step = history.now.metrics, history.now.step
    broken = [n for n in ("loss", "grad_norm") if n in metrics and not math.isfinite(metrics[n])]
    if broken:
        yield Finding(
            name="not_finite",
            text=(
                f"{' and '.join(broken)} of step {step} not finite{_moved(metrics)}; its batch is "
                "in the record (event bad_batch) and can be replayed"
            ),
            evidence={"not_finite": broken, "step": step},
            episodes=tuple(e.id for e in history.now.episodes),
        )
        return
    norm = metrics.get("grad_norm", math.nan)
    earlier = [s.metrics.get("grad_norm", math.nan) for s in history.steps[:-1]]
    logs = [math.log(x) for x in earlier if x > 0][-_REMEMBERED:]
    if not (norm > 0 and logs):
        return
    level = rate / max(history.planned, 1)
    p = outlier(logs, math.log(norm), _LEAST_SPREAD)
    usual = math.exp(sorted(logs)[len(logs) // 2])
    if p <= level and norm >= settings.min_factor * usual:
        yield Finding(
            name="gradient_spike",
            text=(
                f"the gradient norm of step {step} is {norm:.3g}, {norm / usual:.0f} times the "
                f"usual {usual:.3g} (p = {p:.1g}); from ten times the usual its batch is in the "
                "record (event bad_batch) and can be replayed"
            ),
            evidence={"grad_norm": norm, "usual": usual, "p": p, "level": level, "step": step},
            episodes=tuple(e.id for e in history.now.episodes),
        )


def _moved(metrics: Mapping[str, float]) -> str:
    """What is known of the weights: of several minibatches, others may have moved them."""
    match metrics.get("updated"):
        case None:
            return ""
        case 0.0:
            return ", so the step moved nothing"
        case _:
            return "; its other minibatches moved the weights"
