"""Hands a submission in as an agent would, to the real grader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import TracebackType
from typing import Self

from steelyard.auditing.submission import Submission
from steelyard.episodes import Cause, Outcome, Unscored
from steelyard.grading import Grader, GradingSettings
from steelyard.grading.test_script import grade_test_script, script_sandbox
from steelyard.sandbox import SandboxError, SandboxPool
from steelyard.tasks import Task, TestScript

_COMMAND_SECONDS = 20.0


def is_ours(outcome: Outcome) -> bool:
    """Whether this machine failed, which says nothing of what was graded."""
    failures = (Cause.SANDBOX_FAILURE, Cause.INFRASTRUCTURE_FAILURE)
    return isinstance(outcome, Unscored) and outcome.cause in failures


class Arena:
    """The grader under attack, and sandboxes for the agent. Thread-safe.

    With `shared`, a test script runs in the sandbox that the agent has used, as in Harbor's default
    mode; otherwise in a fresh one, as in training.
    """

    def __init__(self, settings: GradingSettings, *, shared: bool = False) -> None:
        self._settings = settings
        self._grader = Grader(settings)
        self._sandboxes = SandboxPool(settings.sandbox)
        self._shared = shared

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._grader.close()
        self._sandboxes.close()

    def grade(
        self, submission: Submission, *, timeout_seconds: float | None = None
    ) -> Outcome | None:
        """The outcome; None where the submission needs a shared sandbox and there is none."""
        task = submission.task
        if timeout_seconds is not None:
            seconds = min(timeout_seconds, task.verifier_timeout_seconds)
            task = replace(task, verifier_timeout_seconds=seconds)
        if submission.environment:
            variables = {**task.environment_variables, **submission.environment}
            task = replace(task, environment_variables=variables)
        if self._shared and isinstance(task.verifier, TestScript):
            return self._grade_shared(task, task.verifier, submission)
        if submission.shared_only:
            return None
        if submission.workspaces:
            return self._grader.grade_steps(task, submission.workspaces)
        files = submission.files
        if submission.commands:
            files = self._after_commands(submission)
        return self._grader.grade(task, files)

    def grade_heldout(self, task: Task, files: Mapping[str, bytes]) -> Outcome:
        """The outcome of the task's held-out checks."""
        return self._grader.grade(task, files, heldout=True)

    def _after_commands(self, submission: Submission) -> Mapping[str, bytes]:
        sandbox = self._sandboxes.take(submission.task.working_directory)
        try:
            sandbox.put(submission.files)
            sandbox.run(["sh", "-c", submission.commands], timeout_seconds=_COMMAND_SECONDS)
            return sandbox.collect()
        finally:
            self._sandboxes.give_back(sandbox)

    def _grade_shared(self, task: Task, verifier: TestScript, submission: Submission) -> Outcome:
        limits = self._settings.sandbox.model_copy(update={"packages": bool(task.packages)})
        try:
            with script_sandbox(limits, task.working_directory) as sandbox:
                sandbox.put(submission.files)
                if submission.commands:
                    sandbox.run(
                        ["sh", "-c", submission.commands],
                        timeout_seconds=_COMMAND_SECONDS,
                        keep_background=True,
                    )
                return grade_test_script(
                    verifier,
                    submission.files,
                    task.verifier_timeout_seconds,
                    limits,
                    variables=task.environment_variables,
                    workspace=task.working_directory,
                    shared=sandbox,
                )
        except (SandboxError, OSError) as error:
            return Unscored(Cause.SANDBOX_FAILURE, str(error))
