"""The forms of checks.json beside function checks: programs, and a reference implementation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steelyard.tasks import (
    ProgramCheck,
    ProgramChecks,
    ReferenceChecks,
    Task,
    read_task,
    read_task_directory,
    write_task,
    write_task_directory,
)
from steelyard.tasks.checks import dump_checks, parse_checks

PROGRAM = ProgramChecks(
    ("python3", "tool.py"),
    (
        ProgramCheck("plain", stdout="1\n"),
        ProgramCheck("any output", ("--quiet",)),
        ProgramCheck(
            "all",
            ("a", "é"),
            "in\n",
            {"in.txt": "x", "d/y.txt": ""},
            "1.5",
            3,
            {"out.txt": "1.5\n"},
            "numbers",
            0.01,
        ),
        ProgramCheck("zero tolerance", stdout="1", comparison="numbers"),
        ProgramCheck("json", stdout='{"a": 1}', comparison="json"),
    ),
)
REFERENCE = ReferenceChecks(
    "m.py",
    "f",
    "reference.py",
    "lib/inputs.py",
    {"reference.py": b"def f(x): return x", "lib/inputs.py": b"def inputs(seed): return [[1]]"},
    7,
)


@pytest.mark.parametrize("checks", [PROGRAM, REFERENCE], ids=["program", "reference"])
def test_what_is_written_is_read_back(
    tmp_path: Path, checks: ProgramChecks | ReferenceChecks
) -> None:
    files = {"tool.py": b"print(1)\n", "m.py": b"def f(x): ...\n"}
    task = Task("t", "Do it.", checks, files, heldout=checks, solution={"m.py": b"x = 1\n"})
    write_task(task, tmp_path / "one")
    read = read_task_directory(tmp_path / "one")
    assert read.task.verifier == read.task.heldout == checks
    write_task_directory(read, tmp_path / "two")
    assert read_task(tmp_path / "two").verifier == checks
    names = {p.relative_to(tmp_path / "two").as_posix() for p in (tmp_path / "two").rglob("*.py")}
    assert ("tests/reference.py" in names) == isinstance(checks, ReferenceChecks)


def test_defaults_are_left_out() -> None:
    data = json.loads(dump_checks(PROGRAM))
    assert data["checks"][0] == {"name": "plain", "expected": {"stdout": "1\n"}}
    assert data["checks"][1] == {"name": "any output", "arguments": ["--quiet"], "expected": {}}
    assert data["checks"][3]["compare"] == {"numbers": 0.0}


def program(**changes: Any) -> dict[str, Any]:
    check = {"name": "a", "expected": {"stdout": "x"}} | changes
    return {"command": ["python3", "tool.py"], "checks": [check]}


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        ({"command": [], "checks": []}, r"command = \[\] is not valid; give the words"),
        ({"command": ["x"], "checks": []}, r"checks = \[\] is not valid; give a list of at least"),
        (program(arguments=[1]), r"checks\[0\].arguments\[0\] = 1 is not valid"),
        (program(compare="fuzzy"), 'compare = .fuzzy. is not valid; give "exact", "lines"'),
        (program(compare={"numbers": -1}), r"numbers = -1 is not valid; give the largest"),
        (program(files={"../x": ""}), r"'../x' is not the name of a file"),
        (program(files={"/x": ""}), r"'/x' is not the name of a file"),
        (program(files={"./x": ""}), r"'./x' is not the name of a file"),
        (program(expected={"files": {"": ""}}), r"'' is not the name of a file"),
        (program(compare="json"), r"checks\[0\] = .* is not valid"),
        (program(expected={"exit": 1}), r"expected.exit is not a known key"),
        (program(module="m.py") | {"module": "m.py"}, "module is not a known key"),
        ({"command": ["x"], "checks": program()["checks"] * 2}, "the name 'a' occurs 2 times"),
        ({"module": "m.py", "function": "f", "reference": "r.py"}, "inputs is missing"),
        (
            {"module": "m.py", "function": "f", "reference": "r.py", "inputs": "i.py"},
            "inputs = 'i.py' names no file beside it",
        ),
    ],
)
def test_a_malformed_file_is_named(data: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_checks(json.dumps(data).encode(), "checks.json", {"r.py": b""})


def test_a_program_that_nobody_has_is_named(tmp_path: Path) -> None:
    task = Task("t", "Do it.", PROGRAM, {"other.py": b""}, solution={"other.py": b"x = 1\n"})
    write_task(task, tmp_path / "t")
    with pytest.raises(ValueError, match=r"the checks call tool.py, .* correct command"):
        read_task(tmp_path / "t")
