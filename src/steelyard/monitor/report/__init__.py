"""The story of a run as one self-contained HTML file, and in Markdown."""

from __future__ import annotations

import os
from pathlib import Path

from steelyard.monitor.report.markdown import as_markdown
from steelyard.monitor.report.page import page
from steelyard.monitor.report.story import read_story
from steelyard.store import RunDirectory

__all__ = ["markdown", "write_report"]


def write_report(run: Path) -> Path:
    """Writes report.html and report.md into the run directory; returns the former's path.

    Raises: RunNotFound, UnknownSchema, both ValueError; OSError where it cannot be written.
    """
    story = read_story(run)
    directory = RunDirectory(run)
    _replace(directory.report_markdown, as_markdown(story))
    _replace(directory.report, page(story))
    return directory.report


def markdown(run: Path) -> str:
    """The summary in Markdown. Raises: RunNotFound, UnknownSchema."""
    return as_markdown(read_story(run))


def _replace(path: Path, text: str) -> None:
    """Whoever reads the file meanwhile sees the old one or the new one."""
    scratch = path.with_suffix(f"{path.suffix}.{os.getpid()}")
    try:
        scratch.write_text(text, encoding="utf-8")
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
