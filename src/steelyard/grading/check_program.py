"""A check program (HumanEval's form): it runs in one sandbox, the candidate in another."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steelyard.episodes import Cause, Check, Outcome, Scored, Unscored
from steelyard.grading import checking
from steelyard.grading.settings import GradingSettings
from steelyard.sandbox import Caller, Reply, ReplyKind, Sandbox
from steelyard.sandbox.wire import UnsupportedValue
from steelyard.tasks.task import CheckProgram

_GRACE_SECONDS = 2.0
"""For a check to notice that its candidate's time is over."""
_CHECKING = "_steelyard_checking.py"
_MAX_ARGUMENTS_BYTES = 64 << 20
"""A check's arguments are its program's answer; a candidate is called with as much and no more."""


def grade_check_program(
    sandbox: Sandbox,
    checker: Sandbox,
    verifier: CheckProgram,
    files: Mapping[str, bytes],
    settings: GradingSettings,
    timeout_seconds: float,
) -> Outcome:
    """Reward 1 if `check(candidate)` returns, else 0; one Check named "check".

    The check runs in `checker`, the candidate in `sandbox`; the trainer carries calls and answers
    between them as plain data, and runs neither.

    A failed assertion, an exception that the candidate raised, a candidate that exits or gives no
    answer in time, and an exception in the check after the candidate was called (TypeError on a
    None that it returned) are failures of the candidate. A check program that cannot be loaded,
    fails before it calls the candidate or never calls it is Unscored(VERIFIER_ERROR).

    The time begins when both sandboxes are ready. That it runs out is the candidate's failure if
    the check has waited for the candidate for half of it or more, and otherwise, or if the check
    is still running by itself, Unscored(VERIFIER_TIMEOUT). Raises SandboxError.
    """
    ours = {_CHECKING: Path(checking.__file__).read_bytes()}
    with (
        checker.program(
            ours,
            module=_CHECKING,
            function="run_check",
            max_reply_bytes=_MAX_ARGUMENTS_BYTES,
        ) as check,
        sandbox.program(files, module=verifier.module, function=verifier.function) as program,
    ):
        outcome = _played(check.caller, program.caller, verifier.source, settings, timeout_seconds)
    if outcome is None:
        ending = f" ({check.ending})" if check.ending else ""
        return Unscored(Cause.VERIFIER_ERROR, f"the check program's process ended{ending}")
    return outcome


class _Candidate:
    """The program that is checked: imported at its first call, answered within the time left."""

    def __init__(self, caller: Caller, call_timeout_seconds: float, deadline: float) -> None:
        self._caller = caller
        self._call_timeout_seconds = call_timeout_seconds
        self._deadline = deadline
        self._ready = False
        self.seconds = 0.0
        """How long the check has waited for it."""

    def call(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Reply:
        """RETURNED or RAISED; any other kind says that it cannot be called any more."""
        started = time.monotonic()
        if started >= self._deadline:
            return Reply(ReplyKind.HUNG, text="the time for all calls had run out")
        try:
            return self._called(arguments, keywords)
        finally:
            self.seconds += time.monotonic() - started

    def _called(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Reply:
        if not self._ready:
            imported = self._caller.ready(self._allowed_seconds())
            if imported.kind is not ReplyKind.RETURNED:
                hung = imported.kind is ReplyKind.HUNG
                kind = ReplyKind.HUNG if hung else ReplyKind.DIED
                return Reply(kind, text=f"could not be imported: {imported.text}")
            self._ready = True
        return self._caller.call(arguments, keywords, timeout_seconds=self._allowed_seconds())

    def _allowed_seconds(self) -> float:
        return max(min(self._call_timeout_seconds, self._deadline - time.monotonic()), 0.001)


def _played(
    check: Caller,
    program: Caller,
    source: str,
    settings: GradingSettings,
    timeout_seconds: float,
) -> Outcome | None:
    """Carries calls and answers until the check has its verdict; None if its process ended."""
    reply = check.ready(settings.sandbox.start_timeout_seconds)  # so far it has only our own file
    deadline = time.monotonic() + timeout_seconds
    candidate = _Candidate(program, settings.call_timeout_seconds, deadline)

    def over() -> bool:
        return time.monotonic() >= deadline

    def seconds() -> float:
        return max(deadline - time.monotonic(), 0.0) + _GRACE_SECONDS

    if reply.kind is ReplyKind.RETURNED:
        reply = check.call((source,), timeout_seconds=seconds())
    while reply.kind is ReplyKind.RETURNED:
        match reply.value:
            case ["call", list(arguments), dict(keywords)]:
                try:
                    answer = candidate.call(arguments, keywords)
                except UnsupportedValue as error:  # its stand-in for the candidate sends no such
                    detail = f"the check program called its candidate with {error.type_name}"
                    return Unscored(Cause.VERIFIER_ERROR, detail)
            case ["verdict", "passed" | "failed" as verdict, str(detail)]:
                return _scored(verdict == "passed", detail)
            case ["verdict", "broken", str(detail)]:
                return Unscored(Cause.VERIFIER_ERROR, detail)
            case other:
                return Unscored(Cause.VERIFIER_ERROR, f"the check program answered {other!r:.80}")
        if answer.kind is ReplyKind.RETURNED:
            told: list[Any] = ["returned", answer.value]
        elif answer.kind is ReplyKind.RAISED:
            told = ["raised", answer.exception, answer.message, answer.text]
        elif answer.kind is ReplyKind.HUNG and over() and candidate.seconds < timeout_seconds / 2:
            return Unscored(Cause.VERIFIER_TIMEOUT, "the check program left its candidate no time")
        else:  # whatever the check would make of it
            return _scored(False, answer.text)
        try:
            reply = check.call((told,), timeout_seconds=seconds())
        except UnsupportedValue as error:
            return _scored(False, f"returned {error.type_name}")
    if reply.kind is ReplyKind.DIED:
        return None
    if reply.kind is ReplyKind.HUNG and over():
        return Unscored(Cause.VERIFIER_TIMEOUT, "the check program did not come to an end")
    return Unscored(Cause.VERIFIER_ERROR, f"the check program: {reply.text}")


def _scored(passed: bool, detail: str) -> Scored:
    return Scored(float(passed), (Check("check", passed, detail),))
