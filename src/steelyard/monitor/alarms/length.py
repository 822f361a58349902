"""Episodes grow or shrink while success does not rise: padding, loops, or a bonus for brevity."""

from __future__ import annotations

import math
from collections.abc import Iterator

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import EpisodeFacts, History, average, units
from steelyard.monitor.alarms.settings import LengthSettings
from steelyard.monitor.significance import Unit, growth

_SHOWN = 16
_RISES = 0.05
"""By how much success must have grown to explain another length."""


def findings(history: History, settings: LengthSettings, rate: float) -> Iterator[Finding]:
    """`length_drift`. H0: the mean log length has not moved since the reference, up or down.

    Success must neither have risen nor be at or above `enough_success`: where everything is solved,
    it cannot rise.
    """
    if not history.looks_now or ("length_drift", "") in history.known:
        return
    level = history.level(rate) / 2
    before = units(history.reference, _log_tokens, history)
    for window in history.windows:
        after = units(window, _log_tokens, history)
        truth_before = average(history.reference, lambda e: e.truth)
        truth_after = average(window, lambda e: e.truth)
        if truth_before is None or truth_after is None:
            continue
        if truth_after - truth_before >= _RISES or truth_after >= settings.enough_success:
            continue
        for sign in (1.0, -1.0):
            moved = growth(_times(sign, before), _times(sign, after), level=level)
            if moved is None or moved.growth < math.log(settings.min_factor) or moved.p > level:
                continue
            factor = math.exp(sign * moved.growth)
            by_length = sorted(
                (e for s in window for e in s.episodes if e.raw is not None),
                key=lambda e: sign * e.tokens,
            )
            yield Finding(
                name="length_drift",
                text=(
                    f"episodes are {factor:.2g} times as long as at the start (p = {moved.p:.1g}) "
                    f"and success went from {truth_before:.2f} to {truth_after:.2f}; look for "
                    + ("padding or loops" if sign > 0 else "work that is skipped")
                ),
                evidence={
                    "factor": factor,
                    "tokens_before": average(history.reference, _tokens),
                    "tokens_after": average(window, _tokens),
                    "outcome_before": truth_before,
                    "outcome_after": truth_after,
                    "p": moved.p,
                    "level": level,
                    "window_steps": [s.step for s in window],
                },
                episodes=tuple(e.id for e in by_length[-_SHOWN:]),
                tasks=tuple(dict.fromkeys(e.task for e in by_length[-_SHOWN:])),
            )
            return


def _log_tokens(episode: EpisodeFacts) -> float | None:
    """None of an unscored episode: what ended it in an error ended its answer too."""
    tokens = _tokens(episode)
    return None if tokens is None else math.log1p(tokens)


def _tokens(episode: EpisodeFacts) -> float | None:
    return None if episode.raw is None else float(episode.tokens)


def _times(sign: float, units: list[Unit]) -> list[Unit]:
    return [Unit(unit.stratum, sign * unit.value) for unit in units]
