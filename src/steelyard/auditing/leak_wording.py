"""How a leak is put into words."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.auditing.findings import Finding, Kind, Strength

_MAX_ROWS = 5


def leak(
    probe: str, strength: Strength, title: str, *, evidence: str, use: str, fix: str
) -> Finding:
    """One finding of the inventory."""
    return Finding(f"leaks/{probe}", Kind.LEAK, strength, title, evidence, use, fix)


def rows(items: Iterable[str]) -> str:
    """The first few of a list, and how many more there are."""
    listed = list(items)
    more = f" and {len(listed) - _MAX_ROWS} more" if len(listed) > _MAX_ROWS else ""
    return ", ".join(listed[:_MAX_ROWS]) + more
