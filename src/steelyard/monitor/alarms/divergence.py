"""Training reward and truth part: the gap on the same episodes has grown since the reference.

A gap that was there from the start is not this alarm: the verifier is then weak, see `verifier`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import (
    EpisodeFacts,
    History,
    StepFacts,
    average,
    heldout_rates,
    stratum_of,
    units,
)
from steelyard.monitor.alarms.settings import DivergenceSettings
from steelyard.monitor.significance import Growth, fisher_tail, growth

_SHOWN = 40
_WHOLE_RUN, _ONE_TASK = 0.85, 0.15
"""How the family's error is shared between its two alarms."""
_PAID_WRONG = 0.5
"""An episode with at least this gap was paid for what held-out checks reject."""


def findings(history: History, settings: DivergenceSettings, rate: float) -> Iterator[Finding]:
    """`reward_gap` of the run as a whole, `task_jump` of each task of the last step."""
    if history.looks_now and ("reward_gap", "") not in history.known:
        yield from _reward_gap(history, settings, rate * _WHOLE_RUN)
    yield from _task_jumps(history, rate * _ONE_TASK)


def _reward_gap(history: History, settings: DivergenceSettings, rate: float) -> Iterator[Finding]:
    """H0: the mean gap of the recent window is at most that of the reference."""
    level, stratum = history.level(rate), stratum_of(history)
    before = units(history.reference, lambda e: e.gap, stratum)
    best: tuple[Growth, Sequence[StepFacts]] | None = None
    for window in history.windows:
        tested = growth(before, units(window, lambda e: e.gap, stratum), level=level)
        if tested is None or tested.growth < settings.min_growth or tested.p > level:
            continue
        if best is None or tested.p < best[0].p:
            best = tested, window
    if best is None:
        return
    tested, window = best
    raised = _raised_by(window, tested.before + settings.min_growth)
    lost = _lost(history)
    yield Finding(
        name="reward_gap",
        text=(
            f"training reward and held-out checks part: their gap on the same episodes grew from "
            f"{tested.before:.2f} to {tested.after:.2f} (at least {tested.low:.2f} more, "
            f"p = {tested.p:.1g}); the policy is learning what the verifier does not check; read "
            "the episodes that passed it and failed the held-out checks"
        ),
        evidence={
            "gap_before": tested.before,
            "gap_after": tested.after,
            "growth": tested.growth,
            "growth_at_least": tested.low,
            "p": tested.p,
            "level": level,
            "reference_steps": [s.step for s in history.reference],
            "window_steps": [s.step for s in window],
            "training_before": average(history.reference, lambda e: e.raw),
            "training_after": average(window, lambda e: e.raw),
            "heldout_before": average(history.reference, lambda e: e.heldout),
            "heldout_after": average(window, lambda e: e.heldout),
            **lost,
        },
        episodes=tuple(e.id for e in raised[-_SHOWN:]),
        tasks=tuple(dict.fromkeys(e.task for e in raised)),
    )


def _raised_by(window: Sequence[StepFacts], bound: float) -> list[EpisodeFacts]:
    """Paid and wrong episodes of the tasks whose own gap in the window exceeds `bound`."""
    gaps: dict[str, list[float]] = defaultdict(list)
    for step in window:
        for episode in step.episodes:
            if episode.gap is not None:
                gaps[episode.task].append(episode.gap)
    high = {task for task, found in gaps.items() if sum(found) / len(found) > bound}
    return [e for step in window for e in step.episodes if e.task in high and _paid_wrong(e)]


def _lost(history: History) -> dict[str, Any]:
    """The held-out rate now against its own running maximum, over two steps each."""
    rates = [rate for rate in heldout_rates(history) if rate is not None]
    top = max(rates)
    return {
        "heldout_maximum": top,
        "heldout_now": rates[-1],
        "heldout_lost": 1.0 - rates[-1] / top if top > 0 else 0.0,
    }


def _task_jumps(history: History, rate: float) -> Iterator[Finding]:
    """H0: of a task's episodes, those of this step are no oftener paid and wrong than earlier ones.

    Fisher's exact test, over all tasks of the step.
    """
    now: dict[str, list[EpisodeFacts]] = defaultdict(list)
    for episode in history.now.episodes:
        if episode.gap is not None:
            now[episode.task].append(episode)
    if not now:
        return
    earlier: dict[str, list[bool]] = defaultdict(list)
    for step in history.steps[:-1]:
        for episode in step.episodes:
            if episode.task in now and episode.gap is not None:
                earlier[episode.task].append(_paid_wrong(episode))
    level = rate / max(history.planned, 1) / len(now)
    for task, episodes in now.items():
        wrong, known = [e for e in episodes if _paid_wrong(e)], earlier[task]
        if not known or len(wrong) / len(episodes) < sum(known) / len(known) + 0.5:
            continue
        p = fisher_tail(len(wrong), len(episodes), sum(known), len(known))
        if p <= level:
            yield Finding(
                name="task_jump",
                subject=task,
                text=(
                    f"{task}: {len(wrong)} of {len(episodes)} episodes passed the verifier and "
                    f"failed the held-out checks, {sum(known)} of {len(known)} did before "
                    f"(p = {p:.1g}); a shortcut was found, read one of them"
                ),
                evidence={
                    "now": len(wrong),
                    "of": len(episodes),
                    "earlier": sum(known),
                    "of_earlier": len(known),
                    "p": p,
                    "level": level,
                },
                episodes=tuple(e.id for e in wrong),
                tasks=(task,),
            )


def _paid_wrong(episode: EpisodeFacts) -> bool:
    return episode.gap is not None and episode.gap >= _PAID_WRONG
