"""What scanners look at: one episode, taken apart once for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from steelyard.episodes import Episode, ToolCall
from steelyard.monitor.scanners.shell import inline_python, simple_commands
from steelyard.monitor.scanners.source import Code, parsed
from steelyard.tasks import Task
from steelyard.tasks.task import WORKING_DIRECTORY

_FAILED = ("no such file", "permission denied", "not found", "cannot access", "cannot open",
           "cannot create", "read-only file system", "operation not permitted",
           "not a git repository")  # fmt: skip
_MIN_LOCATED_CHARACTERS = 6


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command of a `run` call, and whether the call showed anything."""

    turn: int
    words: tuple[str, ...]
    answered: bool
    """The call was not refused, did not fail, and printed something."""


class Given:
    """What a task gives an agent and what its reference does: nothing of it is a finding.

    `untouched`: suite → check → whether it passes on the untouched workspace.
    """

    def __init__(
        self, task: Task | None, untouched: Mapping[str, Mapping[str, bool]] | None = None
    ) -> None:
        self.task = task
        self.untouched = untouched or {}
        self.files: dict[str, bytes] = {}
        solutions: dict[str, bytes] = {}
        if task is not None:
            self.files |= task.files
            solutions |= task.solution or {}
            for step in task.steps:
                self.files |= step.files
                solutions |= step.solution or {}
        self.solution = solutions
        prefix = task.answer.prefix if task is not None and task.answer is not None else ""
        self._shared = _lines(*solutions.values(), prefix.encode())
        self._own: dict[str, frozenset[str]] = {}
        directory = task.working_directory if task is not None else WORKING_DIRECTORY
        self._workspace = re.compile(rf"(?<![\w./-]){re.escape(directory)}(?![\w.-])")

    def from_inside(self, text: str) -> str:
        """A command or path as seen from the workspace, which it may also name by its place in the
        sandbox: with that at /srv/app, `/srv/app/x.py` is `./x.py`."""
        return self._workspace.sub(".", text)

    def knows(self, place: str, line: str) -> bool:
        """Whether a line stood in this file from the start, or stands in the reference."""
        if place not in self._own:
            self._own[place] = _lines(self.files.get(place, b""))
        return line in self._shared or line in self._own[place]

    @cached_property
    def text(self) -> str:
        """Instructions, files and reference in one."""
        texts = [*self.files.values(), *self.solution.values()]
        return "\n".join([self.instructions, *(t.decode("utf-8", "replace") for t in texts)])

    @cached_property
    def instructions(self) -> str:
        if self.task is None:
            return ""
        return "\n".join([self.task.instruction, *(s.instruction for s in self.task.steps)])


class Material:
    """An episode for scanners; `given` is empty where its task is not at hand."""

    def __init__(self, episode: Episode, given: Given) -> None:
        self.episode = episode
        self.given = given

    @cached_property
    def own(self) -> frozenset[str]:
        """The files of the workspace, before and after."""
        return frozenset([*self.given.files, *self.episode.files])

    @cached_property
    def calls(self) -> list[tuple[int, ToolCall]]:
        turns = enumerate(self.episode.trajectory.turns)
        return [(i, call) for i, turn in turns for call in turn.calls]

    @cached_property
    def commands(self) -> list[Command]:
        return [
            Command(turn, words, _answered(call))
            for turn, text, call in self._runs()
            for words in simple_commands(text)
        ]

    @cached_property
    def changed(self) -> dict[str, bytes]:
        """The files that the agent made or changed, as they were in the end."""
        return {
            path: data
            for path, data in self.episode.files.items()
            if self.given.files.get(path) != data
        }

    @cached_property
    def programs(self) -> list[Code]:
        """The changed Python files, and an answer that is Python under another name."""
        answer = self.given.task.answer if self.given.task else None
        found = []
        for path, data in self.changed.items():
            if path.endswith(".py") or (answer is not None and path == answer.path):
                code = parsed(path, data.decode("utf-8", "replace"))
                found += [code] if code is not None else []
        return found

    @cached_property
    def inline(self) -> list[Code]:
        """Python given to the interpreter in a command, while the agent worked."""
        codes = (
            parsed("python -c", program, turn)
            for turn, text, _ in self._runs()
            for program in inline_python(text)
        )
        return [code for code in codes if code is not None]

    def turn_of(self, line: str) -> int | None:
        """The last turn whose calls wrote a line of the final files."""
        if len(line) < _MIN_LOCATED_CHARACTERS:
            return None
        for turn, call in reversed(self.calls):
            if call.error:
                continue
            # What an edit replaces is quoted from the file; what it only repeats was there before.
            quoted = str(call.arguments.get("old", ""))
            written = (v for name, v in call.arguments.items() if name != "old")
            if line not in quoted and any(isinstance(v, str) and line in v for v in written):
                return turn
        return None

    def _runs(self) -> Iterator[tuple[int, str, ToolCall]]:
        for turn, call in self.calls:
            command = call.arguments.get("command")
            if call.name == "run" and isinstance(command, str):
                yield turn, command, call


def _lines(*texts: bytes) -> frozenset[str]:
    lines = (line.strip() for text in texts for line in text.decode("utf-8", "replace").split("\n"))
    return frozenset(line for line in lines if line)


def _answered(call: ToolCall) -> bool:
    result = call.result.lower()
    nothing = call.error or result.strip() in ("", "[no output]")
    return not nothing and not any(sign in result for sign in _FAILED)
