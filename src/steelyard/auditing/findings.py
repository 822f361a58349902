"""What an audit says: findings, how strong each is, and the verdict on a task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from steelyard.episodes import Outcome


class Kind(StrEnum):
    """What is wrong."""

    CHEAT = "cheat"
    """Wrong work is paid."""
    WEAK = "weak"
    """A wrong program passes because no check tries what it gets wrong."""
    REJECTS = "rejects"
    """Right work is not paid."""
    BROKEN = "broken"
    """The verifier cannot do its job at all: its own reference fails, or it fails itself."""
    LEAK = "leak"
    """The agent can reach what it must not know or hold."""
    HYGIENE = "hygiene"
    """The task's directory invites trouble."""


class Strength(StrEnum):
    """How far to believe a finding."""

    PROVED = "proved"
    """Reproduced against the grader, and wrongness or rightness was established apart from it."""
    LEAD = "lead"
    """Worth a look: something is missing for a proof."""
    OBSERVATION = "observation"
    """A fact about the task; nothing was earned by it."""


class Verdict(StrEnum):
    """Whether to optimise against this verifier."""

    SOUND = "sound"
    WEAK = "weak"
    BROKEN = "broken"


class Tier(StrEnum):
    """How the verifier is separated from what it grades."""

    A = "A"
    """Compared out of process: the graded code never holds the reward, the tests or the verdict."""
    B = "B"
    """Structured results from a fresh sandbox that the graded code shares."""
    C = "C"
    """One number or exit code from a fresh sandbox that the graded code shares."""
    D = "D"
    """Graded in the agent's own sandbox."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the audit found. `probe` names what was tried (`exits/os-exit-on-import`).

    `earned` and `deserved` are rewards, where a submission was graded; `artifact` is what was
    handed in (a diff, or the text of an answer); `command` reproduces the finding.
    """

    probe: str
    kind: Kind
    strength: Strength
    title: str
    evidence: str
    use: str
    """How an agent would use it."""
    fix: str
    earned: float | None = None
    deserved: float | None = None
    artifact: str = ""
    command: str = ""

    @property
    def proved(self) -> bool:
        return self.strength is Strength.PROVED


@dataclass(frozen=True, slots=True)
class Trial:
    """One submission that was graded, whatever came of it."""

    probe: str
    label: str
    earned: float | None
    """None where it was unscored; `detail` then says why."""
    deserved: float | None
    scored: bool
    """Whether it earned what it does not deserve."""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class TaskAudit:
    """All that is known of one task, or of one reward function over its examples."""

    task: str
    tier: Tier
    findings: tuple[Finding, ...]
    trials: tuple[Trial, ...]
    mutants: Mapping[str, int] = field(default_factory=dict)
    """Mutants of the reference: `killed`, `survived`, `equivalent` as far as was seen."""
    seconds: float = 0.0
    error: str = ""
    """Why the audit could not be run, where it could not."""
    untouched: Outcome | None = field(default=None, repr=False)
    """What the verifier says of the untouched files of a program task; not part of the report."""

    @property
    def verdict(self) -> Verdict:
        proved = {finding.kind for finding in self.findings if finding.proved}
        if proved & {Kind.CHEAT, Kind.BROKEN}:
            return Verdict.BROKEN
        return Verdict.WEAK if proved else Verdict.SOUND

    @property
    def mutation_score(self) -> float | None:
        """Killed mutants / (killed + survived with a separating input); None without mutants."""
        counted = self.mutants.get("killed", 0) + self.mutants.get("survived", 0)
        return self.mutants["killed"] / counted if counted else None

    def as_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        del plain["untouched"]
        return {
            "verdict": "" if self.error else self.verdict.value,
            "mutation_score": self.mutation_score,
            **plain,
        }


@dataclass(frozen=True, slots=True)
class Report:
    """The audits of several tasks."""

    tasks: tuple[TaskAudit, ...]

    @property
    def exit_code(self) -> int:
        """0: nothing is proved; 1: something is; 2: a task could not be audited."""
        if any(task.error for task in self.tasks):
            return 2
        return int(any(finding.proved for task in self.tasks for finding in task.findings))

    def as_dict(self) -> dict[str, Any]:
        return {
            "exit_code": self.exit_code,
            "tasks": [task.as_dict() for task in self.tasks],
        }
