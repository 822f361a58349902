"""The trusted helper of a check program: runs `check(candidate)` in a process of its own.

`candidate` is a proxy: each call goes to the untrusted child and comes back as plain data, so
nothing of the candidate ever runs here. A bare interpreter starts this file (see check_program.py)
with the child's channel as an inherited descriptor; the request is JSON on stdin, the verdict JSON
on stdout. Standard library only.
"""

from __future__ import annotations

import builtins
import json
import os
import random
import signal
import socket
import sys
import time
import traceback
from types import TracebackType
from typing import Any, NoReturn

from steelyard.sandbox.calling import Caller, Reply, ReplyKind

_FILE_NAME = "<check program>"
_ALARM_GRACE_SECONDS = 5


class CandidateFailed(BaseException):
    """The candidate cannot be called any more. Not an Exception: no `except` of a check is meant
    to catch it."""


class Candidate:
    """What the check program calls."""

    def __init__(self, caller: Caller, call_timeout_seconds: float, deadline: float) -> None:
        self._caller = caller
        self._call_timeout_seconds = call_timeout_seconds
        self._deadline = deadline
        self._ready = False
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if not self._ready:
            imported = self._caller.ready(self._allowed_seconds())
            if imported.kind is not ReplyKind.RETURNED:
                raise CandidateFailed(f"could not be imported: {imported.text}")
            self._ready = True
        reply = self._caller.call(args, kwargs, timeout_seconds=self._allowed_seconds())
        if reply.kind is ReplyKind.RETURNED:
            return reply.value
        if reply.kind is ReplyKind.RAISED:
            _raise_like(reply)
        raise CandidateFailed(reply.text)

    def _allowed_seconds(self) -> float:
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise CandidateFailed("the time for all calls had run out")
        return min(self._call_timeout_seconds, remaining)


def _raise_like(reply: Reply) -> NoReturn:
    """Raises the built-in exception that the candidate raised, so that a check may expect it."""
    kind = getattr(builtins, reply.exception, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            error = kind(reply.message)
        except TypeError:  # UnicodeDecodeError takes five arguments
            raise CandidateFailed(reply.text) from None
        raise error
    raise CandidateFailed(reply.text)


def main() -> None:
    """Reads the request, runs the check, writes [verdict, detail]."""
    verdict_fd = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 1)  # what the check prints is not the verdict
    request = json.load(sys.stdin)
    signal.alarm(int(request["timeout_seconds"]) + _ALARM_GRACE_SECONDS)  # if nobody kills us
    candidate = Candidate(
        Caller(socket.socket(fileno=request["channel"])),
        request["call_timeout_seconds"],
        time.monotonic() + request["timeout_seconds"],
    )
    os.write(verdict_fd, json.dumps(_run(request["source"], candidate)).encode())


def _run(source: str, candidate: Candidate) -> tuple[str, str]:
    """The verdict: "passed", "failed" (the candidate's fault) or "broken" (the check's own)."""
    random.seed(0)  # a check that draws its inputs then gives one program one verdict
    namespace: dict[str, Any] = {"__name__": "check_program"}
    try:
        exec(compile(source, _FILE_NAME, "exec"), namespace)
        check = namespace["check"]
    except BaseException as error:
        return "broken", f"the check program could not be loaded: {_describe(error)}"
    try:
        check(candidate)
    except CandidateFailed as error:
        return "failed", str(error)
    except BaseException as error:
        # With the reference the check runs through (`steelyard validate` sees to it), so once
        # the candidate has been called, an exception here stems from what it returned.
        verdict = "failed" if candidate.calls else "broken"
        return verdict, _describe(error, source)
    if not candidate.calls:
        return "broken", "the check program never called the candidate"
    return "passed", ""


def _describe(error: BaseException, source: str = "") -> str:
    text = traceback.format_exception_only(error)[-1].strip()
    line = _line_of(error.__traceback__, source)
    return (f"{text} at: {line}" if line else text)[:500]


def _line_of(trace: TracebackType | None, source: str) -> str:
    numbers = [n for frame, n in traceback.walk_tb(trace) if frame.f_code.co_filename == _FILE_NAME]
    lines = source.splitlines()
    return lines[numbers[-1] - 1].strip() if numbers and numbers[-1] <= len(lines) else ""
