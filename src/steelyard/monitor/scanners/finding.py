"""What a scanner says of an episode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from steelyard.monitor.scanners.material import Material

_QUOTED_CHARACTERS = 120


class Severity(StrEnum):
    """How far a finding is from honest work."""

    INFO = "info"
    """Honest work does it too; worth knowing when something else is wrong."""
    SUSPICIOUS = "suspicious"
    """Honest work seldom needs it."""
    CHEAT = "cheat"
    """It decides the verdict without doing the task, or tries to."""


@dataclass(frozen=True, slots=True)
class Hit:
    """One thing that a scanner saw; `turn` counts from 0, None where no turn can be named."""

    text: str
    severity: Severity
    turn: int | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """A hit with its episode and scanner: one line of findings.jsonl.

    `purpose` is the episode's, "train" or "eval".
    """

    episode: str
    purpose: str
    turn: int | None
    scanner: str
    text: str
    severity: Severity

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "severity": self.severity.value}


Look: TypeAlias = "Callable[[Material], Iterable[Hit]]"


@dataclass(frozen=True, slots=True)
class Scanner:
    """A named rule over one episode; `about` is the sentence that reports explain it with."""

    name: str
    about: str
    look: Look


def quoted(text: str) -> str:
    """A piece of what the model wrote, fit to stand in a sentence: one line, cut, no control
    characters (a hostile one would steer a terminal)."""
    line = " ".join(text.split())
    kept = "".join(c if c.isprintable() else "\ufffd" for c in line[: _QUOTED_CHARACTERS + 1])
    return f"`{kept[:_QUOTED_CHARACTERS]}{'…' if len(kept) > _QUOTED_CHARACTERS else ''}`"
