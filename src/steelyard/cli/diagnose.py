"""`steelyard diagnose`: why no gradient, from the record or by experiment."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated

import typer
from rich.console import Console

from steelyard.cli.diagnosis_text import draw_diagnosis, draw_verdict
from steelyard.cli.finding import find_run


def diagnose(
    run: Annotated[str, typer.Argument(help="A run directory, or the NAME of runs/NAME.")],
    task: Annotated[
        str | None,
        typer.Argument(help="Decide about this task by experiment. Without: what the record says."),
    ] = None,
    samples: Annotated[int, typer.Option(min=2, help="Episodes to play, of each policy.")] = 16,
    policy: Annotated[
        str | None,
        typer.Option(help="Let this policy try too: a model, checkpoint or run."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say why groups carry no gradient; with TASK grade its reference and play more episodes."""
    if task is None:
        if policy is not None:
            raise ValueError("--policy plays a task: name one, e.g. from `steelyard diagnose RUN`")
        _of_record(run, as_json)
        return
    from steelyard.cli.panel import open_listener
    from steelyard.conductor import diagnose_task

    listener = open_listener(quiet=as_json)
    try:
        result = diagnose_task(
            find_run(run), task, samples=samples, policy=policy, listener=listener
        )
    finally:
        listener.close()
    if as_json:
        typer.echo(json.dumps(result, indent=2))
        return
    console = Console()
    draw_verdict(result, task, console)
    for what, said in result["graded"].items():
        heldout = "" if said["heldout"] is None else f"; held-out checks: {said['heldout']}"
        console.print(f"  {what}: verifier: {said['verifier']}{heldout}", markup=False)


def _of_record(run: str, as_json: bool) -> None:
    from steelyard.monitor import view
    from steelyard.monitor.scanners import scan_run
    from steelyard.store import RunReader

    with RunReader(find_run(run)) as reader:
        with suppress(OSError):  # a directory that is only read has what was found before
            scan_run(reader)
        shown = view(reader, "diagnosis")
    if as_json:
        typer.echo(json.dumps(shown, indent=2, allow_nan=False))
    else:
        draw_diagnosis(shown, Console())
