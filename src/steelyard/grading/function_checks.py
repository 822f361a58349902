"""Checks as data on one function: called in an untrusted child, compared here by exact type."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from steelyard.episodes import Check, Scored
from steelyard.grading.settings import GradingSettings
from steelyard.sandbox import Caller, Reply, ReplyKind, Sandbox
from steelyard.sandbox.wire import same
from steelyard.tasks.task import CheckSpec, FunctionChecks

_SHOWN_CHARACTERS = 100


def grade_function_checks(
    sandbox: Sandbox,
    verifier: FunctionChecks,
    files: Mapping[str, bytes],
    settings: GradingSettings,
    deadline: float,
) -> Scored:
    """Reward 1 if every check passes, else 0.

    The expected values never enter the sandbox. Whatever the program does (raise, exit, hang, fail
    to import) fails the check during which it does so; the next check then gets a fresh child.
    `deadline`, on the monotonic clock, bounds all of it: checks that it leaves untried have failed,
    and their detail says so. Raises SandboxError, and ValueError for a verifier without checks.
    """
    if not verifier.checks:
        raise ValueError(
            f"{verifier.module}: {verifier.function} has no checks, so anything would pass; "
            "give it at least one"
        )
    verdicts: list[Check] = []
    hung_calls = 0
    while len(verdicts) < len(verifier.checks):
        waiting = verifier.checks[len(verdicts) :]
        untried = _why_untried(hung_calls, settings, deadline)
        if untried:
            verdicts += [Check(spec.name, False, untried) for spec in waiting]
            break
        with sandbox.program(files, module=verifier.module, function=verifier.function) as program:
            imported = program.caller.ready(_allowed_seconds(settings, deadline))
            done: list[Check] = []
            last = imported
            if imported.kind is ReplyKind.RETURNED:
                done, last = _try_checks(program.caller, waiting, settings, deadline)
        if imported.kind is not ReplyKind.RETURNED:
            detail = _import_detail(imported, program.ending)
            verdicts += [Check(spec.name, False, detail) for spec in waiting]
            break
        if last.kind is ReplyKind.DIED and program.ending:
            done[-1] = Check(done[-1].name, False, f"{last.text} ({program.ending})")
        hung_calls += last.kind is ReplyKind.HUNG
        verdicts += done
    return Scored(float(all(check.passed for check in verdicts)), tuple(verdicts))


def _why_untried(hung_calls: int, settings: GradingSettings, deadline: float) -> str:
    if hung_calls >= settings.max_hung_calls:
        return f"not tried: {hung_calls} earlier checks gave no answer in time"
    if time.monotonic() >= deadline:
        return "not tried: the time for all checks had run out"
    return ""


def _allowed_seconds(settings: GradingSettings, deadline: float) -> float:
    return max(min(settings.call_timeout_seconds, deadline - time.monotonic()), 0.001)


def _try_checks(
    caller: Caller, specs: Sequence[CheckSpec], settings: GradingSettings, deadline: float
) -> tuple[list[Check], Reply]:
    """Calls until the checks are done or the program cannot answer any more."""
    done: list[Check] = []
    for spec in specs:
        reply = caller.call(spec.arguments, timeout_seconds=_allowed_seconds(settings, deadline))
        done.append(_judge(spec, reply))
        if not reply.usable:
            break
    return done, reply


def _judge(spec: CheckSpec, reply: Reply) -> Check:
    if reply.kind is not ReplyKind.RETURNED:
        return Check(spec.name, False, reply.text)
    if same(reply.value, spec.expected):
        return Check(spec.name, True)
    return Check(spec.name, False, f"returned {_show(reply.value)}, not {_show(spec.expected)}")


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"


def _import_detail(imported: Reply, ending: str) -> str:
    if imported.kind is ReplyKind.RAISED:
        return f"could not be imported: {imported.text}"
    return f"could not be imported: {imported.text}{f' ({ending})' if ending else ''}"
