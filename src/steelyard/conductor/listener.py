"""What a training run tells whoever watches it, and two listeners that need no screen."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Protocol

from steelyard.episodes import GroupVerdict
from steelyard.monitor.text import kind_name, printable


@dataclass(frozen=True, slots=True)
class StepReport:
    """What one RL step did.

    `reward_mean`, `solved` and `scored` count every scored training episode of the step, those of
    unused groups too; `unscored` counts the others by their cause. `groups` maps each verdict to
    the number of groups sampled. `seconds` holds wall time per part ("sampling", "grading",
    "training"). `staleness` is the mean difference of versions between the learner and its tokens,
    None where nothing was learned from; `entropy` is in nats a token. `heldout_mean` is what
    held-out checks say of the episodes that both they and the verifier scored, `heldout_scored` in
    number, and `paid_mean` what the verifier says of the same ones. `calls`, `call_errors` (tool
    calls answered with an error) and `cut` (ended by a limit) are counts over all episodes of the
    step. `reward_interval` bounds the mean reward at 95 %, clustered by task; None where nothing
    was scored or a reward lies outside [0, 1].
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
    staleness: float | None = None
    tokens_sampled: int = 0
    tokens_trained: int = 0
    peak_memory_bytes: int | None = None
    heldout_mean: float | None = None
    paid_mean: float | None = None
    heldout_scored: int = 0
    reward_interval: tuple[float, float] | None = None
    calls: int = 0
    call_errors: int = 0
    cut: int = 0

    @property
    def episodes(self) -> int:
        return self.scored + sum(self.unscored.values())

    @property
    def gap(self) -> float | None:
        """How much more the verifier paid than held-out checks accept, on the same episodes."""
        if self.paid_mean is None or self.heldout_mean is None:
            return None
        return self.paid_mean - self.heldout_mean

    @property
    def waiting_shares(self) -> tuple[float, float] | None:
        """The shares of the step in which the engine waited, and in which the learner did."""
        whole = self.seconds.get("sampling", 0.0) + self.seconds.get("training", 0.0)
        if not whole or not self.sampling_tokens_per_second:
            return None
        busy = self.tokens_sampled / self.sampling_tokens_per_second
        return max(0.0, 1.0 - busy / whole), 1.0 - self.seconds.get("training", 0.0) / whole

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
            "heldout_mean": self.heldout_mean,
            "gap": self.gap,
            "calls": float(self.calls),
            "call_errors": float(self.call_errors),
            "cut": float(self.cut),
            **{f"seconds_{part}": value for part, value in self.seconds.items()},
        }


@dataclass(frozen=True, slots=True)
class EvaluationReport:
    """What one evaluation found: `solved` of `n` scored episodes, and the same two by kind; no kind
    where no task has one.

    `interval` bounds the rate at 95 %, clustered by task; None where nothing was scored.
    """

    name: str
    split: str
    solved: int
    n: int
    by_kind: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    interval: tuple[float, float] | None = None

    @property
    def rate(self) -> float | None:
        return self.solved / self.n if self.n else None


class AnyAlarm(Protocol):
    """What a listener needs to know of an alarm."""

    @property
    def name(self) -> str: ...

    @property
    def step(self) -> int: ...

    @property
    def text(self) -> str: ...


class Listener(Protocol):
    """Hears of a run as it goes. Its methods return at once and never raise."""

    def phase(self, name: str, total: int | None, done: float = 0.0) -> None:
        """A phase begins or goes on: `total` units of work, if known, of which `done` are done."""

    def advance(self, done: float) -> None:
        """So many more units of the phase are done; fractions count."""

    def step(self, metrics: StepReport) -> None:
        """An RL step ended."""

    def evaluation(self, found: EvaluationReport) -> None:
        """An evaluation ended."""

    def note(self, text: str) -> None:
        """Something that a person should know."""

    def alarm(self, alarm: AnyAlarm) -> None:
        """The run's own records raised an alarm."""

    def close(self) -> None:
        """Nothing more will come."""


class NullListener:
    """Hears everything and says nothing."""

    def phase(self, name: str, total: int | None, done: float = 0.0) -> None: ...

    def advance(self, done: float) -> None: ...

    def step(self, metrics: StepReport) -> None: ...

    def evaluation(self, found: EvaluationReport) -> None: ...

    def note(self, text: str) -> None: ...

    def alarm(self, alarm: AnyAlarm) -> None: ...

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
            f" heldout={_or_dash(metrics.heldout_mean, '.3f')} gap={_or_dash(metrics.gap, '.3f')}"
            f" {groups}{causes} calls={metrics.calls} call_errors={metrics.call_errors}"
            f" cut={metrics.cut} entropy={_or_dash(metrics.entropy, '.3f')} {seconds}"
            f" sampling={_or_dash(metrics.sampling_tokens_per_second, '.0f')}tok/s"
            f" training={_or_dash(metrics.training_tokens_per_second, '.0f')}tok/s"
        )

    def evaluation(self, found: EvaluationReport) -> None:
        kinds = "".join(f" {kind_name(kind)}={s}/{of}" for kind, (s, of) in found.by_kind.items())
        self._say(
            f"evaluation {found.name} on {found.split}: pass@1={_or_dash(found.rate, '.3f')}"
            f" ({found.solved}/{found.n}){kinds}"
        )

    def note(self, text: str) -> None:
        self._say(f"note {_one_line(text)}")

    def alarm(self, alarm: AnyAlarm) -> None:
        self._say(f"alarm step={alarm.step} {_one_line(alarm.name)}: {_one_line(alarm.text)}")

    def close(self) -> None: ...

    def _say(self, line: str) -> None:
        with suppress(BrokenPipeError):  # `steelyard train | head` must not end the training
            print(line, file=self._stream, flush=True)


def _one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _or_dash(value: float | None, spec: str) -> str:
    return "-" if value is None else format(value, spec)
