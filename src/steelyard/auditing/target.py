"""What is attacked: one task, or one reward function with the examples it grades."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from steelyard.auditing.answer_format import PLAIN, AnswerFormat
from steelyard.auditing.sources import parse
from steelyard.tasks import FunctionChecks, RewardFunction, Task, TestScript
from steelyard.tasks.task import WORKING_DIRECTORY, CheckProgram

DEFAULT_THRESHOLD = 1.0


@dataclass(frozen=True)
class Target:
    """A verifier and what it is fed.

    `examples` has one task, or for a reward function every example that the audit looks at.
    `threshold` is the reward from which an episode counts as a success.
    """

    examples: tuple[Task, ...]
    threshold: float = DEFAULT_THRESHOLD
    form: AnswerFormat = PLAIN
    """How an answer is dressed, for a reward function."""

    @property
    def task(self) -> Task:
        return self.examples[0]

    @property
    def name(self) -> str:
        verifier = self.task.verifier
        if isinstance(verifier, RewardFunction):
            return f"{verifier.path.name}:{verifier.function}"
        return self.task.name

    @property
    def grades_text(self) -> bool:
        """Whether a submission is an answer's text, not files that run."""
        return isinstance(self.task.verifier, RewardFunction)

    @cached_property
    def start(self) -> dict[str, bytes]:
        """The files of a program task before anything is done; an answer's prefix stands in it."""
        files = dict(self.task.files)
        answer = self.task.answer
        if answer is not None and answer.path not in files:
            files[answer.path] = answer.prefix.encode()
        return files

    @cached_property
    def gold(self) -> dict[str, bytes] | None:
        """The workspace with the reference solution laid over it."""
        if self.task.solution is None:
            return None
        return {**self.task.files, **self.task.solution}

    @cached_property
    def second_solutions(self) -> dict[str, dict[str, bytes]]:
        """Further references, by name: `solutions/NAME/files/` of a task directory."""
        folder = (self.task.source or Path()) / "solutions"
        if self.task.source is None or not folder.is_dir():
            return {}
        found = {}
        for directory in sorted(path for path in folder.iterdir() if (path / "files").is_dir()):
            inside = directory / "files"
            files = {
                path.relative_to(inside).as_posix(): path.read_bytes()
                for path in sorted(inside.rglob("*"))
                if path.is_file() and "__pycache__" not in path.parts
            }
            found[directory.name] = {**self.task.files, **files}
        return found

    @cached_property
    def modules(self) -> tuple[str, ...]:
        """The Python files that a solver writes: the verifier's module, or what the reference
        changes, or, without a reference, every Python file of the workspace."""
        verifier = self.task.verifier
        if isinstance(verifier, FunctionChecks | CheckProgram):
            return (verifier.module,)
        changed = [path for path in self.task.solution or {} if self._is_changed(path)]
        return tuple(path for path in changed or self.start if path.endswith(".py"))

    @cached_property
    def shell_scripts(self) -> tuple[str, ...]:
        """The shell scripts that a solver writes."""
        paths = self.task.solution or {}
        return tuple(path for path in paths if path.endswith((".sh", ".bash")))

    def _is_changed(self, path: str) -> bool:
        assert self.task.solution is not None
        return self.task.solution[path] != self.task.files.get(path)

    @cached_property
    def honest_base(self) -> dict[str, bytes]:
        """The untouched files, with a hollow stand-in for each program that is to be written: in
        Python functions that do nothing, and a shell script that does nothing.

        What a tampering submission builds on: its behaviour alone deserves what this earns.
        """
        files = dict(self.start)
        for path in self.modules:
            if not parses(files.get(path)):
                files[path] = hollow((self.gold or {}).get(path, b""))
        for path in self.shell_scripts:
            files.setdefault(path, b":\n")
        return files

    @cached_property
    def tests_texts(self) -> tuple[str, ...]:
        """The text of each file of a script's tests, or of a check program; none for data."""
        verifier = self.task.verifier
        if isinstance(verifier, CheckProgram):
            return (verifier.source,)
        if not isinstance(verifier, TestScript):
            return ()
        return tuple(data.decode("utf-8", "replace") for data in verifier.files.values())

    @cached_property
    def tests_text(self) -> str:
        """All of `tests_texts` in one, as if the workspace lay at /app: see `placed`."""
        text = "\n".join(self.tests_texts)
        return path_replaced(text, self.task.working_directory, WORKING_DIRECTORY)

    @cached_property
    def tested_imports(self) -> tuple[str, ...]:
        """Top-level modules that the tests' Python files import."""
        verifier = self.task.verifier
        if not isinstance(verifier, TestScript):
            return ()
        names: set[str] = set()
        for path, data in verifier.files.items():
            if path.endswith(".py") and parses(data):
                names |= _imports(parse(data))
        own = {Path(path).stem for path in (*verifier.files, *self.start, *self.modules)}
        return tuple(sorted(names - own))

    @cached_property
    def visible_texts(self) -> tuple[str, ...]:
        """All that an agent may read: the instruction, and each file of the workspace."""
        texts = [data.decode("utf-8", "replace") for data in self.start.values()]
        return (self.task.instruction, *texts)

    def functions(self, module: str) -> tuple[str, ...]:
        """The public top-level functions that the reference's `module` defines."""
        verifier = self.task.verifier
        if isinstance(verifier, FunctionChecks | CheckProgram):
            return (verifier.function,)
        source = (self.gold or self.start).get(module, b"")
        if not parses(source):
            return ()
        return tuple(
            node.name
            for node in parse(source).body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and not node.name.startswith("_")
        )


def targets_of(
    tasks: Sequence[Task], *, threshold: float = DEFAULT_THRESHOLD, max_examples: int = 8
) -> list[Target]:
    """One target per task, but one per reward function with at most `max_examples` examples."""
    grouped: dict[object, list[Task]] = {}
    for index, task in enumerate(tasks):
        verifier = task.verifier
        key: object = index
        if isinstance(verifier, RewardFunction):
            key = (verifier.path, verifier.function)
        grouped.setdefault(key, []).append(task)
    return [Target(tuple(_spread(group, max_examples)), threshold) for group in grouped.values()]


def _spread(tasks: Sequence[Task], count: int) -> list[Task]:
    """At most `count` of the tasks, evenly spaced."""
    if len(tasks) <= count:
        return list(tasks)
    return [tasks[i * len(tasks) // count] for i in range(count)]


def path_replaced(text: str, old: str, new: str) -> str:
    """The text with the folder `old` called `new`; `/apply` and `/app.py` are not in `/app`."""
    return re.sub(rf"{re.escape(old)}(?![\w.-])", lambda _: new, text)


def parses(source: bytes | None) -> bool:
    """Whether this is a Python program that says anything."""
    if not source or not source.strip():
        return False
    try:
        return bool(parse(source).body)
    except ValueError:
        return False


def hollow(source: bytes) -> bytes:
    """The program with every function's body gone: it takes the arguments and returns None."""
    if not parses(source):
        return b""
    tree = parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [ast.Return(ast.Constant(None))]
    return ast.unparse(ast.fix_missing_locations(tree)).encode() + b"\n"


def _imports(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def changed_files(
    before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> list[tuple[str, bytes, bytes]]:
    """(path, old, new) of every file that differs, by path."""
    paths = sorted(before.keys() | after.keys())
    return [
        (path, before.get(path, b""), after.get(path, b""))
        for path in paths
        if before.get(path) != after.get(path)
    ]
