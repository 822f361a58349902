"""Checks by reference: what a trusted implementation returns is what must be returned."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from typing import Any

from steelyard.episodes import Cause, Outcome, Unscored
from steelyard.grading.function_checks import grade_function_checks
from steelyard.grading.settings import GradingSettings
from steelyard.sandbox import Reply, ReplyKind, Sandbox
from steelyard.sandbox.wire import same
from steelyard.tasks.task import CheckSpec, FunctionChecks, ReferenceChecks

_SHOWN_CHARACTERS = 60


class _BrokenReference(Exception):
    """The reference or the inputs are at fault; the sentence says which and how."""


class ReferenceAnswers:
    """What references return, computed once for each in a sandbox of its own. Thread-safe."""

    def __init__(self, settings: GradingSettings) -> None:
        self.settings = settings
        self._known: dict[str, FunctionChecks] = {}
        self._lock = threading.Lock()

    def checks(self, verifier: ReferenceChecks, timeout_seconds: float) -> FunctionChecks:
        """The inputs with the reference's answers.

        Raises _BrokenReference, SandboxError, and OSError if the files do not fit.
        """
        key = _key(verifier)
        with self._lock:
            if key not in self._known:
                with Sandbox(self.settings.sandbox) as sandbox:
                    deadline = time.monotonic() + timeout_seconds
                    self._known[key] = _answered(sandbox, verifier, self.settings, deadline)
            return self._known[key]


def grade_reference_checks(
    sandbox: Sandbox,
    verifier: ReferenceChecks,
    files: Mapping[str, bytes],
    answers: ReferenceAnswers,
    timeout_seconds: float,
) -> Outcome:
    """Reward 1 if the candidate returns what the reference does for every input, else 0.

    Graded as FunctionChecks are; `timeout_seconds` is for the candidate, and as much again for the
    reference. A reference that raises, hangs or returns what cannot be compared, and inputs that
    are no list of argument lists, are Unscored(VERIFIER_ERROR). Raises SandboxError.
    """
    try:
        checks = answers.checks(verifier, timeout_seconds)
    except _BrokenReference as error:
        return Unscored(Cause.VERIFIER_ERROR, str(error))
    deadline = time.monotonic() + timeout_seconds
    return grade_function_checks(sandbox, checks, files, answers.settings, deadline)


def _answered(
    sandbox: Sandbox, verifier: ReferenceChecks, settings: GradingSettings, deadline: float
) -> FunctionChecks:
    made = _call(
        sandbox, verifier, verifier.inputs, "inputs", [[verifier.seed]], settings, deadline
    )
    arguments = _read_inputs(made[0], verifier.inputs)
    expected = _call(
        sandbox, verifier, verifier.reference, verifier.function, arguments, settings, deadline
    )
    specs = tuple(
        CheckSpec(f"{number}: {_show(given)}", given, value)
        for number, (given, value) in enumerate(zip(arguments, expected, strict=True), start=1)
    )
    return FunctionChecks(verifier.module, verifier.function, specs)


def _call(
    sandbox: Sandbox,
    verifier: ReferenceChecks,
    module: str,
    function: str,
    calls: list[Any],
    settings: GradingSettings,
    deadline: float,
) -> list[Any]:
    """What a trusted function returns for each list of arguments, in a child of its own."""

    def allowed_seconds() -> float:
        return max(min(settings.call_timeout_seconds, deadline - time.monotonic()), 0.001)

    values: list[Any] = []
    with sandbox.program(verifier.files, module=module, function=function) as program:
        _require(program.caller.ready(allowed_seconds()), f"{module} could not be imported")
        for arguments in calls:
            reply = program.caller.call(arguments, timeout_seconds=allowed_seconds())
            what = f"{module}: {function}{_show(arguments)}"
            _require(reply, what)
            if not same(reply.value, reply.value):
                raise _BrokenReference(f"{what} returned NaN, which equals nothing")
            values.append(reply.value)
    return values


def _require(reply: Reply, what: str) -> None:
    if reply.kind is not ReplyKind.RETURNED:
        raise _BrokenReference(f"{what}: {reply.text}")


def _read_inputs(made: Any, module: str) -> list[Any]:
    if type(made) not in (list, tuple) or not made:
        raise _BrokenReference(f"{module}: inputs returned {made!r:.80}, not a list of inputs")
    for given in made:
        if type(given) not in (list, tuple):
            raise _BrokenReference(
                f"{module}: inputs returned {given!r:.80} among the argument lists, not a list"
            )
    return [tuple(given) for given in made]


def _key(verifier: ReferenceChecks) -> str:
    named = (verifier.module, verifier.function, verifier.reference, verifier.inputs, verifier.seed)
    return hashlib.sha256(repr((named, sorted(verifier.files.items()))).encode()).hexdigest()


def _show(arguments: Any) -> str:
    text = f"({', '.join(map(repr, arguments))})"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
