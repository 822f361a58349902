"""The live panel of `steelyard train`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.panel import Panel as Box
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from steelyard.cli.drawing import (
    BAD,
    DIM,
    GOOD,
    MIXED,
    NEUTRAL,
    VERDICTS,
    level,
    outcomes_text,
    sparkline,
    verdict_bar,
)
from steelyard.conductor.listener import AnyAlarm, LineListener, Listener, NullListener, StepReport
from steelyard.episodes import GroupVerdict
from steelyard.monitor import wilson_interval
from steelyard.monitor.text import bounds, duration, percent, printable

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


class _Evaluation(NamedTuple):
    name: str
    split: str
    solved: int
    n: int
    by_kind: Mapping[str, tuple[int, int]]

    @property
    def rate(self) -> float | None:
        return self.solved / self.n if self.n else None


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
        self._evaluations: list[_Evaluation] = []
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

    def evaluation(
        self, name: str, split: str, solved: int, n: int, by_kind: Mapping[str, tuple[int, int]]
    ) -> None:
        with self._lock:
            self._evaluations.append(_Evaluation(name, split, solved, n, dict(by_kind)))

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
            ("training reward", self._reward(spark)),
            ("held-out checks", self._heldout(spark)),
            ("unseen success", self._unseen(spark)),
            ("alarms", self._alarmed()),
            ("so far", self._milestones()),
            ("", Text()),
            ("groups", self._groups(spark)),
            ("", self._legend()),
            ("entropy", self._entropy(spark)),
            ("an episode", self._cost(spark)),
            ("unscored", self._unscored()),
            ("by kind", self._kinds(content)),
            ("", Text()),
            ("tokens a second", self._speed()),
            ("waiting", self._waiting()),
            ("last step", self._seconds()),
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

    def _reward(self, spark: int) -> Text:
        if not self._steps:
            return Text("no step yet", style=DIM)
        last = self._steps[-1]
        drawn = _styled(sparkline([s.reward_mean for s in self._steps], spark), MIXED)
        value = "–" if last.reward_mean is None else f"{last.reward_mean:.2f}"
        drawn.append(f"  {value:>5}", style="bold")
        binary = last.reward_mean is not None and (
            abs(last.reward_mean * last.scored - last.solved) < 1e-6
        )
        if binary and last.scored:  # Wilson speaks of successes, not of partial credit
            drawn.append(f"  {_interval(last.solved, last.scored)}", style=DIM)
        return drawn

    def _heldout(self, spark: int) -> Text:
        """What held-out checks say of the same training episodes, and how far that is below."""
        values = [s.heldout_mean for s in self._steps]
        if not any(v is not None for v in values):
            return Text("no held-out checks yet", style=DIM)
        last = self._steps[-1]
        drawn = _styled(sparkline(values, spark), GOOD)
        value = "–" if last.heldout_mean is None else f"{last.heldout_mean:.2f}"
        drawn.append(f"  {value:>5}", style="bold")
        if last.gap is not None:
            drawn.append(f"  gap {last.gap:.2f}  n={last.heldout_scored}", style=DIM)
        return drawn

    def _dev(self) -> list[_Evaluation]:
        return [e for e in self._evaluations if e.split == "dev"]

    def _unseen(self, spark: int) -> Text:
        if not self._dev():
            return Text("no evaluation on dev tasks yet", style=DIM)
        last = self._dev()[-1]
        drawn = _styled(sparkline([e.rate for e in self._dev()], spark), GOOD)
        drawn.append(f"  {percent(last.rate):>5}", style="bold")
        if last.n:
            drawn.append(f"  {_interval(last.solved, last.n)}", style=DIM)
        return drawn

    def _alarmed(self) -> Text:
        if not self._alarms:
            return Text("none", style=DIM)
        drawn = Text(f"{len(self._alarms)}  ", style=f"bold {BAD}", overflow="ellipsis")
        drawn.append(self._alarms[-1])
        return drawn

    def _milestones(self) -> Text:
        """The evaluations that are not of dev: before, after the warm start, at the end."""
        milestones = [e for e in self._evaluations if e.split != "dev"] or self._dev()[:1]
        if not milestones:
            return Text("–")
        drawn = Text()
        for i, e in enumerate(milestones):
            drawn.append("  →  " if i else "", style=DIM)
            drawn.append(f"{e.name.replace('_', ' ')} ")
            drawn.append(percent(e.rate), style="bold")
        drawn.append(f"  on {milestones[-1].split} tasks", style=DIM)
        return drawn

    def _groups(self, spark: int) -> Text:
        """The last step's groups, and how many of them carry a gradient."""
        if not self._steps:
            return Text("–")
        last = self._steps[-1].groups
        drawn = verdict_bar(last, spark)
        mixed = last.get(GroupVerdict.MIXED, 0)
        with_signal = sum(s.groups.get(GroupVerdict.MIXED, 0) for s in self._steps)
        total = sum(sum(s.groups.values()) for s in self._steps)
        drawn.append(f"  {mixed}/{sum(last.values())}", style="bold" if mixed else f"bold {BAD}")
        drawn.append(" with signal" if mixed else " mixed: no gradient", style="" if mixed else BAD)
        drawn.append(f", {with_signal}/{total} so far", style=DIM)
        return drawn

    def _legend(self) -> Text:
        if not self._steps:
            return Text()
        drawn = Text()
        for verdict, (name, texture, colour) in VERDICTS.items():
            drawn.append(f"{texture} ", style=colour)
            drawn.append(f"{self._steps[-1].groups.get(verdict, 0)} {name}  ")
        return drawn

    def _unscored(self) -> Text:
        """Episodes of the last step that carry no reward, and why."""
        if not self._steps:
            return Text("–")
        last = self._steps[-1].unscored
        drawn = outcomes_text(last)
        drawn.append(f" of {self._steps[-1].scored + sum(last.values())} episodes", style=DIM)
        so_far = sum(sum(s.unscored.values()) for s in self._steps)
        drawn.append(f", {so_far} so far", style=DIM)
        return drawn

    def _entropy(self, spark: int) -> Text:
        values = [s.entropy for s in self._steps]
        known = [v for v in values if v is not None]
        if not known:
            return Text("–")
        drawn = _styled(sparkline(values, spark, top=max(known)), NEUTRAL)
        drawn.append(f"  {known[-1]:5.2f}", style="bold")
        drawn.append("  nats a token", style=DIM)
        return drawn

    def _cost(self, spark: int) -> Text:
        """Tokens of an episode, its calls, and how many were cut by a limit."""
        tokens = [s.tokens_sampled / s.episodes if s.episodes else None for s in self._steps]
        known = [v for v in tokens if v is not None]
        if not known:
            return Text("–")
        last = self._steps[-1]
        drawn = _styled(sparkline(tokens, spark, top=max(known)), NEUTRAL)
        drawn.append(f"  {known[-1]:5.0f}", style="bold")
        drawn.append(" tokens", style=DIM)
        if last.episodes:
            drawn.append(f", {last.calls / last.episodes:.1f} calls", style=DIM)
        drawn.append(f", {last.cut} cut", style=BAD if last.cut else DIM)
        return drawn

    def _waiting(self) -> Text:
        """Which share of the last step each half waited for the other, or for tools and graders."""
        shares = self._steps[-1].waiting if self._steps else None
        if shares is None:
            return Text("–")
        drawn = Text()
        for name, share in zip(("engine", "learner"), shares, strict=True):
            drawn.append(f"{name} ", style=DIM)
            drawn.append(f"{share:.0%}   ", style="bold")
        drawn.append("of the last step", style=DIM)
        return drawn

    def _speed(self) -> Text:
        if not self._steps:
            return Text("–")
        last = self._steps[-1]
        drawn = Text()
        for name, value in (
            ("sampling", last.sampling_tokens_per_second),
            ("training", last.training_tokens_per_second),
        ):
            drawn.append("   " if drawn else "")
            drawn.append(f"{name} ", style=DIM)
            drawn.append("–" if value is None else f"{value:,.0f}", style="bold")
        return drawn

    def _seconds(self) -> Text:
        if not self._steps:
            return Text("–")
        last = self._steps[-1]
        drawn = Text()
        for part, value in last.seconds.items():
            drawn.append("   " if drawn else "")
            drawn.append(f"{part} ", style=DIM)
            drawn.append(f"{value:.1f} s")
        if last.staleness:
            drawn.append("   staleness ", style=DIM)
            drawn.append(f"{last.staleness:.1f}")
        return drawn

    def _kinds(self, width: int) -> Text:
        """Each kind of the latest evaluation with a bar of its success; 0 is written out."""
        if not self._evaluations:
            return Text("–")
        drawn, column = Text(), 0
        for kind, (solved, n) in self._evaluations[-1].by_kind.items():
            name = kind or "all"
            if column + len(name) + 2 > width:
                drawn.append("\n")
                column = 0
            column += len(name) + 4
            drawn.append(f"{name} ", style=DIM)
            if n == 0:
                drawn.append("?")
            elif solved == 0:
                drawn.append("0", style=f"bold {BAD}")
            else:
                drawn.append(level(solved / n), style=GOOD)
            drawn.append("  ")
        return drawn


def _styled(text: str, style: str) -> Text:
    """`text` in a style that what is appended later does not inherit."""
    return Text().append(text, style=style)


def _interval(solved: int, n: int) -> str:
    return f"{bounds(*wilson_interval(solved, n))}  n={n}"
