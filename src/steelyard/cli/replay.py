"""`steelyard replay`: a recorded update once more, and what each episode had in it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from steelyard.cli.drawing import titled_table
from steelyard.cli.finding import find_run

if TYPE_CHECKING:
    from steelyard.conductor import Replay

_ROWS = 12


def replay(
    run: Annotated[str, typer.Argument(help="A run directory, or the NAME of runs/NAME.")],
    step: Annotated[int, typer.Argument(help="The RL step, e.g. of a bad_batch event.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compute the update of an RL step again from the record; the run stays as it is."""
    from steelyard.conductor import replay as compute

    done = compute(find_run(run), step)
    shown = _as_json(done)
    if as_json:
        typer.echo(json.dumps(shown, indent=2, allow_nan=False))
    else:
        _draw(shown, Console())


def _as_json(done: Replay) -> dict[str, Any]:
    """The two losses and gradient norms, and the episodes; what is no number is null."""
    from steelyard.conductor import episode_shares
    from steelyard.conductor.batches import finite

    metrics = None if done.update is None else done.update.metrics
    shares = [] if done.update is None else [asdict(s) for s in episode_shares(done.update)]
    return {
        "step": done.step,
        "checkpoint": done.checkpoint,
        "recorded": {
            "loss": finite(done.recorded_loss),
            "grad_norm": finite(done.recorded_grad_norm),
        },
        "replayed": None
        if metrics is None
        else {"loss": finite(metrics.loss), "grad_norm": finite(metrics.grad_norm)},
        "episodes": [
            {k: finite(v) if isinstance(v, float) else v for k, v in share.items()}
            for share in shares
        ],
    }


def _draw(shown: dict[str, Any], console: Console) -> None:
    console.print(f"step {shown['step']}, replayed from checkpoint {shown['checkpoint']}")
    if shown["replayed"] is None:
        console.print("nothing could be learned from its episodes")
        return
    for name, label in (("loss", "loss"), ("grad_norm", "gradient norm")):
        now, then = shown["replayed"][name], shown["recorded"][name]
        console.print(f"{label}: {_number(now)}, recorded {_number(then)}")
    table = titled_table("episodes by their least likely token")
    for column in ("episode", "tokens", "advantage", "lowest log-prob", "entropy"):
        table.add_column(column, justify="left" if column == "episode" else "right")
    for share in shown["episodes"][:_ROWS]:
        table.add_row(
            share["episode"],
            str(share["tokens"]),
            *(_number(share[name]) for name in ("advantage", "lowest_logp", "entropy")),
        )
    console.print(table)
    if (left := len(shown["episodes"]) - _ROWS) > 0:
        console.print(f"and {left} more: --json has them all")


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.6g}"
