"""What the panel says, row by row, of the steps and evaluations that it heard of."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from steelyard.cli.drawing import (
    BAD,
    DIM,
    GOOD,
    MIXED,
    NEUTRAL,
    VERDICTS,
    level,
    outcomes_text,
    sparkline,
    verdict_bar,
)
from steelyard.conductor.listener import EvaluationReport, StepReport
from steelyard.episodes import GroupVerdict
from steelyard.monitor.text import bounds, kind_name, percent


def reward(steps: Sequence[StepReport], spark: int) -> Text:
    if not steps:
        return Text("no step yet", style=DIM)
    last = steps[-1]
    drawn = _styled(sparkline([s.reward_mean for s in steps], spark), MIXED)
    value = "–" if last.reward_mean is None else f"{last.reward_mean:.2f}"
    drawn.append(f"  {value:>5}", style="bold")
    drawn.append(_interval(last.reward_interval, last.scored), style=DIM)
    return drawn


def heldout(steps: Sequence[StepReport], spark: int) -> Text:
    """What held-out checks say of the same training episodes, and how far that is below."""
    values = [s.heldout_mean for s in steps]
    if not any(v is not None for v in values):
        return Text("no held-out checks yet", style=DIM)
    last = steps[-1]
    drawn = _styled(sparkline(values, spark), GOOD)
    value = "–" if last.heldout_mean is None else f"{last.heldout_mean:.2f}"
    drawn.append(f"  {value:>5}", style="bold")
    if last.gap is not None:
        drawn.append(f"  gap {last.gap:.2f}  n={last.heldout_scored}", style=DIM)
    return drawn


def _dev(evaluations: Sequence[EvaluationReport]) -> list[EvaluationReport]:
    return [e for e in evaluations if e.split == "dev"]


def unseen(evaluations: Sequence[EvaluationReport], spark: int) -> Text:
    if not _dev(evaluations):
        return Text("no evaluation on dev tasks yet", style=DIM)
    last = _dev(evaluations)[-1]
    drawn = _styled(sparkline([e.rate for e in _dev(evaluations)], spark), GOOD)
    drawn.append(f"  {percent(last.rate):>5}", style="bold")
    drawn.append(_interval(last.interval, last.n), style=DIM)
    return drawn


def alarmed(alarms: Sequence[str]) -> Text:
    if not alarms:
        return Text("none", style=DIM)
    drawn = Text(f"{len(alarms)}  ", style=f"bold {BAD}", overflow="ellipsis")
    drawn.append(alarms[-1])
    return drawn


def milestones(evaluations: Sequence[EvaluationReport]) -> Text:
    """The evaluations that are not of dev: before, after the warm start, at the end."""
    milestones = [e for e in evaluations if e.split != "dev"] or _dev(evaluations)[:1]
    if not milestones:
        return Text("–")
    drawn = Text()
    for i, e in enumerate(milestones):
        drawn.append("  →  " if i else "", style=DIM)
        drawn.append(f"{e.name.replace('_', ' ')} ")
        drawn.append(percent(e.rate), style="bold")
    drawn.append(f"  on {milestones[-1].split} tasks", style=DIM)
    return drawn


def groups(steps: Sequence[StepReport], spark: int) -> Text:
    """The last step's groups, and how many of them carry a gradient."""
    if not steps:
        return Text("–")
    last = steps[-1].groups
    drawn = verdict_bar(last, spark)
    mixed = last.get(GroupVerdict.MIXED, 0)
    with_signal = sum(s.groups.get(GroupVerdict.MIXED, 0) for s in steps)
    total = sum(sum(s.groups.values()) for s in steps)
    drawn.append(f"  {mixed}/{sum(last.values())}", style="bold" if mixed else f"bold {BAD}")
    drawn.append(" with signal" if mixed else " mixed: no gradient", style="" if mixed else BAD)
    drawn.append(f", {with_signal}/{total} so far", style=DIM)
    return drawn


def legend(steps: Sequence[StepReport]) -> Text:
    if not steps:
        return Text()
    drawn = Text()
    for verdict, (name, texture, colour) in VERDICTS.items():
        drawn.append(f"{texture} ", style=colour)
        drawn.append(f"{steps[-1].groups.get(verdict, 0)} {name}  ")
    return drawn


def unscored(steps: Sequence[StepReport]) -> Text:
    """Episodes of the last step that carry no reward, and why."""
    if not steps:
        return Text("–")
    last = steps[-1].unscored
    drawn = outcomes_text(last)
    drawn.append(f" of {steps[-1].scored + sum(last.values())} episodes", style=DIM)
    so_far = sum(sum(s.unscored.values()) for s in steps)
    drawn.append(f", {so_far} so far", style=DIM)
    return drawn


def entropy(steps: Sequence[StepReport], spark: int) -> Text:
    values = [s.entropy for s in steps]
    known = [v for v in values if v is not None]
    if not known:
        return Text("–")
    drawn = _styled(sparkline(values, spark, top=max(known)), NEUTRAL)
    drawn.append(f"  {known[-1]:5.2f}", style="bold")
    drawn.append("  nats a token", style=DIM)
    return drawn


def cost(steps: Sequence[StepReport], spark: int) -> Text:
    """Tokens of an episode, its calls, and how many were cut by a limit."""
    tokens = [s.tokens_sampled / s.episodes if s.episodes else None for s in steps]
    known = [v for v in tokens if v is not None]
    if not known:
        return Text("–")
    last = steps[-1]
    drawn = _styled(sparkline(tokens, spark, top=max(known)), NEUTRAL)
    drawn.append(f"  {known[-1]:5.0f}", style="bold")
    drawn.append(" tokens", style=DIM)
    if last.episodes:
        drawn.append(f", {last.calls / last.episodes:.1f} calls", style=DIM)
    drawn.append(f", {last.cut} cut", style=BAD if last.cut else DIM)
    return drawn


def waiting(steps: Sequence[StepReport]) -> Text:
    """Which share of the last step each half waited for the other, or for tools and graders."""
    shares = steps[-1].waiting_shares if steps else None
    if shares is None:
        return Text("–")
    drawn = Text()
    for name, share in zip(("engine", "learner"), shares, strict=True):
        drawn.append(f"{name} ", style=DIM)
        drawn.append(f"{share:.0%}   ", style="bold")
    drawn.append("of the last step", style=DIM)
    return drawn


def speed(steps: Sequence[StepReport]) -> Text:
    if not steps:
        return Text("–")
    last = steps[-1]
    drawn = Text()
    for name, value in (
        ("sampling", last.sampling_tokens_per_second),
        ("training", last.training_tokens_per_second),
    ):
        drawn.append("   " if drawn else "")
        drawn.append(f"{name} ", style=DIM)
        drawn.append("–" if value is None else f"{value:,.0f}", style="bold")
    return drawn


def seconds(steps: Sequence[StepReport]) -> Text:
    if not steps:
        return Text("–")
    last = steps[-1]
    drawn = Text()
    for part, value in last.seconds.items():
        drawn.append("   " if drawn else "")
        drawn.append(f"{part} ", style=DIM)
        drawn.append(f"{value:.1f} s")
    if last.staleness:
        drawn.append("   staleness ", style=DIM)
        drawn.append(f"{last.staleness:.1f}")
    return drawn


def kinds(evaluations: Sequence[EvaluationReport], width: int) -> Text:
    """Each kind of the latest evaluation with a bar of its success; 0 is written out."""
    if not evaluations or not evaluations[-1].by_kind:
        return Text("–")
    drawn, column = Text(), 0
    for kind, (solved, n) in evaluations[-1].by_kind.items():
        name = kind_name(kind)
        if column + len(name) + 2 > width:
            drawn.append("\n")
            column = 0
        column += len(name) + 4
        drawn.append(f"{name} ", style=DIM)
        if n == 0:
            drawn.append("?")
        elif solved == 0:
            drawn.append("0", style=f"bold {BAD}")
        else:
            drawn.append(level(solved / n), style=GOOD)
        drawn.append("  ")
    return drawn


def _styled(text: str, style: str) -> Text:
    """`text` in a style that what is appended later does not inherit."""
    return Text().append(text, style=style)


def _interval(interval: tuple[float, float] | None, n: int) -> str:
    return "" if interval is None else f"  {bounds(*interval)}  n={n}"
