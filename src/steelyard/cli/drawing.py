"""Pieces that the panel, the report and `show` draw alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rich import box
from rich.table import Table
from rich.text import Text

from steelyard.episodes import GroupVerdict, OutcomeKind
from steelyard.monitor.text import clipped, printable

Json: TypeAlias = Mapping[str, Any]

# Okabe and Ito's colours, told apart by every common kind of colour vision. Nothing is said by
# colour alone: the parts of a bar differ in their texture too.
GOOD, MIXED, BAD, NEUTRAL = "#009E73", "#56B4E9", "#E69F00", "#CC79A7"
UNKNOWN, DIM = "grey62", "grey58"
VERDICTS: Mapping[GroupVerdict, tuple[str, str, str]] = {
    GroupVerdict.MIXED: ("mixed", "█", MIXED),
    GroupVerdict.ALL_PASS: ("all-pass", "▓", GOOD),
    GroupVerdict.ALL_FAIL: ("all-fail", "▒", BAD),
    GroupVerdict.UNSCORED: ("unscored", "░", UNKNOWN),
}
_LEVELS = "▁▂▃▄▅▆▇█"


def titled_table(title: str) -> Table:
    """A table in the one style that all tables have."""
    return Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        border_style=DIM,
        pad_edge=False,
    )


def level(value: float, top: float = 1.0) -> str:
    """One character of eight heights for a value between 0 and `top`."""
    share = value / top if top > 0 else 0.0
    return _LEVELS[min(7, max(0, int(share * 8)))]


def sparkline(values: Sequence[float | None], width: int, top: float = 1.0) -> str:
    """The latest values, oldest left, in exactly `width` characters; a gap where one is missing."""
    recent = values[-width:]
    stretch = min(3, max(1, width // len(recent))) if recent else 1
    marks = (" " if v is None or not math.isfinite(v) else level(v, top) for v in recent)
    return "".join(mark * stretch for mark in marks).ljust(width)


def verdict_bar(groups: Mapping[GroupVerdict, int], width: int) -> Text:
    """The groups of a step as one bar, each verdict in its colour and texture."""
    total = sum(groups.values())
    bar, filled, seen = Text(), 0, 0
    for verdict, (_, texture, colour) in VERDICTS.items():
        seen += groups.get(verdict, 0)
        edge = round(width * seen / total) if total else 0
        bar.append(texture * (edge - filled), style=colour)
        filled = edge
    bar.append("·" * (width - filled), style=DIM)
    return bar


def outcomes_text(counts: Mapping[str, int]) -> Text:
    """`12 solved, 30 wrong, 2 verifier timeout`; what carries no reward stands out."""
    drawn = Text()
    for kind in OutcomeKind:
        if counts.get(kind.value):
            drawn.append(", " if drawn else "")
            shown = f"{counts[kind.value]:,} {kind.value.replace('_', ' ')}"
            drawn.append(shown, style="" if kind.scored else BAD)
    return drawn or Text("none", style=DIM)


def episode_text(episode: Json, max_lines_per_part: int = 12) -> Text:
    """An episode for a person: per turn what it wrote, its calls and their answers; the verdict."""
    drawn = Text(overflow="fold")
    for number, turn in enumerate(episode["turns"], 1):
        drawn.append(f"turn {number}\n", style=DIM)
        if not turn["calls"]:
            drawn.append(clipped(printable(turn["text"]), max_lines_per_part) + "\n")
        for call in turn["calls"]:
            _draw_call(drawn, call, max_lines_per_part)
    _draw_verdict(drawn, episode)
    return drawn


def _draw_call(drawn: Text, call: Json, max_lines: int) -> None:
    drawn.append(f"→ {printable(call['name'])}", style=f"bold {MIXED}")
    arguments = {
        printable(name): printable(value if isinstance(value, str) else repr(value))
        for name, value in call["arguments"].items()
    }
    on_one_line = sum(map(len, arguments.values())) <= 24 and "\n" not in "".join(
        arguments.values()
    )
    for name, text in arguments.items():
        drawn.append(f"  {name}: " if on_one_line else f"\n  {name}: ", style=DIM)
        drawn.append("\n" + clipped(text, max_lines) if "\n" in text else text.strip())
    drawn.append("\n")
    result = clipped(printable(call["result"]), max_lines)
    if result:
        drawn.append(result + "\n", style=BAD if call["error"] else DIM)


def _draw_verdict(drawn: Text, episode: Json) -> None:
    drawn.append("\n")
    if episode["cause"] is not None:
        detail = printable(episode["cause_detail"] or "")
        drawn.append(f"? unscored: {episode['cause']} {detail}", style=UNKNOWN)
        return
    drawn.append(f"{'✓' if episode['solved'] else '✗'} ", style=GOOD if episode["solved"] else BAD)
    drawn.append(f"reward {episode['reward']:g}, ended: {episode['stop_reason']}")
    for suite in ("checks", "heldout_checks"):
        checks = episode[suite]
        if not checks:
            continue
        passed = sum(check["passed"] for check in checks)
        title = "training checks" if suite == "checks" else "held-out checks"
        drawn.append(f"\n  {title}: {passed} of {len(checks)}")
        for check in checks:
            if not check["passed"]:
                drawn.append(f"\n  ✗ {printable(check['name'])}", style=BAD)
                drawn.append(f" {clipped(printable(check['detail']), 2)}", style=DIM)
