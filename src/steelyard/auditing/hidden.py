"""What a task keeps from the agent, and how to recognise pieces of it elsewhere."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steelyard.tasks import FunctionChecks, Task, TestScript, Verifier

_FOLDERS = ("tests", "solution", "heldout")
_MAX_FILE_BYTES = 16 << 20
_MIN_FILE_BYTES = 32
_MIN_LINE_CHARACTERS = 24
_MIN_COPIED_CHARACTERS = 60
_MIN_CHECKS = 3
_VISIBLE_CALL_CHARACTERS = 8


@dataclass(frozen=True, slots=True)
class Copied:
    """Lines of a reference file that stand in another text: `found` of `distinctive`."""

    reference: str
    found: tuple[str, ...]
    distinctive: int

    @property
    def complete(self) -> bool:
        """Whether all that the reference adds is there, and it is too much for an accident."""
        characters = sum(map(len, self.found))
        return len(self.found) == self.distinctive and characters >= _MIN_COPIED_CHARACTERS


def hidden_files(task: Task) -> dict[str, bytes]:
    """The files that an agent must not find, by their place in the task (`tests/test.sh`).

    What the agent is given anyway, at the same place, is not among them.
    """
    files: dict[str, bytes] = {}
    for path, data in (task.solution or {}).items():
        files[f"solution/files/{path}"] = data
    for folder, verifier in (("tests", task.verifier), ("heldout", task.heldout)):
        if isinstance(verifier, TestScript):
            files |= {f"{folder}/{path}": data for path, data in verifier.files.items()}
    if task.source is not None and (task.source / "task.toml").is_file():
        files |= dict(_read_folders(task.source))
    return {
        path: data
        for path, data in files.items()
        if len(data) >= _MIN_FILE_BYTES
        and task.files.get(path.removeprefix("solution/files/")) != data
    }


def _read_folders(root: Path) -> Iterator[tuple[str, bytes]]:
    for folder in _FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.is_symlink() or not path.is_file() or path.stat().st_size > _MAX_FILE_BYTES:
                continue
            yield path.relative_to(root).as_posix(), path.read_bytes()


def decides_reward(path: str, data: bytes) -> bool:
    """Whether a file of `tests/` holds checks; its data files may well be the agent's too."""
    if not path.startswith(("tests/", "heldout/")):
        return False
    name = path.rpartition("/")[2]
    if name in ("test.sh", "checks.json", "run_checks.py"):
        return True
    return name.endswith((".py", ".sh", ".js", ".ts", ".rb", ".go")) and (
        b"assert" in data or b"expect" in data or "test" in name
    )


def new_lines(task: Task) -> dict[str, list[str]]:
    """Per reference file, the telling lines that neither the given file nor the prompt has."""
    prefix = task.answer.prefix if task.answer else ""
    prompt = {line.strip() for line in prefix.splitlines()}
    result = {}
    for path, data in (task.solution or {}).items():
        given = {line.strip() for line in _text(task.files.get(path, b"")).splitlines()}
        lines = [line.strip() for line in _text(data).splitlines()]
        telling = [
            line for line in dict.fromkeys(lines) if line not in given | prompt and _tells(line)
        ]
        if telling:
            result[path] = telling
    return result


def line_hash(line: str) -> str:
    """How the explorer names a line."""
    return hashlib.sha256(line.strip().encode()).hexdigest()[:16]


def copied_lines(text: str, lines: Mapping[str, list[str]]) -> Iterator[Copied]:
    """The reference files of which at least one telling line stands in `text`."""
    flat = " ".join(text.split())
    for reference, telling in lines.items():
        found = tuple(line for line in telling if " ".join(line.split()) in flat)
        if found:
            yield Copied(reference, found, len(telling))


def shows_every_check(text: str, verifier: Verifier | None) -> bool:
    """Whether a text has each call of the checks with its value: a table of it would pass."""
    if not isinstance(verifier, FunctionChecks):
        return False
    flat = _flat(text)
    told = []
    for check in verifier.checks:
        arguments = ",".join(_flat(json.dumps(argument)) for argument in check.arguments)
        calls = [f"({arguments})", f"[{arguments}]"]
        if len(arguments) >= _VISIBLE_CALL_CHARACTERS:
            calls.append(arguments)
        told.append(_tells_value(flat, calls, check.expected))
    return len(told) >= _MIN_CHECKS and all(told)


def _tells_value(flat: str, calls: list[str], expected: Any) -> bool:
    value = re.escape(_flat(json.dumps(expected)))
    return any(
        re.search(rf"{re.escape(call)}.{{0,40}}?(?<![\w.]){value}(?!\w|\.\d)", flat)
        for call in calls
        if call in flat
    )


def _flat(text: str) -> str:
    """Without spaces around punctuation; Python's and JSON's spelling of a value made one."""
    flat = re.sub(r"\s*([^\w\s])\s*", r"\1", " ".join(text.split()))
    flat = flat.replace("'", '"')
    for python, plain in (("None", "null"), ("True", "true"), ("False", "false")):
        flat = flat.replace(python, plain)
    return flat


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _tells(line: str) -> bool:
    """Whether a line is code that two people would hardly write alike."""
    if len(line) < _MIN_LINE_CHARACTERS:
        return False
    if re.match(r"(#|//|\*|\"\"\"|'''|import |from |def |class |@|async def |function )", line):
        return False
    return len(set(re.findall(r"\w+", line))) >= 4 and bool(re.search(r"[=(\[{+*/<>]|return", line))
