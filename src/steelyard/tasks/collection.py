"""Finds the tasks that a run file names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from steelyard.tasks.harbor import read_task
from steelyard.tasks.humaneval import read_humaneval
from steelyard.tasks.jsonl import DEFAULT_REWARD, read_jsonl
from steelyard.tasks.task import Task

HUMANEVAL = "humaneval"


def load_tasks(
    spec: str | Path,
    split: str | None = None,
    reward: str | None = None,
    gold: str | None = None,
) -> list[Task]:
    """The tasks of `spec` in a fixed order, all or those of one split.

    `spec` is a Harbor task directory, a folder that holds such directories at any depth, a JSONL
    file of prompts (with `reward` and `gold` as `read_jsonl` takes them), or `humaneval`. A task
    whose own
    metadata names no split belongs to the split that its parent folder is named after. ValueError
    where nothing is found, where two tasks share a name, and for every malformed task.
    """
    tasks = _load(spec, reward or DEFAULT_REWARD, gold)
    _refuse_duplicates(tasks, spec)
    if split is None:
        return tasks
    chosen = [task for task in tasks if task.split == split]
    if not chosen:
        known = ", ".join(sorted({task.split for task in tasks} - {""})) or "none is named"
        raise ValueError(f"{spec}: no task is in split {split!r}; the splits are: {known}")
    return chosen


def _load(spec: str | Path, reward: str, gold: str | None) -> list[Task]:
    if str(spec) == HUMANEVAL:
        return read_humaneval()
    path = Path(spec)
    if path.is_file():
        if path.suffix != ".jsonl":
            raise ValueError(f"{path}: this is not a .jsonl file; give a JSONL file or a folder")
        return read_jsonl(path, reward, gold)
    if not path.is_dir():
        raise ValueError(
            f"{path}: there is no such file or folder; give a task directory, a folder of them, "
            f"a .jsonl file or {HUMANEVAL}"
        )
    if (path / "task.toml").is_file():
        return [read_task(path)]
    tasks = [_with_split(read_task(directory), path) for directory in _task_directories(path)]
    if not tasks:
        raise ValueError(f"{path}: it holds no tasks; a task is a folder with a task.toml")
    return tasks


def _task_directories(root: Path) -> Iterator[Path]:
    """The directories below `root` that hold a task.toml, in path order."""
    for folder, subfolders, files in os.walk(root):
        if "task.toml" in files:
            subfolders.clear()
            yield Path(folder)
            continue
        if "instruction.md" in files:
            raise ValueError(f"{folder}: it has an instruction.md but no task.toml; add one")
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))


def _with_split(task: Task, root: Path) -> Task:
    """`task` in the split of its parent folder, if it names none itself."""
    assert task.source is not None
    if task.split or task.source.parent == root:
        return task
    return replace(task, split=task.source.parent.name)


def _refuse_duplicates(tasks: Sequence[Task], spec: str | Path) -> None:
    sources: dict[str, Path | None] = {}
    for task in tasks:
        if task.name in sources:
            raise ValueError(
                f"{spec}: the task name {task.name!r} occurs twice, in {sources[task.name]} and "
                f"{task.source}; rename one"
            )
        sources[task.name] = task.source
