"""Whether a task's verifier does its job at all: the reference solves it, nothing does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from steelyard.auditing import AuditSettings
from steelyard.auditing.arena import Arena
from steelyard.auditing.baseline import baseline_findings, take_baseline
from steelyard.auditing.target import Target
from steelyard.sandbox import SandboxError
from steelyard.tasks import Task


@dataclass(frozen=True, slots=True)
class Validation:
    """One task and what is wrong with it; `problem` is empty for a sound task."""

    task: str
    problem: str


def validate_tasks(
    tasks: Sequence[Task], on_done: Callable[[], None] = lambda: None
) -> list[Validation]:
    """Grades honest work on every task, in task order: the part of an audit that comes first."""
    settings = AuditSettings(quick=True)

    def validated(task: Task) -> Validation:
        try:
            findings = baseline_findings(take_baseline(Target((task,)), arena, settings))
            problem = "; ".join(f"{f.title}: {f.evidence}" for f in findings if f.proved)
        except SandboxError as error:
            problem = str(error)
        on_done()
        return Validation(task.name, problem)

    with Arena(settings.grading) as arena, ThreadPoolExecutor(settings.grading.workers) as pool:
        return list(pool.map(validated, tasks))
