"""The tasks of a run, found again where its configuration names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.store import RunReader
from steelyard.tasks import Task, load_tasks

SPLITS = ("train", "dev", "test", "demonstrations")


def tasks_of_run(reader: RunReader) -> dict[str, Task]:
    """Task name → task, as far as they still lie where they lay; an earlier split wins.

    A task that was moved or broken since is left out: who reads a record does not need them.
    """
    found: dict[str, Task] = {}
    for spec, reward in task_specs(reader.config()):
        try:
            tasks = load_tasks(spec, reward=reward)
        except (ValueError, OSError):
            continue
        for task in tasks:
            found.setdefault(task.name, task)
    return found


def task_specs(config: Mapping[str, Any]) -> Iterator[tuple[str, str | None]]:
    """Where the tasks of a run lie, and its reward function: a training run has a section of
    tasks; an evaluation has its tasks by name."""
    tasks = config.get("tasks")
    if isinstance(tasks, str):
        yield tasks, config.get("reward")
    elif isinstance(tasks, dict):
        for split in SPLITS:
            if tasks.get(split):
                yield tasks[split], tasks.get("reward")
