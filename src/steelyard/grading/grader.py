"""Turns a finished workspace into an Outcome."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping
from typing import Self, assert_never

from steelyard.episodes import Cause, Outcome, Unscored
from steelyard.grading.check_program import grade_check_program
from steelyard.grading.function_checks import grade_function_checks
from steelyard.grading.program_checks import grade_program_checks
from steelyard.grading.reference_checks import ReferenceAnswers, grade_reference_checks
from steelyard.grading.reward_function import grade_reward_function
from steelyard.grading.settings import GradingSettings
from steelyard.grading.test_script import grade_test_script
from steelyard.sandbox import Sandbox, SandboxError
from steelyard.tasks.task import (
    CheckProgram,
    FunctionChecks,
    ProgramChecks,
    ReferenceChecks,
    RewardFunction,
    Task,
    TestScript,
    Verifier,
)


class Grader:
    """Grades programs in a pool of sandboxes. Thread-safe; `workers` programs at a time.

    Each program runs in a child of its own with a result channel of its own, alone in its sandbox,
    which is emptied before the next. A sandbox that fails is replaced and the program tried once
    more; then it is Unscored(SANDBOX_FAILURE). SandboxUnavailable (a ValueError: this machine
    cannot sandbox) is raised, since it concerns every program.
    """

    def __init__(self, settings: GradingSettings | None = None) -> None:
        self.settings = settings or GradingSettings()
        self._idle: queue.SimpleQueue[Sandbox] = queue.SimpleQueue()
        for _ in range(self.settings.workers):
            self._idle.put(self._new_sandbox())
        self._closed = threading.Event()
        self._answers = ReferenceAnswers(self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def grade(self, task: Task, files: Mapping[str, bytes], *, heldout: bool = False) -> Outcome:
        """Grades the files of a finished workspace with the task's verifier, or its held-out one.

        Raises ValueError if the task has no such verifier or the verifier cannot say anything.
        """
        verifier = task.heldout if heldout else task.verifier
        if verifier is None:
            raise ValueError(f"task {task.name} has no held-out checks")
        sandbox = self._idle.get()
        try:
            for attempt in range(2):
                if self._closed.is_set():
                    raise RuntimeError("the grader is closed")
                if sandbox.closed:
                    sandbox = self._new_sandbox()
                try:
                    return self._grade_in(sandbox, verifier, task, files)
                except OSError as error:  # its files do not fit, no helper process could be started
                    return Unscored(Cause.INFRASTRUCTURE_FAILURE, str(error))
                except SandboxError as error:
                    sandbox.close()
                    if attempt:
                        return Unscored(Cause.SANDBOX_FAILURE, str(error))
            raise AssertionError("unreachable")
        finally:
            self._idle.put(sandbox)

    def close(self) -> None:
        """Ends every sandbox, once the programs in them are graded."""
        self._closed.set()
        sandboxes = [self._idle.get() for _ in range(self.settings.workers)]
        for sandbox in sandboxes:
            sandbox.close()
            self._idle.put(sandbox)

    def _new_sandbox(self) -> Sandbox:
        return Sandbox(self.settings.sandbox)

    def _grade_in(
        self, sandbox: Sandbox, verifier: Verifier, task: Task, files: Mapping[str, bytes]
    ) -> Outcome:
        deadline = time.monotonic() + task.verifier_timeout_seconds
        match verifier:
            case FunctionChecks():
                return grade_function_checks(sandbox, verifier, files, self.settings, deadline)
            case ProgramChecks():
                return grade_program_checks(sandbox, verifier, files, self.settings, deadline)
            case ReferenceChecks():
                return grade_reference_checks(
                    sandbox,
                    verifier,
                    files,
                    self._answers,
                    task.verifier_timeout_seconds,
                )
            case CheckProgram():
                return grade_check_program(sandbox, verifier, files, self.settings, deadline)
            case RewardFunction():
                return grade_reward_function(sandbox, verifier, task, files, deadline)
            case TestScript():
                limits = self.settings.sandbox
                return grade_test_script(verifier, files, task.verifier_timeout_seconds, limits)
        assert_never(verifier)
