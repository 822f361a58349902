"""Contradictions between what a task asks for and what its tests try, by the names alone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from steelyard.auditing.findings import Finding, Strength
from steelyard.auditing.sources import parse
from steelyard.auditing.task_files import TaskFiles, hygiene

_EXTENSIONS = "py|txt|json|jsonl|csv|tsv|ya?ml|toml|md|html|xml|log|sql|db|sh|js|ts|c|cpp|rs|go|out"
_FILE = re.compile(rf"(?<![\w./-])((?:[\w.-]+/|/)*[\w-][\w.-]*\.(?:{_EXTENSIONS}))(?![\w-]|\.\w)")
_CALL = re.compile(r"`(?:[\w.]+\.)?([A-Za-z_]\w{2,})\([^`]*\)`")
_FLAG = re.compile(r"(?<![\w-])(--[a-z][\w-]+)")
_ABSOLUTE = re.compile(
    rf"[\"'](/(?:app|workspace|work|output|data)/[\w./-]*\.(?:{_EXTENSIONS}))[\"']"
)


def contradictions(task: TaskFiles) -> Iterator[Finding]:
    """Names that only one side of a task knows."""
    tests = "\n".join([*task.below("tests/").values(), *task.below("heldout/").values()])
    if not task.instruction.strip() or not tests.strip():
        return
    asked = _asked_files(task, tests)
    read = _read_files(task)
    yield from _output_paths(asked, read)
    yield from _unknown_imports(task)
    yield from _untested_names(task, tests)


def _asked_files(task: TaskFiles, tests: str) -> list[str]:
    """Files that the instruction names, that are not there yet, and that no test names."""
    given = {PurePosixPath(path).name for path in task.below("environment/")}
    named = dict.fromkeys(match[1] for match in _FILE.finditer(task.instruction))
    unread = []
    for path in named:
        name, stem = PurePosixPath(path).name, PurePosixPath(path).stem
        if name not in given and not re.search(rf"(?<!\w){re.escape(stem)}(?!\w)", tests):
            unread.append(path)
    return unread


def _read_files(task: TaskFiles) -> list[str]:
    """Files of the workspace that the tests read and that neither instruction nor files name."""
    known = "\n".join([task.instruction, *task.below("environment/").values()])
    known += "\n".join(task.below("environment/"))
    found: dict[str, None] = {}
    for path, text in task.below("tests/").items():
        if path.endswith((".py", ".sh")):
            for match in _ABSOLUTE.finditer(text):
                if PurePosixPath(match[1]).name not in known and not _is_made(match[1], text):
                    found[match[1]] = None
    return list(found)


def _is_made(path: str, text: str) -> bool:
    """Whether the tests lay this file themselves."""
    quoted = re.escape(path)
    return bool(
        re.search(
            rf"(?:>|cp .*|mv .*|tee)\s*[\"']?{quoted}|[\"']{quoted}[\"']\s*,\s*[\"'][wxa]", text
        )
    )


def _output_paths(asked: list[str], read: list[str]) -> Iterator[Finding]:
    for path in read:
        twin = next((a for a in asked if PurePosixPath(a).suffix == PurePosixPath(path).suffix), "")
        yield hygiene(
            "output-path" if twin else "unnamed-file",
            f"the tests read {path}, the instruction names {twin}"
            if twin
            else f"the tests read {path}, which the agent is never told of",
            evidence="neither the instruction nor a file of the workspace names it",
            use="none: work that follows the instruction is not paid",
            fix="name the same path in both",
        )
    if read:
        return
    for path in asked:
        yield hygiene(
            "untested-file", f"the instruction names {path}, and no test does",
            evidence="its name occurs in no file of tests/ or heldout/",
            use="leave it out",
            fix="test it, or do not ask for it",
            strength=Strength.OBSERVATION,
        )  # fmt: skip


def _unknown_imports(task: TaskFiles) -> Iterator[Finding]:
    """Names that the tests import from the task's own modules but that nobody tells the agent."""
    environment = task.below("environment/")
    solution = task.below("solution/")
    modules = {PurePosixPath(p).stem for p in (*environment, *solution) if p.endswith(".py")}
    modules |= {PurePosixPath(p).parent.name for p in environment if p.endswith("__init__.py")}
    told = {*re.findall(r"\w+", "\n".join([task.instruction, *environment.values()]))}
    # A module of the tests' own is no module of the agent's.
    modules -= {PurePosixPath(p).stem for p in task.below("tests/")}
    for path, text in task.below("tests/").items():
        if not path.endswith(".py"):
            continue
        try:
            tree = parse(text)
        except ValueError:
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.ImportFrom) or node.module is None or node.level:
                continue
            if not {*node.module.split(".")} & modules:
                continue
            for alias in node.names:
                if alias.name != "*" and alias.name not in told and alias.name not in modules:
                    yield hygiene(
                        "unnamed-function",
                        f"{path} imports {alias.name}, which the agent is never told of",
                        evidence=f"line {node.lineno}: from {node.module} import {alias.name}; "
                        "neither the instruction nor a file of the workspace names it",
                        use="none: right work under another name is not paid",
                        fix="name it in the instruction",
                    )


def _untested_names(task: TaskFiles, tests: str) -> Iterator[Finding]:
    """Functions and flags that the instruction asks for and no test touches."""
    words = {*re.findall(r"\w+", tests)}
    given = {*re.findall(r"\w+", "\n".join(task.below("environment/").values()))}
    for name in dict.fromkeys(match[1] for match in _CALL.finditer(task.instruction)):
        if name not in words and name not in given:
            yield hygiene(
                "untested-function", f"the instruction asks for {name}, and no test touches it",
                evidence="its name occurs in no file of tests/ or heldout/",
                use="leave it out", fix="test it, or do not ask for it",
                strength=Strength.OBSERVATION,
            )  # fmt: skip
    environment = "\n".join(task.below("environment/").values())
    for flag in dict.fromkeys(match[1] for match in _FLAG.finditer(task.instruction)):
        if flag not in tests and flag not in environment:
            yield hygiene(
                "untested-flag", f"the instruction asks for {flag}, and no test uses it",
                evidence="it occurs in no file of tests/ or heldout/",
                use="leave it out", fix="test it, or do not ask for it",
                strength=Strength.OBSERVATION,
            )  # fmt: skip
