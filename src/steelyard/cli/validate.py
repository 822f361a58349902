"""`steelyard validate`: before any training, does each task's verifier do its job at all?"""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table


def validate(
    tasks: Annotated[str, typer.Argument(help="A task, a folder of tasks, a JSONL, or humaneval.")],
    reward: Annotated[
        str | None, typer.Option(help="For a JSONL: module:function or file.py:function.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that the reference solution of each task scores 1 and doing nothing does not."""
    from steelyard.conductor import validate_tasks
    from steelyard.tasks import load_tasks

    loaded = load_tasks(tasks, reward=reward)
    with Progress(transient=True, disable=as_json) as progress:
        bar = progress.add_task("grading", total=len(loaded))
        results = validate_tasks(loaded, on_done=lambda: progress.advance(bar))
    broken = [r for r in results if r.problem]
    if as_json:
        print(json.dumps([{"task": r.task, "problem": r.problem} for r in results], indent=2))
    else:
        if broken:
            table = Table("task", "what is wrong")
            for result in broken:
                table.add_row(result.task, result.problem)
            Console().print(table)
        print(f"{len(results) - len(broken)} of {len(results)} tasks are sound")
    if broken:
        raise typer.Exit(1)
