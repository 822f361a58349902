"""One call of the audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from steelyard.tasks import Task


@dataclass(frozen=True)
class Job:
    """Tasks that are audited together. `target` is the row of the table in which they count;
    `settings` are changes of the audit's own; `name` is set where the tasks are one case."""

    target: str
    tasks: list[Task]
    settings: Mapping[str, Any] = field(default_factory=dict)
    packages: bool = False
    """Whether a reward function needs the running environment's packages."""
    name: str = ""


def installed(distribution: str, version: str) -> metadata.Distribution:
    """The installed distribution; ValueError says what to install."""
    wanted = f"pip install --no-deps {distribution}=={version}"
    try:
        found = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        raise ValueError(f"the package {distribution} is not installed; {wanted}") from None
    if found.version != version:
        raise ValueError(
            f"{distribution} {found.version} is installed, but its tasks are known as those of "
            f"{version}; {wanted}"
        )
    return found


def spread(tasks: list[Task], count: int) -> list[Task]:
    """At most `count` of them, evenly spaced."""
    count = min(count, len(tasks))
    return [tasks[i * len(tasks) // count] for i in range(count)]
