"""Turns a finished workspace into an Outcome."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Self, assert_never

from steelyard.episodes import Cause, Outcome, Unscored
from steelyard.grading.check_program import grade_check_program
from steelyard.grading.function_checks import grade_function_checks
from steelyard.grading.handing_over import hand_over
from steelyard.grading.program_checks import grade_program_checks
from steelyard.grading.reference_checks import ReferenceAnswers, grade_reference_checks
from steelyard.grading.reward_function import grade_reward_function
from steelyard.grading.settings import GradingSettings
from steelyard.grading.steps import as_task, grade_in_turn
from steelyard.grading.test_script import grade_test_script
from steelyard.sandbox import Sandbox, SandboxError, SandboxSettings, packages_can_be_shown
from steelyard.tasks.task import (
    CheckProgram,
    FunctionChecks,
    ProgramChecks,
    ReferenceChecks,
    RewardFunction,
    Task,
    TaskStep,
    TestScript,
    Verifier,
)


class Grader:
    """Grades programs in a pool of sandboxes. Thread-safe; `workers` programs at a time.

    Each program runs in a child of its own with a result channel of its own, alone in its sandbox,
    which is emptied before the next. What a task's author wrote runs in sandboxes as well. A
    sandbox that fails is replaced and the program tried once more; then it is
    Unscored(SANDBOX_FAILURE). SandboxUnavailable (a ValueError: this machine cannot sandbox) is
    raised, since it concerns every program.
    """

    def __init__(self, settings: GradingSettings | None = None) -> None:
        self.settings = settings or GradingSettings()
        self._idle: queue.SimpleQueue[_Place] = queue.SimpleQueue()
        for _ in range(self.settings.workers):
            self._idle.put(_Place(self.settings.sandbox))
        self._closed = threading.Event()
        self._answers = ReferenceAnswers(self.settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def grade(self, task: Task, files: Mapping[str, bytes], *, heldout: bool = False) -> Outcome:
        """Grades the files of a finished workspace with the task's verifier, or its held-out one.

        Raises ValueError if the task has no such verifier or the verifier cannot say anything.
        Where the task has steps, each of them is graded on these files; see `grade_steps`.
        """
        verifier = task.heldout if heldout else task.verifier
        if verifier is None:
            raise ValueError(f"task {task.name} has no held-out checks")
        if task.steps and not heldout:
            return self.grade_steps(task, [files] * len(task.steps))
        return self._grade(verifier, task, files)

    def grade_steps(self, task: Task, workspaces: Sequence[Mapping[str, bytes]]) -> Outcome:
        """Grades what each step left, in order, as far as steps were finished: see grading.steps.

        One Unscored step makes the whole task Unscored. Raises ValueError like `grade`.
        """

        def grade(step: TaskStep, files: Mapping[str, bytes]) -> Outcome:
            return self._grade(step.verifier, as_task(task, step), files)

        return grade_in_turn(task, workspaces, grade)

    def _grade(self, verifier: Verifier, task: Task, files: Mapping[str, bytes]) -> Outcome:
        place = self._idle.get()
        packages = bool(task.packages) or _wants_packages(verifier)
        try:
            for attempt in range(2):
                if self._closed.is_set():
                    raise RuntimeError("the grader is closed")
                sandbox = place.sandbox(packages=packages)
                try:
                    return self._grade_in(sandbox, place.checker(), verifier, task, files)
                except OSError as error:  # its files do not fit
                    return Unscored(Cause.INFRASTRUCTURE_FAILURE, str(error))
                except SandboxError as error:
                    sandbox.close()
                    if attempt:
                        return Unscored(Cause.SANDBOX_FAILURE, str(error))
            raise AssertionError("unreachable")
        finally:
            self._idle.put(place)

    def close(self) -> None:
        """Ends every sandbox, once the programs in them are graded."""
        self._closed.set()
        places = [self._idle.get() for _ in range(self.settings.workers)]
        for place in places:
            place.close()
            self._idle.put(place)

    def _grade_in(
        self,
        sandbox: Sandbox,
        checker: Sandbox,
        verifier: Verifier,
        task: Task,
        files: Mapping[str, bytes],
    ) -> Outcome:
        limits = self.settings.sandbox.model_copy(update={"packages": bool(task.packages)})
        variables = task.environment_variables
        files = hand_over(
            task.handover, task.files, files, limits, variables, task.working_directory
        )
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
                return grade_check_program(
                    sandbox,
                    checker,
                    verifier,
                    files,
                    self.settings,
                    task.verifier_timeout_seconds,
                )
            case RewardFunction():
                return grade_reward_function(sandbox, verifier, task, files, deadline)
            case TestScript():
                return grade_test_script(
                    verifier,
                    files,
                    task.verifier_timeout_seconds,
                    limits,
                    variables=variables,
                    workspace=task.working_directory,
                )
        assert_never(verifier)


def _wants_packages(verifier: Verifier) -> bool:
    """A reward function may import what its user has installed, as far as it can be shown."""
    return isinstance(verifier, RewardFunction) and packages_can_be_shown()


class _Place:
    """Where one program is graded at a time: a sandbox, one that shows packages, and one in which
    an author's check program runs.

    Each starts when it is first used.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        self._settings = settings
        self._sandboxes: dict[str, Sandbox] = {}

    def sandbox(self, *, packages: bool) -> Sandbox:
        """The sandbox of the program, or a new one where it has been closed."""
        return self._known("with packages" if packages else "bare", packages)

    def checker(self) -> Sandbox:
        """The sandbox of the check program; it may import what is installed, if that can be shown.
        No candidate ever runs in it."""
        return self._known("checks", packages_can_be_shown())

    def _known(self, name: str, packages: bool) -> Sandbox:
        known = self._sandboxes.get(name)
        if known is None or known.closed:
            settings = self._settings.model_copy(update={"packages": packages})
            known = self._sandboxes[name] = Sandbox(settings)
        return known

    def close(self) -> None:
        for sandbox in self._sandboxes.values():
            sandbox.close()
