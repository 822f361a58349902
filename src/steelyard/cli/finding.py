"""Which directory a person means by a run."""

from __future__ import annotations

from pathlib import Path


def find_run(run: str) -> Path:
    """The directory itself, or runs/NAME where only that exists."""
    directory = Path(run)
    named = Path("runs") / run
    return named if not directory.exists() and named.is_dir() else directory
