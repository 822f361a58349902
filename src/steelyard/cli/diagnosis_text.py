"""A diagnosis and the scanners' findings, for a person."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from steelyard.cli.drawing import BAD, DIM, GOOD, Json, titled_table
from steelyard.monitor.text import percent, printable

_FEW = 30
_STYLES = {"cheat": f"bold {BAD}", "suspicious": BAD, "info": DIM}


def draw_diagnosis(shown: Json, console: Console) -> None:
    """Of a run, or of groups and tasks."""
    if "diagnoses" in shown:
        for one in shown["diagnoses"]:
            draw_verdict(one, one.get("id") or one["task"], console)
        return
    draw_verdict(shown, "the run", console)
    for cause in shown["causes"]:
        why = "; ".join(cause["why"])
        console.print(_line(f"{_words(cause['cause'])}, for example {cause['example']}: {why}"))
    if shown["worst"]:
        table = titled_table("tasks that wasted most groups")
        for column in ("task", "kind", "wasted", "verdict", "certainty"):
            table.add_column(column, overflow="fold")
        for task in shown["worst"]:
            verdict = (_words(task["verdict"]), task["certainty"])
            cells = (task["task"], task["kind"], str(task["wasted"]), *verdict)
            table.add_row(*(Text(printable(cell)) for cell in cells))
        console.print(table)
        open_ones = [task["experiment"] for task in shown["worst"] if task["experiment"]]
        if open_ones:
            console.print(_line(f"decide by experiment, for example: {open_ones[0]}"))
    for split, ceiling in shown["ceilings"].items():
        if ceiling["shown"] or ceiling["suspected"]:
            console.print(_line(_ceiling(split, ceiling)))
    counts = shown["findings"]["by_severity"]
    said = ", ".join(f"{n} {severity}" for severity, n in counts.items()) or "none"
    console.print(_line(f"findings in {shown['findings']['scanned']} scanned episodes: {said}"))


def draw_verdict(shown: Json, title: str, console: Console) -> None:
    """Verdict, evidence, what to try next, and how to decide what is open."""
    good = shown["verdict"] in ("has_gradient", "mastered")
    head = Text(f"{printable(title)}: ", style="bold")
    head.append(_words(shown["verdict"]), style=f"bold {GOOD if good else BAD}")
    head.append(f" ({shown['certainty']})", style=DIM)
    console.print(head)
    _bullets(console, "", shown["why"])
    _bullets(console, "try: ", shown["next"])
    if shown.get("episodes"):
        console.print(_line(f"  see: {', '.join(shown['episodes'])}", DIM))
    if shown.get("experiment"):
        console.print(_line(f"  decide: {shown['experiment']}"))


def draw_findings(shown: Json, console: Console) -> None:
    rows = sorted(shown["findings"], key=lambda row: list(_STYLES).index(row["severity"]))
    scanned = f"{shown['scanned']} of {shown['episodes']} episodes scanned"
    console.print(_line(f"{shown['total']} findings; {scanned}"))
    if not rows:
        return
    table = titled_table("findings")
    for column in ("severity", "episode", "split", "turn", "paid", "scanner", "what"):
        table.add_column(column, overflow="fold")
    for row in rows[:_FEW]:
        turn = "" if row["turn"] is None else str(row["turn"] + 1)
        paid = "?" if row["raw"] is None else f"{row['raw']:g}"
        cells = (row["episode"], row["split"], turn, paid, row["scanner"], row["text"])
        table.add_row(
            Text(row["severity"], style=_STYLES[row["severity"]]),
            *(Text(printable(cell)) for cell in cells),
        )
    console.print(table)
    if len(rows) > _FEW:
        console.print(_line(f"{len(rows) - _FEW} more: --json has them all", DIM))


def _ceiling(split: str, ceiling: Json) -> str:
    blocked = [*ceiling["shown"], *(f"{task}?" for task in ceiling["suspected"])]
    return (
        f"ceiling on {split}: {percent(ceiling['low'])} to {percent(ceiling['high'])} of"
        f" {ceiling['tasks']} tasks ({percent(ceiling['low_95'])} to"
        f" {percent(ceiling['high_95'])} of such tasks, 95%) while these refuse right work:"
        f" {', '.join(blocked)}"
    )


def _bullets(console: Console, mark: str, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(_line(f"  {mark}{line}"))


def _words(name: str) -> str:
    return name.replace("_", " ")


def _line(text: str, style: str = "") -> Text:
    return Text(printable(text), style=style)
