"""`steelyard report RUN`: the story of a run in one HTML file."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from steelyard.cli.finding import find_run


def report(
    run: Annotated[str, typer.Argument(help="A run directory, or the NAME of runs/NAME.")],
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the Markdown summary; write nothing.")
    ] = False,
    show: Annotated[bool, typer.Option("--open/--no-open", help="Open it in the browser.")] = False,
) -> None:
    """Write RUN/report.html (one file, no network) and RUN/report.md, and print the path."""
    from steelyard.monitor.report import markdown, write_report

    directory = find_run(run)
    if as_markdown:
        typer.echo(markdown(directory), nl=False)
        return
    path = write_report(directory)
    typer.echo(path)
    if show:
        webbrowser.open(path.resolve().as_uri())


def write_report_if_possible(run: Path) -> str:
    """One line: where the report is, or why there is none. It never raises: a finished training
    does not fail because its report does."""
    try:
        from steelyard.monitor.report import write_report

        return f"report: {write_report(run)}"
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return f"the report could not be written ({reason}); try steelyard report {run}"
