"""`steelyard eval`: how often a model solves tasks, with an honest interval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from steelyard.monitor.text import kind_name, rate_text


def evaluate(
    tasks: Annotated[str, typer.Argument(help="A task, a folder of tasks, a JSONL, or humaneval.")],
    model: Annotated[
        str, typer.Option(help="Model directory, hub id, .gguf, checkpoint, or the default.")
    ] = "smollm2-135m-instruct",
    samples: Annotated[int, typer.Option(min=1, help="Episodes per task.")] = 1,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 1.0,
    max_turn_tokens: Annotated[int, typer.Option(min=1, help="Tokens a turn may sample.")] = 128,
    max_turns: Annotated[int, typer.Option(min=1, help="Turns of an episode.")] = 6,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many tasks.")] = None,
    reward: Annotated[
        str | None, typer.Option(help="For a JSONL: module:function or file.py:function.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Run directory that keeps every episode.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Sample episodes and report pass@1 with a 95 % interval, by kind of task."""
    from steelyard.cli.panel import open_listener
    from steelyard.conductor import EvaluationPlan, evaluate_model

    plan = EvaluationPlan(
        tasks=tasks,
        reward=reward,
        model=model,
        samples=samples,
        temperature=temperature,
        max_turn_tokens=max_turn_tokens,
        max_turns=max_turns,
        seed=seed,
        limit=limit,
    )
    listener = open_listener(quiet=as_json)
    try:
        result = evaluate_model(plan, listener, out)
    finally:
        listener.close()
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        _print(result, Console())


def _print(result: dict[str, Any], console: Console) -> None:
    table = Table("kind", "pass@1 (95% interval)", "n")
    table.add_row("all", rate_text(result), str(result["n"]), end_section=True)
    if len(result["by_kind"]) > 1:
        for kind, rate in result["by_kind"].items():
            table.add_row(kind_name(kind), rate_text(rate), str(rate["n"]))
    console.print(table)
    stops = ", ".join(f"{name} {n}" for name, n in result["stop_reasons"].items())
    console.print(f"ended: {stops}; {result['seconds']:.0f} s", highlight=False)
    if result["causes"]:
        causes = ", ".join(f"{name} {n}" for name, n in result["causes"].items())
        console.print(f"without a reward (in no rate above): {causes}", highlight=False)
