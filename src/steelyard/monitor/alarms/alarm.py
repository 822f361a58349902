"""What an alarm says, and what its family needs to know to raise one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Action: TypeAlias = Literal["warn", "pause", "rollback", "quarantine"]


@dataclass(frozen=True, slots=True)
class Alarm:
    """A named condition on the run's own records that held after `step`.

    `text` is one sentence for a person; `evidence` the numbers behind it; `episodes` the ids of
    those that raised it, the latest last; `tasks` those that they belong to. `subject` is the task
    or reward component that it is about, empty for the run as a whole: an alarm is raised once for
    each name and subject. `action` is what follows from it.
    """

    name: str
    step: int
    text: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    episodes: tuple[str, ...] = ()
    action: Action = "warn"
    subject: str = ""
    tasks: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.name, self.subject

    @property
    def since(self) -> int:
        """The first of the steps in which its condition showed: those of its window, or its own.

        A verifier's fault, for which all steps so far speak, has no first step: it was there before
        the policy was, and held-out success alone says which policy it has spoilt.
        """
        return min(self.evidence.get("window_steps", ()), default=self.step)

    def as_json(self) -> dict[str, Any]:
        """Everything but the step and the text, which an event has of its own."""
        return {
            "name": self.name,
            "subject": self.subject,
            "action": self.action,
            "evidence": dict(self.evidence),
            "episodes": list(self.episodes),
            "tasks": list(self.tasks),
        }


@dataclass(frozen=True, slots=True)
class Finding:
    """What a family found at the last step of a history; `Alarm` has the meaning of the fields."""

    name: str
    text: str
    evidence: Mapping[str, Any]
    episodes: tuple[str, ...] = ()
    subject: str = ""
    tasks: tuple[str, ...] = ()
