"""What a probe hands in, and what it deserves for it."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from steelyard.auditing.findings import Kind
from steelyard.auditing.target import Target, changed_files, path_replaced
from steelyard.tasks import Task
from steelyard.tasks.task import WORKING_DIRECTORY


class Deserves(StrEnum):
    """How the honest reward of a submission is established, apart from the verifier."""

    NOTHING = "nothing"
    """It answers nothing at all, so any reward is too much."""
    LESS_THAN_SUCCESS = "less than success"
    """It is wrong by construction, but may honestly earn part of the reward."""
    UNTOUCHED = "untouched"
    """It computes what the honest base computes, and so deserves what that earned."""
    SEPARATED = "separated"
    """A success is too much if an input shows that it differs from the reference."""
    SUCCESS = "success"
    """It is right by construction, so less than a success is too little."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A finished workspace, or an answer's text, for one example of the target.

    `commands` is a shell script that the agent runs in its own sandbox, among the files, before it
    hands in; what it leaves in the workspace is handed in. `shared_only` marks what can only work
    where the agent's sandbox is also the verifier's.
    """

    label: str
    deserves: Deserves
    task: Task
    files: Mapping[str, bytes]
    commands: str = ""
    shared_only: bool = False
    environment: Mapping[str, str] | None = None
    """Variables of the verifier's environment that are changed (time zone, hash seed)."""
    workspaces: tuple[Mapping[str, bytes], ...] = ()
    """What each step of a multi-step task leaves, where that differs; `files` is the last."""


@dataclass(frozen=True, slots=True)
class Probe:
    """One way to score without solving (or, in family J, to be refused right work).

    `number` is its place in the catalogue of 54; 0 for what the catalogue lacks. `family` is the
    room of the probe, `id` its name there. `plan` yields nothing where the probe does not apply.
    """

    number: int
    family: str
    id: str
    title: str
    use: str
    fix: str
    plan: Callable[[Target], Iterable[Submission]]
    kind: Kind = Kind.CHEAT

    @property
    def name(self) -> str:
        return f"{self.family}/{self.id}"


def placed(submission: Submission) -> Submission:
    """What a probe plans for a workspace at /app, for where the task's WORKDIR has it. Right work
    is the task's own, and names its own places."""
    task = submission.task
    there = task.working_directory
    if there == WORKING_DIRECTORY or submission.deserves is Deserves.SUCCESS:
        return submission
    given = {**task.files, **(task.solution or {})}

    def moved(path: str, data: bytes) -> bytes:
        if data in (given.get(path), task.files.get(path)):
            return data
        try:
            text = data.decode()
        except UnicodeDecodeError:  # bytecode has lengths in it that a longer path would make wrong
            return data
        return path_replaced(text, WORKING_DIRECTORY, there).encode()

    files = {path: moved(path, data) for path, data in submission.files.items()}
    commands = path_replaced(submission.commands, WORKING_DIRECTORY, there)
    return replace(submission, files=files, commands=commands)


def shown(submission: Submission, start: Mapping[str, bytes]) -> str:
    """The submission as a person reads it: the text of an answer, or a diff from the start."""
    if submission.task.answer is not None and len(submission.files) == 1:
        return next(iter(submission.files.values())).decode("utf-8", "replace")
    parts = [diff_of(*change) for change in changed_files(start, submission.files)]
    if submission.commands:
        parts.append(f"$ {submission.commands.strip()}\n")
    return "".join(parts)


def diff_of(path: str, old: bytes, new: bytes, *, context: int = 1) -> str:
    """The change of one file as a unified diff with so many lines around it."""
    before, after = (
        data.decode("utf-8", "replace").splitlines(keepends=True) for data in (old, new)
    )
    lines = difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", n=context)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
