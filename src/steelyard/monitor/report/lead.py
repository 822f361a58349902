"""What happened, in a few sentences: the same for the page and for the Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.monitor.report.curves import Rate
from steelyard.monitor.report.story import Story
from steelyard.monitor.text import bounds, percent


def lead(story: Story) -> list[str]:
    """The sentences, most important first; none of them says more than the record does."""
    return list(_sentences(story))


def _sentences(story: Story) -> Iterator[str]:
    yield from _progress(story)
    yield from _belief(story)
    n = len(story.alarms)
    if n:
        first = story.alarms[0]
        where = f" at step {first.step}" if first.step is not None else ""
        yield f"{n} alarm{'s' if n > 1 else ''}, the first{where}: {first.text.rstrip('.')}."
    without = sum(
        r["training"] + r["evaluation"] for r in story.outcomes if not r["carries_reward"]
    )
    if without:
        yield f"{without:,} episodes could not be scored; they are in no rate."
    zero = list(story.summary["kinds_at_zero"])
    if zero:
        yield f"Never solved at the end: {', '.join(kind or 'all tasks' for kind in zero)}."


def _progress(story: Story) -> Iterator[str]:
    known = [(stage, stage.rate) for stage in story.stages if stage.rate is not None]
    if not known:
        if story.unseen:
            step, rate = story.unseen[-1]
            yield f"Success on unseen dev tasks at step {step}: {_said(rate)}."
        else:
            yield "No evaluation on unseen tasks has ended yet."
        return
    (first, before), (last, after) = known[0], known[-1]
    if first is last:
        yield f"Success on {last.split} tasks, {last.name}: {_said(after)}."
        return
    yield (
        f"Success on {last.split} tasks went from {_said(before)} ({first.name}) to {_said(after)}"
        f" ({last.name}); an episode counts when training and held-out checks all pass."
    )


def _belief(story: Story) -> Iterator[str]:
    known = [(s, s.paid, s.accepted) for s in story.steps if s.paid and s.accepted]
    if not known:
        if story.steps:
            yield "No training episode has held-out checks, so nothing tests the reward itself."
        return
    step, paid, accepted = known[-1]
    assert paid is not None
    assert accepted is not None
    first = known[0][0]
    before = ""
    if first is not step and first.gap is not None:
        before = f" ({100 * first.gap:.1f} at step {first.step})"
    yield (
        f"At step {step.step} the verifier paid {_said(paid)} of the training episodes, and the"
        f" held-out checks accept {_said(accepted)} of the same ones: a gap of"
        f" {100 * (paid.value - accepted.value):.1f} points{before}."
    )


def _said(rate: Rate) -> str:
    return f"{percent(rate.value)} [{bounds(rate.low, rate.high)}]"
