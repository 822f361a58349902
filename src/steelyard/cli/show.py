"""`steelyard show RUN VIEW`: every view of a run, as tables or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any

import typer
from rich.console import Console, JustifyMethod
from rich.panel import Panel as Box
from rich.table import Table
from rich.text import Text

from steelyard.cli.diagnosis_text import draw_diagnosis, draw_findings
from steelyard.cli.drawing import BAD, DIM, GOOD, VERDICTS, Json, episode_text, titled_table
from steelyard.cli.finding import find_run
from steelyard.cli.tables import before_after_table, cost_table, kind_notes, outcomes_table
from steelyard.episodes import GroupVerdict
from steelyard.monitor import VIEWS, view
from steelyard.monitor.scanners import scan_run
from steelyard.monitor.text import percent, printable, rate_text
from steelyard.store import RunReader

_SCANNED = ("findings", "diagnosis")
"""Views of what the scanners found: what was recorded since is scanned first."""


def show(
    run: Annotated[str, typer.Argument(help="A run directory, or the NAME of runs/NAME.")],
    name: Annotated[
        str, typer.Argument(metavar="VIEW", help=f"One of {', '.join(VIEWS)}.")
    ] = "summary",
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="What to narrow the view to: ids, tasks, steps…"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what a run recorded, while it runs or afterwards."""
    with RunReader(find_run(run)) as reader:
        if name in _SCANNED:
            with suppress(OSError):  # a directory that is only read shows what was found before
                scan_run(reader)
        shown = view(reader, name, ids or ())
    if as_json:
        typer.echo(json.dumps(shown, indent=2, allow_nan=False))
        return
    _draw(name, shown, Console())


def _draw(name: str, shown: Json, console: Console) -> None:
    if name == "summary":
        _draw_summary(shown, console)
    elif name == "episode":
        for episode in shown["episodes"]:
            title = f"{episode['id']} · {episode['task']} · {episode['split']}"
            console.print(Box(episode_text(episode, max_lines_per_part=200), title=Text(title)))
    elif name == "diagnosis":
        draw_diagnosis(shown, console)
    elif name == "findings":
        draw_findings(shown, console)
    elif name == "changes":
        console.print(_changes_text(shown))
    elif name == "config":
        console.print_json(json.dumps(shown["config"]))
    else:
        rows = {
            "outcomes": _outcome_row,
            "signals": _signal_row,
            "alarms": _alarm_row,
            "tasks": _task_row,
            "groups": _group_row,
            "episodes": _episode_row,
            "audit": _audit_row,
        }
        if name == "audit":
            console.print(Text(printable(shown["sentence"])))
        if name == "history":
            shown = {"history": _history_rows(shown)}
        elif name == "tokens":
            shown = {"tokens": _token_rows(shown)}
        tables = {title: part for title, part in shown.items() if isinstance(part, list)}
        for title, records in tables.items():
            shape = rows.get(name, dict)
            console.print(_table(title.replace("_", " "), [shape(r) for r in records]))


def _draw_summary(summary: Json, console: Console) -> None:
    console.print(
        Text.assemble((summary["name"], "bold"), f" · {summary['model']} · {summary['state']}")
    )
    console.print(before_after_table(summary))
    for note in kind_notes(summary):
        console.print(note)
    console.print()
    if summary["steps"]:
        console.print(_table("steps", [_step_row(step, summary) for step in summary["steps"]]))
    console.print(outcomes_table(summary))
    console.print()
    console.print(cost_table(summary))


def _step_row(step: Json, summary: Json) -> Json:
    unseen = {e["step"]: percent(e["pass_at_1"]) for e in summary["unseen"]}
    groups = [f"{step['groups'][v]} {VERDICTS[v][0]}" for v in GroupVerdict if step["groups"][v]]
    return {
        "step": step["step"],
        "reward": step["reward_mean"],
        "unseen": unseen.get(step["step"], ""),
        "groups": ", ".join(groups),
        "entropy": step["entropy"],
        "seconds": step["seconds_total"],
    }


def _outcome_row(row: Json) -> Json:
    return {
        "outcome": row["outcome"].replace("_", " "),
        "reward": "yes" if row["carries_reward"] else "no",
        "training": row["training"],
        "evaluation": row["evaluation"],
        "held-out": row["heldout"],
        "example": row["example"],
        "detail": row["detail"],
    }


def _signal_row(row: Json) -> Json:
    """A step with its cost beside it, or an evaluation."""
    if "cost" in row:
        return {key: row[key] for key in ("step", "training", "heldout", "gap", "unseen")} | {
            "unscored": row["unscored"],
            **row["cost"],
        }
    shown = {key: row[key] for key in ("name", "split", "step")}
    shown["pass@1"] = rate_text(row)
    if row["n"]:
        shown[f"pass@{row['k']}"] = percent(row["pass_at_k"])
        shown[f"pass^{row['k']}"] = percent(row["pass_hat_k"])
        shown["tasks left out"] = row["tasks_left_out"]
    return shown


def _alarm_row(alarm: Json) -> Json:
    """The evidence and the episodes are in the JSON."""
    return {
        key: alarm[key] for key in ("step", "name", "subject", "action", "text") if key in alarm
    }


def _task_row(task: Json) -> Json:
    evaluations = {e: percent(rate["pass_at_1"]) for e, rate in task["evaluations"].items()}
    return {
        "task": task["task"],
        "kind": task["kind"],
        "split": task["split"],
        "groups": task["groups"],
        "training": rate_text(task["training"]) if task["training"] else "",
        "evaluations": "  ".join(f"{name} {rate}" for name, rate in evaluations.items()),
    }


def _group_row(group: Json) -> Json:
    """The table leaves out what the id says already; the JSON has everything."""
    marks = ["?" if r is None else f"{r:g}" for r in group["rewards"]]
    return {
        **{key: group[key] for key in ("step", "id", "kind", "verdict")},
        "used": "yes" if group["used"] else "no",
        "rewards": ("" if all(len(mark) == 1 for mark in marks) else " ").join(marks),
        "programs": group["distinct_files"],
    }


def _episode_row(episode: Json) -> Json:
    return {
        **{key: episode[key] for key in ("id", "kind")},
        "reward": episode["cause"] if episode["reward"] is None else f"{episode['reward']:g}",
        "solved": {True: "yes", False: "no", None: "?"}[episode["solved"]],
        "ended": episode["stop_reason"],
        "turns": episode["n_turns"],
        "tokens": episode["n_action_tokens"],
    }


def _audit_row(task: Json) -> Json:
    return {
        "verdict": task["verdict"],
        "task": task["task"],
        "kinds": ", ".join(task["kinds"]),
        "what": task["sentence"],
    }


def _history_rows(history: Json) -> list[dict[str, Any]]:
    """One row a task: `step: solved/scored`, unscored episodes after a plus sign."""
    rows = [{**task, "steps": ""} for task in history["tasks"]]
    for task, step, solved, scored, unscored, _ in history["cells"]:
        lost = f"+{unscored}?" if unscored else ""
        rows[task]["steps"] += f"{history['steps'][step]}: {solved}/{scored}{lost}  "
    return rows


def _token_rows(tokens: Json) -> list[dict[str, Any]]:
    columns = {**({"text": tokens["text"]} if tokens["text"] else {}), **tokens["fields"]}
    return [
        {"position": position, **dict(zip(columns, values, strict=True))}
        for position, values in enumerate(zip(*columns.values(), strict=True), tokens["offset"])
    ]


def _changes_text(changes: Json) -> Text:
    drawn = Text(f"{printable(changes['episode'])} against {printable(changes['against'])}\n")
    styles = {"+": GOOD, "-": BAD, "@": DIM}
    for file in changes["files"]:
        drawn.append(f"\n{printable(file['name'])}: {file['status']}\n", style="bold")
        for mark, text in file["lines"]:
            drawn.append(f"{mark}{printable(text)}\n", style=styles.get(mark, ""))
    return drawn


def _table(title: str, rows: Sequence[Json]) -> Table | Text:
    if not rows:
        return Text(f"{title}: none", style=DIM)
    columns = list(dict.fromkeys(column for row in rows for column in row))
    table = titled_table(title)
    for column in columns:
        number = any(isinstance(row.get(column), int | float) for row in rows)
        justify: JustifyMethod = "right" if number else "left"
        table.add_column(column.replace("_", " "), justify=justify, overflow="fold", no_wrap=number)
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    return table


def _cell(value: Any) -> Text:
    if value is None:
        return Text("–", style=DIM)
    if isinstance(value, float):
        return Text(f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}")
    if value == "yes":
        return Text("yes", style=GOOD)
    return Text(printable(value if isinstance(value, str) else json.dumps(value)))
