"""What a run logs elsewhere, if the run file asks for it: TensorBoard, W&B, trackio.

A sink is fed from the run's own record: the numbers that the record has when a step is over. A run
that was killed and resumed takes its last steps again and forgets the first try; a sink cannot, so
it may hold two values of such a step, of which the later is the record's.
It works in a thread of its own: one that is slow does not slow the run, and one that fails is left
alone from then on and noted once.
"""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from steelyard.conductor.listener import AnyAlarm, EvaluationReport, Listener, StepReport
from steelyard.monitor.text import kind_name
from steelyard.store import RunDirectory, RunReader

_SECONDS_TO_FINISH = 60.0
_TRACKIO_ELSEWHERE = ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WandbSection(_Section):
    """`[sinks.wandb]`. Who you are comes from `wandb login`, never from the run file."""

    project: str
    mode: Literal["offline", "online"] = Field(
        "offline", description="offline writes to RUN/logs/wandb; `wandb sync` sends it later"
    )


class TrackioSection(_Section):
    """`[sinks.trackio]`: written to trackio's database on this machine."""

    project: str


class SinksSection(_Section):
    """`[sinks]`: where metrics are logged besides the run's own record."""

    tensorboard: bool | Path = Field(
        False, description="true: event files in RUN/logs/tensorboard; or a directory"
    )
    wandb: WandbSection | None = None
    trackio: TrackioSection | None = None

    @property
    def wanted(self) -> list[str]:
        """The names of the packages that are needed."""
        asked = {"tensorboard": self.tensorboard, "wandb": self.wandb, "trackio": self.trackio}
        return [name for name, value in asked.items() if value]


class Sink(Protocol):
    """Somewhere that numbers go to. Its methods may raise."""

    def log(self, values: Mapping[str, float], step: int) -> None:
        """Numbers by name, at a step of their own kind: `rl/…`, `warm_start/…`."""

    def close(self) -> None:
        """Nothing more will come."""


def require_sinks(section: SinksSection) -> None:
    """Raises: ValueError where something that the sinks need is missing; it says what to do."""
    for name in section.wanted:
        if importlib.util.find_spec(name) is None:
            raise ValueError(
                f"sinks.{name}: the package {name} is not installed;"
                " pip install 'steelyard[sinks]', or drop the key"
            )
    if section.wandb is not None and section.wandb.mode == "online":
        import wandb

        if not wandb.api.api_key:
            raise ValueError(
                'sinks.wandb.mode: "online" needs a login; run wandb login, or use "offline"'
            )
    if section.trackio is not None:
        for variable in _TRACKIO_ELSEWHERE:
            if os.environ.get(variable):
                raise ValueError(
                    f"sinks.trackio: the variable {variable} would send this run to another"
                    " machine, and the run file does not say so; unset it"
                )


class SinkListener:
    """Passes on to `listener` all that it hears, and to the sinks what was recorded of it."""

    def __init__(
        self, listener: Listener, section: SinksSection, run: Path, config: Mapping[str, Any]
    ) -> None:
        """Raises: ValueError for a sink that cannot be opened."""
        self._listener = listener
        self._run = run
        self._sinks: dict[str, Sink] = {}
        self._warm_start = self._warm_start_sent = 0
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        for name in section.wanted:
            try:
                self._sinks[name] = _OPENERS[name](section, run, config)
            except Exception as error:
                for sink in self._sinks.values():
                    sink.close()
                raise ValueError(f"sinks.{name}: {_sentence(error)}") from error
        self._worker = Thread(target=self._work, name="sinks", daemon=True)
        if self._sinks:
            self._worker.start()

    def phase(self, name: str, total: int | None, done: float = 0.0) -> None:
        self._listener.phase(name, total, done)
        self._warm_start += name.startswith("warm start")

    def advance(self, done: float) -> None:
        self._listener.advance(done)

    def step(self, metrics: StepReport) -> None:
        self._listener.step(metrics)
        self._do(self._send_warm_start)
        self._do(lambda: self._send_step(metrics.step))

    def evaluation(self, found: EvaluationReport) -> None:
        self._listener.evaluation(found)
        self._do(self._send_warm_start)
        self._do(lambda: self._send_evaluation(found.name, found.split))

    def note(self, text: str) -> None:
        self._listener.note(text)

    def alarm(self, alarm: AnyAlarm) -> None:
        self._listener.alarm(alarm)
        self._do(lambda: self._log({f"alarms/{alarm.name}": 1.0}, alarm.step))

    def close(self) -> None:
        self._listener.close()

    def stop(self) -> None:
        """Ends the sinks, and only them: what they were told is written, within a minute."""
        if not self._worker.is_alive():
            return
        self._jobs.put(None)
        self._worker.join(_SECONDS_TO_FINISH)
        if self._worker.is_alive():
            self._listener.note(
                f"the sinks ({', '.join(self._sinks)}) did not finish within"
                f" {_SECONDS_TO_FINISH:.0f} s; what they have may be incomplete"
            )

    def _do(self, job: Callable[[], None]) -> None:
        if self._worker.is_alive():
            self._jobs.put(job)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # the record could not be read: nothing to send
                self._listener.note(f"the sinks missed something: {_sentence(error)}")
        self._each(lambda sink: sink.close())

    def _send_warm_start(self) -> None:
        """The batches of a warm start that this process did, as far as they are not sent yet."""
        if not self._warm_start:
            return
        with RunReader(self._run) as reader:
            records = reader.steps("warm_start")[self._warm_start_sent :]
        for record in records:
            self._log({f"warm_start/{k}": v for k, v in record.values.items()}, record.step)
        self._warm_start_sent += len(records)

    def _send_step(self, step: int) -> None:
        with RunReader(self._run) as reader:
            records = [r for r in reader.steps("rl") if r.step == step]
        for record in records:
            self._log({f"rl/{k}": v for k, v in record.values.items()}, step)

    def _send_evaluation(self, name: str, split: str) -> None:
        with RunReader(self._run) as reader:
            (found,) = (e for e in reader.evaluations(split) if e.name == name)
            tallies = {"": found.tally}
            by_kind = reader.tallies(name, split, "kind")
        if any(by_kind):
            tallies |= {f"/{kind_name(kind)}": of_kind for kind, of_kind in by_kind.items()}
        prefix = f"evaluation/{split}"
        values = {f"{prefix}/pass_at_1{kind}": t.solved / t.n for kind, t in tallies.items() if t.n}
        self._log(values | {f"{prefix}/unscored": float(found.tally.unscored)}, found.step)

    def _log(self, values: Mapping[str, float], step: int) -> None:
        finite = {name: value for name, value in values.items() if math.isfinite(value)}
        self._each(lambda sink: sink.log(finite, step))

    def _each(self, act: Callable[[Sink], None]) -> None:
        for name, sink in list(self._sinks.items()):
            try:
                act(sink)
            except Exception as error:
                del self._sinks[name]
                self._listener.note(
                    f"sinks.{name} failed and gets nothing more: {_sentence(error)}"
                )


class _TensorBoard:
    """Scalars as event files."""

    def __init__(self, section: SinksSection, run: Path, config: Mapping[str, Any]) -> None:
        from tensorboard.summary import Writer

        asked = section.tensorboard
        where = asked if isinstance(asked, Path) else RunDirectory(run).logs / "tensorboard"
        where.mkdir(parents=True, exist_ok=True)
        self._writer = Writer(str(where))

    def log(self, values: Mapping[str, float], step: int) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        self._writer.close()


class _Wandb:
    """A W&B run that holds the numbers and the run file, and nothing of this machine's code."""

    def __init__(self, section: SinksSection, run: Path, config: Mapping[str, Any]) -> None:
        import wandb

        assert section.wandb is not None
        logs = RunDirectory(run).logs
        logs.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project=section.wandb.project,
            name=RunDirectory(run).name,
            dir=str(logs),
            mode=section.wandb.mode,
            config=dict(config),
            reinit="create_new",
            settings=wandb.Settings(
                console="off", silent=True, disable_git=True, disable_code=True, save_code=False
            ),
        )
        # Warm start, evaluations and RL count steps of their own; W&B's one counter never returns.
        for part in ("rl", "warm_start", "evaluation", "alarms"):
            self._run.define_metric(f"{part}/step")
            self._run.define_metric(f"{part}/*", step_metric=f"{part}/step")

    def log(self, values: Mapping[str, float], step: int) -> None:
        parts = {name.partition("/")[0] for name in values}
        self._run.log({**values, **{f"{part}/step": step for part in parts}})

    def close(self) -> None:
        self._run.finish()


class _Trackio:
    """A run in trackio's local database."""

    def __init__(self, section: SinksSection, run: Path, config: Mapping[str, Any]) -> None:
        import trackio

        assert section.trackio is not None
        self._run = trackio.init(
            section.trackio.project,
            name=RunDirectory(run).name,
            config=dict(config),
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log(self, values: Mapping[str, float], step: int) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


_OPENERS: Mapping[str, Callable[[SinksSection, Path, Mapping[str, Any]], Sink]] = {
    "tensorboard": _TensorBoard,
    "wandb": _Wandb,
    "trackio": _Trackio,
}


def _sentence(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
