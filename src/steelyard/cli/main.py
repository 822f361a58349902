"""The `steelyard` command. Each subcommand is one file; this one only names them."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import ParamSpec

import typer

from steelyard.cli.algorithms import algorithms
from steelyard.cli.audit import audit
from steelyard.cli.diagnose import diagnose
from steelyard.cli.doctor import doctor
from steelyard.cli.evaluate import evaluate
from steelyard.cli.export import export
from steelyard.cli.init import init
from steelyard.cli.play import play
from steelyard.cli.replay import replay
from steelyard.cli.report import report
from steelyard.cli.show import show
from steelyard.cli.train import train
from steelyard.cli.validate import validate
from steelyard.cli.view import view
from steelyard.sandbox import SandboxError

# GNU's OpenMP reads it once, when torch loads it, which nothing imported above does. Its workers
# spin up to 3 ms for the next operation; where another process wants the same cores, each of a
# step's 30,000 operations then waits for a worker that was descheduled. With about 0.1 ms a run
# alone is as fast, and two side by side do not stop each other (benchmarks/crowded_cores.py).
os.environ.setdefault("GOMP_SPINCOUNT", "10000")

P = ParamSpec("P")

INTERRUPTED = 130
"""The exit code of a command that Ctrl-C ended, as shells report it."""


def _spoken(command: Callable[P, None]) -> Callable[P, None]:
    """A user's mistake becomes one sentence and exit code 2 instead of a traceback."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except (ValueError, OSError, SandboxError) as error:
            if isinstance(error, BrokenPipeError):
                raise typer.Exit(1) from None
            print(f"steelyard: {error}", file=sys.stderr)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            raise typer.Exit(INTERRUPTED) from None

    return wrapped


app = typer.Typer(
    name="steelyard",
    help="Trains LLM agents from their own trajectories, on tasks with verifiers, in sandboxes.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name, _command in (
    ("train", train),
    ("eval", evaluate),
    ("show", show),
    ("view", view),
    ("report", report),
    ("play", play),
    ("validate", validate),
    ("audit", audit),
    ("diagnose", diagnose),
    ("replay", replay),
    ("doctor", doctor),
    ("init", init),
    ("export", export),
    ("algorithms", algorithms),
):
    app.command(_name)(_spoken(_command))
