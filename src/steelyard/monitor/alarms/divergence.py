"""Training reward and truth part: the gap on the same episodes has grown since the reference.

Only full passes are compared, so partial credit is no gap.
A gap that was there from the start is not this alarm: the verifier is then weak, see `verifier`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import (
    EpisodeFacts,
    History,
    StepFacts,
    average,
    heldout_rates,
    units,
)
from steelyard.monitor.alarms.settings import DivergenceSettings
from steelyard.monitor.significance import Growth, fisher_tail, growth

_SHOWN = 40
_DOUBTED = 0.01
"""Level of the second test of `reward_gap` where held-out success does not follow the reward."""
_WHOLE_RUN, _ONE_TASK = 0.85, 0.15
"""How the family's error is shared between its two alarms."""


def findings(history: History, settings: DivergenceSettings, rate: float) -> Iterator[Finding]:
    """`reward_gap` of the run as a whole, `task_jump` of each task of the last step."""
    if history.looks_now and ("reward_gap", "") not in history.known:
        yield from _reward_gap(history, settings, rate * _WHOLE_RUN)
    yield from _task_jumps(history, rate * _ONE_TASK)


def _reward_gap(history: History, settings: DivergenceSettings, rate: float) -> Iterator[Finding]:
    """H0: the mean gap of the recent window is at most that of the reference, or the share of wrong
    episodes among those accepted is.

    gap = 1[raw ≥ 1] − 1[held-out ≥ 1] of an episode. Where a verifier always lets the same share of
    wrong work pass, the gap grows with the acceptance rate, and nothing was learned but the task.
    Held-out success then rises with it: where it does, both H0 must be rejected at the level; where
    it does not, the second at 1 %. The second is also held against Fisher's exact test of the
    episodes: a dozen accepted ones, none of them wrong, would pass for a share without spread.
    """
    level = history.level(rate)
    before = units(history.reference, lambda e: e.gap, history)
    wrong_before = units(history.reference, lambda e: e.wrongly_accepted, history)
    best: tuple[Growth, Growth, Sequence[StepFacts]] | None = None
    for window in history.windows:
        tested = growth(before, units(window, lambda e: e.gap, history), level=level)
        if tested is None or tested.growth < settings.min_growth or tested.p > level:
            continue
        wrong_after = units(window, lambda e: e.wrongly_accepted, history)
        share = growth(wrong_before, wrong_after, level=level)
        if share is None:
            continue
        share = replace(share, p=max(share.p, _by_counts(history.reference, window)))
        if share.p > (level if _follows(history, window) else _DOUBTED):
            continue
        if best is None or tested.p < best[0].p:
            best = tested, share, window
    if best is None:
        return
    tested, share, window = best
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
            "wrong_among_accepted_before": share.before,
            "wrong_among_accepted_after": share.after,
            "p_wrong_among_accepted": share.p,
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


def _by_counts(reference: Sequence[StepFacts], window: Sequence[StepFacts]) -> float:
    """p of so many wrong among the accepted of `window`, were the episodes independent."""
    now, earlier = (
        [w for s in steps for e in s.episodes if (w := e.wrongly_accepted) is not None]
        for steps in (window, reference)
    )
    return fisher_tail(int(sum(now)), len(now), int(sum(earlier)), len(earlier))


def _follows(history: History, window: Sequence[StepFacts]) -> bool:
    """Whether held-out success rose by at least half as much as full acceptance did."""
    accepted, right = (
        (average(window, of) or 0.0) - (average(history.reference, of) or 0.0)
        for of in (_accepted, _right)
    )
    return right >= 0.5 * accepted


def _accepted(episode: EpisodeFacts) -> float | None:
    return None if episode.gap is None else float((episode.raw or 0.0) >= 1.0)


def _right(episode: EpisodeFacts) -> float | None:
    return None if episode.gap is None else float((episode.heldout or 0.0) >= 1.0)


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

    Paid is one that passed the verifier in full, wrong one that did not pass the held-out checks in
    full. Fisher's exact test, over all tasks of the step.
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
    return episode.wrongly_accepted == 1.0
