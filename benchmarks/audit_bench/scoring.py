"""What an auditor said of the corpus, counted: recall by class, precision, false alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from corpus import CLASSES, SOUND, Case, effect_of
from rich.table import Table


@dataclass(frozen=True)
class Heard:
    """What an auditor said of one case.

    `effects` are those of classes.py that it reports as certain: it accepts wrong work, rejects
    right work, exposes something. `error` says why it could not be run; `said` is for the reader.
    """

    effects: frozenset[str]
    said: tuple[str, ...] = ()
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class Score:
    """Counts over the cases; a case whose audit failed counts as one in which nothing was found."""

    found: Mapping[str, int]
    flawed: Mapping[str, int]
    sound: int
    false_alarms: tuple[str, ...]
    missed: tuple[str, ...]
    errors: tuple[str, ...]
    seconds: float

    @property
    def recall(self) -> float:
        return sum(self.found.values()) / max(sum(self.flawed.values()), 1)

    @property
    def precision(self) -> float | None:
        """Of the cases with an alarm, those with the labelled flaw; None without alarms."""
        right = sum(self.found.values())
        alarms = right + len(self.false_alarms)
        return right / alarms if alarms else None

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "recall": self.recall, "precision": self.precision}


def score(cases: Sequence[Case], heard: Mapping[str, Heard]) -> Score:
    """A flaw is found where its effect is reported; any report on a sound case is a false alarm."""
    found = dict.fromkeys(CLASSES, 0)
    flawed = dict.fromkeys(CLASSES, 0)
    missed, alarms, errors = [], [], []
    for case in cases:
        told = heard[case.name]
        if told.error:
            errors.append(case.name)
        if case.flaw == SOUND:
            if told.effects:
                alarms.append(case.name)
            continue
        flawed[case.flaw] += 1
        if effect_of(case.flaw) in told.effects:
            found[case.flaw] += 1
        else:
            missed.append(case.name)
    return Score(
        {flaw: n for flaw, n in found.items() if flawed[flaw]},
        {flaw: n for flaw, n in flawed.items() if n},
        sum(case.flaw == SOUND for case in cases),
        tuple(alarms),
        tuple(missed),
        tuple(errors),
        sum(told.seconds for told in heard.values()),
    )


def table(result: Score, title: str) -> Table:
    """One row for each class, and the totals."""
    rows = Table(title=title)
    rows.add_column("class")
    rows.add_column("found", justify="right")
    rows.add_column("of", justify="right")
    for flaw, count in result.flawed.items():
        style = "" if result.found[flaw] == count else "bold red"
        rows.add_row(flaw, str(result.found[flaw]), str(count), style=style)
    rows.add_section()
    rows.add_row("recall", f"{result.recall:.3f}", str(sum(result.flawed.values())))
    precision = "-" if result.precision is None else f"{result.precision:.3f}"
    rows.add_row("precision", precision, "")
    rows.add_row("false alarms", str(len(result.false_alarms)), str(result.sound))
    rows.add_row("not audited", str(len(result.errors)), "")
    return rows
