"""Family A for tasks whose work is a file of data: an answer that is empty, a part, or too long.

A check that goes through what was handed in, and never through what was to be handed in, accepts
the first two; one that goes through what was expected only, the third.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import Any

from steelyard.auditing.submission import Deserves, Probe, Submission
from steelyard.auditing.target import Target
from steelyard.tasks import TestScript

_USE = "It writes an answer of the right form with nothing in it, or with everything in it."
_FIX = "Compare the whole answer with what is expected, in both directions, and its length."
_CODE = (".py", ".sh", ".bash", ".js", ".ts", ".c", ".h", ".cpp", ".go", ".rs", ".java", ".rb")
_TABLES = (".csv", ".tsv")
_LOOSE = re.compile(r"\b(?:empty|at most|up to|any number|if any|some|optional(?:ly)?)\b", re.I)
"""Words of an instruction under which less than the reference has may be right as well."""
_WHOLE = re.compile(r"\b(?:every|all|each)\b", re.I)


def _empty(target: Target) -> Iterable[Submission]:
    """Nothing in the form of the reference. A task that may be answered so says it; a file that it
    does not name (notes, a list of requirements) may be left out altogether."""
    loose = _LOOSE.search(target.task.instruction)
    for path, text in _answers(target):
        asked = _sentences_naming(target, path) and not loose
        deserves = Deserves.LESS_THAN_SUCCESS if asked else Deserves.SEPARATED
        for label, content in _hollowed(path, text):
            yield from _submitted(target, path, content, f"{path}: {label}", deserves)


def _part(target: Target) -> Iterable[Submission]:
    """The first of the reference's entries only."""
    for path, text in _answers(target):
        deserves = _if_all_are_asked_for(target, path)
        value = _parsed(text)
        if isinstance(value, list) and len(value) > 1:
            yield from _submitted(target, path, json.dumps(value[:1]), f"{path}: one of "
                                  f"{len(value)} elements", deserves)  # fmt: skip
        elif isinstance(value, dict) and len(value) > 1:
            first = dict([next(iter(value.items()))])
            yield from _submitted(target, path, json.dumps(first), f"{path}: one of "
                                  f"{len(value)} keys", deserves)  # fmt: skip
        elif value is None and len(lines := text.splitlines(keepends=True)) > 2:
            yield from _submitted(target, path, "".join(lines[:2]), f"{path}: two of "
                                  f"{len(lines)} lines", deserves)  # fmt: skip


def _longer(target: Target) -> Iterable[Submission]:
    """The reference's elements and one that is none, of the same kind."""
    for path, text in _answers(target):
        value = _parsed(text)
        if isinstance(value, list) and value and all(type(item) is str for item in value):
            strange = max(value) + "x"  # last in alphabetical order, too
            yield from _submitted(target, path, json.dumps([*value, strange]), f"{path}: also "
                                  f"{strange!r}", _if_all_are_asked_for(target, path))  # fmt: skip


def _answers(target: Target) -> Iterator[tuple[str, str]]:
    """The text files that are no programs and that the reference writes, with their content."""
    task = target.task
    if not isinstance(task.verifier, TestScript) or task.steps:
        return
    for path, data in (task.solution or {}).items():
        if data == task.files.get(path) or path.endswith(_CODE) or not data.strip():
            continue
        try:
            yield path, data.decode()
        except UnicodeDecodeError:
            continue


def _hollowed(path: str, text: str) -> Iterator[tuple[str, str]]:
    value = _parsed(text)
    if isinstance(value, list):
        yield "an empty list", "[]\n"
    elif isinstance(value, dict):
        yield "an empty object", "{}\n"
        if any(isinstance(part, list | dict) and part for part in value.values()):
            parts = {k: type(v)() if isinstance(v, list | dict) else v for k, v in value.items()}
            yield "its lists and objects are empty", json.dumps(parts) + "\n"
    else:
        yield "an empty file", ""
        yield "an empty line", "\n"
        # Of other files the first line may be all that was asked for, and the rest its reason.
        if path.endswith(_TABLES) and len(lines := text.splitlines(keepends=True)) > 1:
            yield "its header alone", lines[0]


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _if_all_are_asked_for(target: Target, path: str) -> Deserves:
    """Wrong by construction where the sentence that names the file asks for every entry."""
    asked = _sentences_naming(target, path)
    whole = any(_WHOLE.search(each) and not _LOOSE.search(each) for each in asked)
    return Deserves.LESS_THAN_SUCCESS if whole else Deserves.SEPARATED


def _sentences_naming(target: Target, path: str) -> list[str]:
    """The instruction's sentences that name the file; `out.json.bak` does not name `out.json`."""
    name = re.escape(PurePosixPath(path).name)
    named = re.compile(rf"(?<![\w.-]){name}(?![\w-]|\.\w)")
    sentences = re.split(r"(?<=[.!?:;])\s+", target.task.instruction)
    return [sentence for sentence in sentences if named.search(sentence)]


def _submitted(
    target: Target, path: str, content: str, label: str, deserves: Deserves
) -> Iterator[Submission]:
    data = content.encode()
    if data.strip() != (target.gold or {}).get(path, b"").strip() and data != target.start.get(
        path
    ):
        files = {**(target.gold or target.start), path: data}
        yield Submission(label, deserves, target.task, files)


PROBES: list[Probe] = [
    Probe(2, "trivial", "empty-data", "an empty answer in a file passes", _USE, _FIX, _empty),
    Probe(0, "trivial", "part-of-data", "a part of an answer passes", _USE, _FIX, _part),
    Probe(5, "trivial", "extra-data", "an answer with more in it passes", _USE, _FIX, _longer),
]
