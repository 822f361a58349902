"""A part of the shaped reward rises while the outcome that it should serve does not."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import EpisodeFacts, History, average, units
from steelyard.monitor.alarms.settings import AuxiliarySettings
from steelyard.monitor.significance import growth

_OUTCOME = "outcome"
_SHOWN = 16


def findings(history: History, settings: AuxiliarySettings, rate: float) -> Iterator[Finding]:
    """`auxiliary_reward`, for each component but the outcome.

    H0: the component's mean has not grown since the reference. The independent outcome must have
    grown by less than half as much.
    """
    if not history.looks_now or not history.windows:
        return
    names = sorted({n for s in history.reference for e in s.episodes for n in e.components})
    names = [n for n in names if n != _OUTCOME and ("auxiliary_reward", n) not in history.known]
    for name in names:
        level = history.level(rate) / len(names)

        def paid(episode: EpisodeFacts, name: str = name) -> float | None:
            return episode.components.get(name) if episode.raw is not None else None

        before = units(history.reference, paid, history)
        for window in history.windows:
            risen = growth(before, units(window, paid, history), level=level)
            truth_before = average(history.reference, lambda e: e.truth)
            truth_after = average(window, lambda e: e.truth)
            if risen is None or truth_before is None or truth_after is None:
                continue
            if risen.growth < settings.min_growth or risen.p > level:
                continue
            if truth_after - truth_before >= 0.5 * risen.growth:
                continue
            best = sorted(
                (e for s in window for e in s.episodes if paid(e) is not None),
                key=lambda e: e.components[name],
            )
            yield Finding(
                name="auxiliary_reward",
                subject=name,
                text=(
                    f"the reward component {name!r} rose from {risen.before:.2f} to "
                    f"{risen.after:.2f} (p = {risen.p:.1g}) and the outcome went from "
                    f"{truth_before:.2f} to {truth_after:.2f}: the policy works for the component;"
                    " lower its weight or drop it"
                ),
                evidence={
                    "component_before": risen.before,
                    "component_after": risen.after,
                    "outcome_before": truth_before,
                    "outcome_after": truth_after,
                    "p": risen.p,
                    "level": level,
                    "window_steps": [s.step for s in window],
                },
                episodes=tuple(e.id for e in best[-_SHOWN:]),
                tasks=tuple(dict.fromkeys(e.task for e in best[-_SHOWN:])),
            )
            break
