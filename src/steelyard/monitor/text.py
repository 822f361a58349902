"""Numbers and foreign text in words, as every front end shows them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

NO_KIND = "(none)"
"""What stands for the kind of tasks that have none, in words and in filters."""


def kind_name(kind: str) -> str:
    return kind or NO_KIND


def percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"


def bounds(low: float, high: float) -> str:
    return f"{100 * low:.0f}–{high:.0%}"


def rate_text(rate: Mapping[str, Any]) -> str:
    """`67% (58–75%, n=108)`."""
    if rate["n"] == 0:
        return f"– (0 scored, {rate['unscored']} unscored)"
    return f"{percent(rate['pass_at_1'])} ({bounds(rate['low'], rate['high'])}, n={rate['n']})"


def duration(seconds: float) -> str:
    """`0:07`, `12:40`, `1:02:03`."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def printable(text: str) -> str:
    """`text` without what would steer a terminal or turn its direction: a policy may sample any
    character. Lines stay."""
    kept = (c if c == "\n" or c.isprintable() else "\ufffd" for c in text.expandtabs(4))
    return "".join(kept).strip("\n")


def clipped(text: str, max_lines: int) -> str:
    """The first lines of `text`, and how many more there are."""
    lines = text.splitlines()
    if len(lines) <= max_lines:
        return "\n".join(lines)
    hidden = len(lines) - max_lines + 1
    return "\n".join([*lines[: max_lines - 1], f"… {hidden} more lines"])
