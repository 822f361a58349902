"""`steelyard train RUN.toml`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from steelyard.monitor.text import duration

if TYPE_CHECKING:
    from steelyard.conductor import Estimate

PAUSED = 3
"""The exit status of a run that an alarm stopped."""


def train(
    run_file: Annotated[Path, typer.Argument(help="The run file (TOML).")],
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change a key: --set rl.steps=20")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the last checkpoint.")
    ] = False,
    accept_audit: Annotated[
        bool, typer.Option("--accept-audit", help="Train even if a task's verifier is broken.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what the run would do and need.")
    ] = False,
) -> None:
    """Train as the run file says; Ctrl-C stops it, --resume continues it."""
    from steelyard.cli.panel import open_listener
    from steelyard.cli.report import write_report_if_possible
    from steelyard.cli.tables import print_report
    from steelyard.conductor import Paused, estimate, read_run_file
    from steelyard.conductor import train as run

    settings = read_run_file(run_file, change or [])
    if dry_run:
        _print_estimate(estimate(settings), Console())
        return
    listener = open_listener(settings.path, settings.model.path)
    try:
        run(settings, listener, resume=resume, accept_audit=accept_audit)
    except (KeyboardInterrupt, Paused) as stop:
        listener.close()
        said = str(stop) if isinstance(stop, Paused) else "stopped"
        if not isinstance(stop, Paused) or stop.resumable:
            again = " ".join(f"--set {shlex.quote(c)}" for c in change or [])
            said += f"; continue with: steelyard train {run_file} {again} --resume"
        print(f"{said}\nwhat was recorded is in {settings.path}")
        if isinstance(stop, Paused):
            raise typer.Exit(PAUSED) from None
        raise
    finally:
        listener.close()
    print_report(settings.path)
    print(write_report_if_possible(settings.path))


def _print_estimate(estimate: Estimate, console: Console) -> None:
    table = Table(show_header=False, box=None)
    tasks = ", ".join(f"{n} {name}" for name, n in estimate.tasks.items() if n)
    for name, value in (
        ("model", f"{estimate.parameters / 1e6:.0f} M parameters"),
        ("tasks", tasks),
        ("prompt", f"up to {estimate.prompt_tokens} tokens"),
        ("warm start", f"{estimate.warm_start_batches} batches"),
        ("a step", f"{estimate.episodes_per_step} episodes, ~{estimate.tokens_per_step:,} tokens"),
        ("evaluation", f"{estimate.evaluation_episodes} episodes in all"),
        ("memory", f"~{estimate.memory_gb:.1f} GB"),
        ("disk", f"~{estimate.disk_gb:.1f} GB"),
        ("time", f"~{duration(estimate.seconds)} on this machine"),
    ):
        table.add_row(name, value)
    console.print(table)
