"""The live panel of `steelyard train`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import RLock

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel as Box
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from steelyard.cli import panel_rows
from steelyard.cli.drawing import DIM, GOOD, MIXED
from steelyard.conductor.listener import (
    AnyAlarm,
    EvaluationReport,
    LineListener,
    Listener,
    NullListener,
    StepReport,
)
from steelyard.monitor.text import duration, printable

_MAX_WIDTH = 120
_LABEL_WIDTH = 16


def open_listener(
    run: Path | None = None,
    model: str = "",
    *,
    quiet: bool = False,
    console: Console | None = None,
) -> Listener:
    """The panel on a terminal, plain lines elsewhere, nothing if `quiet`."""
    console = console or Console()
    if quiet:
        return NullListener()
    if console.is_terminal and not console.is_dumb_terminal:
        return TrainPanel(console, run=run, model=model)
    return LineListener(console.file)


class TrainPanel:
    """Draws a run on `console` four times a second until `close`; safe to call from any thread."""

    def __init__(
        self,
        console: Console,
        *,
        run: Path | None,
        model: str,
        clock: Callable[[], float] = time.monotonic,
        live: bool = True,
    ) -> None:
        self._run = run
        self._model = model
        self._clock = clock
        self._lock = RLock()
        self._started = self._phase_started = clock()
        self._phase = "starting"
        self._total: int | None = None
        self._done = self._done_before = 0.0
        self._steps: list[StepReport] = []
        self._evaluations: list[EvaluationReport] = []
        self._alarms: list[str] = []
        self._note = ""
        self._live = Live(self, console=console, refresh_per_second=4)
        if live:
            self._live.start()

    def phase(self, name: str, total: int | None, done: float = 0.0) -> None:
        with self._lock:
            self._phase, self._total, self._done = name, total, done
            self._done_before = done
            self._phase_started = self._clock()

    def advance(self, done: float) -> None:
        with self._lock:
            self._done += done

    def step(self, metrics: StepReport) -> None:
        with self._lock:
            self._steps.append(metrics)

    def evaluation(self, found: EvaluationReport) -> None:
        with self._lock:
            self._evaluations.append(found)

    def note(self, text: str) -> None:
        with self._lock:
            self._note = " ".join(printable(text).split())

    def alarm(self, alarm: AnyAlarm) -> None:
        said = f"{alarm.name.replace('_', ' ')} at step {alarm.step}: {alarm.text}"
        with self._lock:
            self._alarms.append(" ".join(printable(said).split()))

    def close(self) -> None:
        with suppress(BrokenPipeError):
            self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = min(options.max_width, _MAX_WIDTH)
        with self._lock:
            yield self._draw(width)

    def _draw(self, width: int) -> Box:
        content = width - 4 - _LABEL_WIDTH - 1
        spark = max(12, min(36, content - 34))
        rows = Table.grid(padding=(0, 1, 0, 0))
        rows.add_column(min_width=_LABEL_WIDTH, max_width=_LABEL_WIDTH, style=DIM, no_wrap=True)
        rows.add_column(no_wrap=True, overflow="ellipsis")
        for label, drawn in (
            ("training reward", panel_rows.reward(self._steps, spark)),
            ("held-out checks", panel_rows.heldout(self._steps, spark)),
            ("unseen success", panel_rows.unseen(self._evaluations, spark)),
            ("alarms", panel_rows.alarmed(self._alarms)),
            ("so far", panel_rows.milestones(self._evaluations)),
            ("", Text()),
            ("groups", panel_rows.groups(self._steps, spark)),
            ("", panel_rows.legend(self._steps)),
            ("entropy", panel_rows.entropy(self._steps, spark)),
            ("an episode", panel_rows.cost(self._steps, spark)),
            ("unscored", panel_rows.unscored(self._steps)),
            ("by kind", panel_rows.kinds(self._evaluations, content)),
            ("", Text()),
            ("tokens a second", panel_rows.speed(self._steps)),
            ("waiting", panel_rows.waiting(self._steps)),
            ("last step", panel_rows.seconds(self._steps)),
            ("note", Text(self._note or "–", overflow="ellipsis")),
            ("run directory", Text("–" if self._run is None else str(self._run), style="bold")),
        ):
            rows.add_row(label, drawn)
        return Box(
            Group(self._progress(), Text(), rows),
            title=self._title(),
            title_align="left",
            subtitle=f"{duration(self._clock() - self._started)} elapsed",
            subtitle_align="right",
            border_style=DIM,
            width=width,
        )

    def _title(self) -> Text:
        title = Text.assemble(("Steelyard", "bold"))
        for part in (self._run.name if self._run else "", self._model):
            title.append(f" · {part}" if part else "", style=DIM)
        return title

    def _progress(self) -> RenderableType:
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_column(no_wrap=True, overflow="ellipsis", style="bold")
        seconds = self._clock() - self._phase_started
        if self._total is None:
            line.add_row(self._phase, Text(duration(seconds), style=DIM))
            return line
        now = self._done - self._done_before  # the pace is that of this stretch
        left = seconds / now * (self._total - self._done) if now else None
        ahead = f"about {duration(left)} left" if left is not None else "measuring the pace"
        done = f"{self._done:.0f}" if self._done % 1 == 0 else f"{self._done:.1f}"
        line.add_row(
            self._phase,
            ProgressBar(
                total=max(self._total, 1),
                completed=self._done,
                width=18,
                complete_style=MIXED,
                finished_style=GOOD,
            ),
            Text(f"{done} of {self._total}"),
            Text(ahead, style=DIM),
        )
        return line
