"""What a training run tells whoever watches it, and two listeners that need no screen."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Protocol

from steelyard.episodes import GroupVerdict
from steelyard.monitor.alarms import Alarm


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one RL step did.

    `reward_mean`, `solved` and `scored` count every scored training episode of the step, those of
    unused groups too; `unscored` counts the others by their cause. `groups` maps each verdict to
    the number of groups sampled. `seconds` holds wall time per part ("sampling", "grading",
    "training"). `staleness` is the mean difference of versions between the learner and its tokens;
    `entropy` is in nats a token.
    """

    step: int
    reward_mean: float | None
    solved: int
    scored: int
    groups: Mapping[GroupVerdict, int]
    unscored: Mapping[str, int] = field(default_factory=dict)
    entropy: float | None = None
    sampling_tokens_per_second: float | None = None
    training_tokens_per_second: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)
    staleness: float = 0.0
    tokens_sampled: int = 0
    tokens_trained: int = 0
    peak_memory_bytes: int | None = None

    def metrics(self) -> dict[str, float | None]:
        """The numbers under the names that the store keeps and the summary reads."""
        return {
            "reward_mean": self.reward_mean,
            "entropy": self.entropy,
            "sampling_tokens_per_second": self.sampling_tokens_per_second,
            "training_tokens_per_second": self.training_tokens_per_second,
            "staleness": self.staleness,
            "unscored": float(sum(self.unscored.values())),
            "tokens_sampled": self.tokens_sampled,
            "tokens_trained": self.tokens_trained,
            "peak_memory_bytes": self.peak_memory_bytes,
            **{f"seconds_{part}": value for part, value in self.seconds.items()},
        }


class Listener(Protocol):
    """Hears of a run as it goes. Its methods return at once and never raise."""

    def phase(self, name: str, total: int | None, done: float = 0.0) -> None:
        """A phase begins or goes on: `total` units of work, if known, of which `done` are done."""

    def advance(self, done: float) -> None:
        """So many more units of the phase are done; fractions count."""

    def step(self, metrics: StepReport) -> None:
        """An RL step ended."""

    def evaluation(
        self, name: str, split: str, solved: int, n: int, by_kind: Mapping[str, tuple[int, int]]
    ) -> None:
        """An evaluation ended; `by_kind` maps each kind to (solved, scored episodes)."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    def alarm(self, alarm: Alarm) -> None:
        """An alarm was raised."""

    def close(self) -> None:
        """Nothing more will come."""


class NullListener:
    """Hears everything and says nothing."""

    def phase(self, name: str, total: int | None, done: float = 0.0) -> None: ...

    def advance(self, done: float) -> None: ...

    def step(self, metrics: StepReport) -> None: ...

    def evaluation(
        self, name: str, split: str, solved: int, n: int, by_kind: Mapping[str, tuple[int, int]]
    ) -> None: ...

    def note(self, text: str) -> None: ...

    def alarm(self, alarm: Alarm) -> None: ...

    def close(self) -> None: ...


class LineListener:
    """One plain line per phase, step, evaluation and note: for logs and pipes."""

    def __init__(self, stream: IO[str] | None = None) -> None:
        self._stream = stream or sys.stdout

    def phase(self, name: str, total: int | None, done: float = 0.0) -> None:
        self._total = total
        if not done:  # a phase that goes on after an evaluation is no news
            self._say(f"phase {name}" + (f" ({total})" if total is not None else ""))

    def advance(self, done: float) -> None:
        """Says nothing: a log wants events, not progress."""

    def step(self, metrics: StepReport) -> None:
        groups = " ".join(f"{verdict}={metrics.groups.get(verdict, 0)}" for verdict in GroupVerdict)
        seconds = " ".join(f"{part}={value:.1f}s" for part, value in metrics.seconds.items())
        causes = "".join(f" {cause}={n}" for cause, n in metrics.unscored.items())
        self._say(
            f"step {metrics.step} reward={_or_dash(metrics.reward_mean, '.3f')}"
            f" {groups}{causes} entropy={_or_dash(metrics.entropy, '.3f')} {seconds}"
            f" sampling={_or_dash(metrics.sampling_tokens_per_second, '.0f')}tok/s"
            f" training={_or_dash(metrics.training_tokens_per_second, '.0f')}tok/s"
        )

    def evaluation(
        self, name: str, split: str, solved: int, n: int, by_kind: Mapping[str, tuple[int, int]]
    ) -> None:
        kinds = " ".join(f"{kind}={s}/{of}" for kind, (s, of) in by_kind.items())
        rate = f"{solved / n:.3f}" if n else "-"
        self._say(f"evaluation {name} on {split}: pass@1={rate} ({solved}/{n}) {kinds}".rstrip())

    def note(self, text: str) -> None:
        self._say("note " + _printable(text))

    def alarm(self, alarm: Alarm) -> None:
        self._say(f"alarm {alarm.name} at step {alarm.step}: {_printable(alarm.text)}")

    def close(self) -> None: ...

    def _say(self, line: str) -> None:
        with suppress(BrokenPipeError):  # `steelyard train | head` must not end the training
            print(line, file=self._stream, flush=True)


def _printable(text: str) -> str:
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


def _or_dash(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)
