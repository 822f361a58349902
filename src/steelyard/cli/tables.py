"""What a training run prints when it ends: before and after, and what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.panel import Panel as Box
from rich.table import Table
from rich.text import Text

from steelyard.cli.drawing import BAD, DIM, GOOD, Json, episode_text, outcomes_text, titled_table
from steelyard.monitor import before_and_after, view
from steelyard.monitor.text import bounds, duration, kind_name, percent, rate_text
from steelyard.store import RunReader

_STAGES = {"base": "base model", "warm_start": "after warm start", "final": "after RL"}


def print_report(run: Path, console: Console | None = None) -> None:
    """The report of the run in the directory `run`, as far as the run has come."""
    console = console or Console()
    with RunReader(run) as reader:
        parts = _parts(reader)
    for part in parts:
        console.print(part)


def _parts(reader: RunReader) -> list[RenderableType]:
    summary = view(reader, "summary")
    parts = [before_after_table(summary), *kind_notes(summary)]
    pair = before_and_after(reader)
    if pair is not None:
        before, after = view(reader, "episode", pair)["episodes"]
        parts += [Text(), side_by_side(before, after)]
    return [*parts, Text(), outcomes_table(summary), Text(), cost_table(summary)]


def before_after_table(summary: Json) -> RenderableType:
    """pass@1 with its 95 % interval: base model, warm start, final; in all and by kind."""
    stages = {name: summary[name] for name in _STAGES if name in summary}
    if not stages:
        return _evaluations_table(summary)
    splits = " and ".join(sorted({score["split"] for score in stages.values()}))
    table = titled_table(
        f"pass@1 on {splits} tasks, all training and held-out checks (95% interval)"
    )
    table.add_column("kind")
    for name in stages:
        table.add_column(_STAGES[name], justify="right")
    table.add_row("all", *(_overall(score) for score in stages.values()), end_section=True)
    for kind in sorted({kind for score in stages.values() for kind in score["by_kind"]}):
        cells = [_cell(score["by_kind"].get(kind)) for score in stages.values()]
        table.add_row(kind_name(kind), *cells)
    return table


def _evaluations_table(summary: Json) -> RenderableType:
    """For a record without a before and after, such as that of `steelyard eval --out`."""
    if not summary["evaluations"]:
        return Text("no evaluation is recorded yet")
    table = titled_table("pass@1, all training and held-out checks (95% interval)")
    for column in ("evaluation", "split", "pass@1"):
        table.add_column(column)
    for evaluation in summary["evaluations"]:
        table.add_row(evaluation["name"], evaluation["split"], rate_text(evaluation))
    return table


def kind_notes(summary: Json) -> Iterator[RenderableType]:
    """One line for each kind that is never solved, with its diagnosis."""
    for kind, found in summary["kinds_at_zero"].items():
        line = Text()
        line.append(f"kind {kind_name(kind)} stays at 0: ", style=f"bold {BAD}")
        line.append(found["cause"])
        yield line


def side_by_side(before: Json, after: Json) -> RenderableType:
    """One episode before training and one after."""
    grid = Table.grid(expand=True, padding=(0, 1, 0, 0))
    grid.add_column(ratio=1)
    grid.add_column(ratio=1)
    grid.add_row(
        Box(episode_text(before), title=_episode_title("before", before), border_style=BAD),
        Box(episode_text(after), title=_episode_title("after", after), border_style=GOOD),
    )
    return grid


def outcomes_table(summary: Json) -> RenderableType:
    """How episodes ended, in training, in evaluations and by held-out checks."""
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(style=DIM, no_wrap=True)
    rows.add_column(overflow="fold")
    for where, counts in summary["outcomes"].items():
        rows.add_row(where.replace("heldout", "held-out checks"), outcomes_text(counts))
    return Group(Text("how episodes ended", style="bold"), rows)


def cost_table(summary: Json) -> RenderableType:
    """Seconds by part, tokens, peak memory, and where the run directory is."""
    cost = summary["cost"]
    rows = Table.grid(padding=(0, 2, 0, 0))
    rows.add_column(style=DIM, no_wrap=True)
    rows.add_column(overflow="fold")
    sampled, trained, episodes = cost["tokens_sampled"], cost["tokens_trained"], cost["episodes"]
    memory = cost["peak_memory_bytes"]
    rows.add_row("time", f"{duration(cost['seconds_total'])}: {_parts_of_time(cost['seconds'])}")
    if cost["seconds_within_sampling"]:
        rows.add_row("within sampling", _parts_of_time(cost["seconds_within_sampling"]))
    rows.add_row(
        "episodes", f"{episodes['training']:,} training, {episodes['evaluation']:,} evaluation"
    )
    rows.add_row(
        "tokens sampled", f"{sampled['training']:,} training, {sampled['evaluation']:,} evaluation"
    )
    rows.add_row(
        "tokens trained", f"{trained['warm_start']:,.0f} warm start, {trained['rl']:,.0f} RL"
    )
    rows.add_row("groups with signal", f"{summary['groups_with_signal']} of {summary['groups']}")
    rows.add_row("peak memory", "not recorded" if memory is None else f"{memory / 2**30:.2f} GiB")
    rows.add_row("run directory", Text(summary["run_directory"], style="bold"))
    if summary["checkpoints"]:
        rows.add_row("checkpoint", Text(summary["checkpoints"][-1]))
    return Group(Text("what it cost", style="bold"), rows)


def _parts_of_time(seconds: Mapping[str, float]) -> str:
    parts = sorted(seconds.items(), key=lambda part: -part[1])
    return ", ".join(f"{name.replace('_', ' ')} {value:.0f} s" for name, value in parts if value)


def _overall(score: Json) -> Text:
    return Text(rate_text(score), style="bold")


def _cell(rate: Json | None) -> Text:
    if rate is None or rate["n"] == 0:
        return Text("–", style=DIM)
    cell = Text(f"{percent(rate['pass_at_1']):>4}", style=BAD if rate["pass_at_1"] == 0 else "")
    cell.append(f"  {bounds(rate['low'], rate['high']):>7}  n={rate['n']}", style=DIM)
    return cell


def _episode_title(when: str, episode: Json) -> str:
    return f"{when}: {episode['task']}"
