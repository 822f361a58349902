"""Whether a task's verifier does its job at all: the reference solves it, nothing does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from steelyard.episodes import Outcome, Unscored
from steelyard.grading import Grader
from steelyard.tasks import Task


@dataclass(frozen=True, slots=True)
class Validation:
    """One task and what is wrong with it; `problem` is empty for a sound task."""

    task: str
    problem: str


def validate_tasks(
    tasks: Sequence[Task], on_done: Callable[[], None] = lambda: None
) -> list[Validation]:
    """Grades the reference solution and the untouched files of every task, in task order."""
    grader = Grader()
    try:
        with ThreadPoolExecutor(grader.settings.workers) as pool:
            return list(pool.map(lambda task: _validated(task, grader, on_done), tasks))
    finally:
        grader.close()


def _validated(task: Task, grader: Grader, on_done: Callable[[], None]) -> Validation:
    problem = _reference_problem(task, grader) or _untouched_problem(task, grader)
    on_done()
    return Validation(task.name, problem)


def _reference_problem(task: Task, grader: Grader) -> str:
    if task.steps:
        return _steps_problem(task, grader)
    if task.solution is None:
        return ""  # nothing to prove it with
    files = {**task.files, **task.solution}
    for suite in _suites(task):
        outcome = grader.grade(task, files, heldout=suite == "held-out checks")
        if problem := _not_solved(outcome):
            return f"the reference solution does not pass the {suite}: {problem}"
    return ""


def _steps_problem(task: Task, grader: Grader) -> str:
    if any(step.solution is None for step in task.steps):
        return ""
    workspaces: list[Mapping[str, bytes]] = []
    files = dict(task.files)
    for step in task.steps:
        files = {**files, **step.files, **(step.solution or {})}
        workspaces.append(files)
    problem = _not_solved(grader.grade_steps(task, workspaces))
    if problem:
        return f"the reference solutions of the steps do not pass: {problem}"
    if task.heldout is None:
        return ""
    problem = _not_solved(grader.grade(task, files, heldout=True))
    return f"the reference solution does not pass the held-out checks: {problem}" * bool(problem)


def _untouched_problem(task: Task, grader: Grader) -> str:
    outcome = grader.grade(task, _nothing(task))
    if isinstance(outcome, Unscored):
        return f"the verifier fails on untouched files: {outcome.cause.value}: {outcome.detail}"
    if outcome.solved:
        return "doing nothing is paid the full reward"
    return ""


def _nothing(task: Task) -> Mapping[str, bytes]:
    """What an agent that does nothing leaves: the files as they were, or an empty answer."""
    if task.answer is None:
        return task.files
    return {**task.files, task.answer.path: b""}


def _suites(task: Task) -> list[str]:
    return ["checks"] if task.heldout is None else ["checks", "held-out checks"]


def _not_solved(outcome: Outcome) -> str:
    if isinstance(outcome, Unscored):
        return f"{outcome.cause.value}: {outcome.detail}"
    if outcome.solved:
        return ""
    failed = [check for check in outcome.checks if not check.passed]
    if not failed:
        return f"reward {outcome.reward:g}"
    return "; ".join(f"{check.name}: {check.detail}" for check in failed[:3])
