"""`steelyard play TASK`: be the policy, or watch a model be it."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from steelyard.episodes import Check, Outcome, Scored


def play(
    task: Annotated[str, typer.Argument(help="A task directory.")],
    model: Annotated[
        str | None,
        typer.Option(help="Let this model play: a directory, checkpoint, hub id, .gguf."),
    ] = None,
    temperature: Annotated[float, typer.Option(min=0.0, help="0 is greedy.")] = 0.0,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
) -> None:
    """Play one episode: you type each turn (a JSON tool call), or --model does."""
    from steelyard.conductor import play_episode
    from steelyard.tasks import load_tasks

    loaded = load_tasks(task)
    console = Console()
    console.print(f"[bold]{loaded[0].name}[/]")
    played = play_episode(
        loaded[0],
        model=model,
        temperature=temperature,
        seed=seed,
        ask=lambda: typer.prompt("you", prompt_suffix="> "),
        show=lambda text: console.print(text, markup=False, highlight=False),
    )
    console.print(f"\nended: {played.stop_reason.value}")
    _print_outcome(console, "checks", played.outcome)
    _print_outcome(console, "held-out checks", played.heldout)


def _print_outcome(console: Console, title: str, outcome: Outcome | None) -> None:
    if outcome is None:
        return
    if isinstance(outcome, Scored):
        console.print(f"{title}: reward {outcome.reward:g}")
        for check in outcome.checks:
            console.print(f"  {_line(check)}", markup=False)
    else:
        console.print(f"{title}: no reward ({outcome.cause.value}: {outcome.detail})", markup=False)


def _line(check: Check) -> str:
    return f"{check.name}: {'ok' if check.passed else 'failed'} {check.detail}".rstrip()
