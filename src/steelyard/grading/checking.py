"""Runs an author's `check(candidate)` in a sandbox of its own, where the candidate is not.

This file is laid in that sandbox and answers on its program's channel (see sandbox/answering.py).
`candidate` is a stand-in: each of its calls is sent out as the answer to the trainer's request, and
the trainer's next request brings what the candidate returned, in its own sandbox, as plain data.
Standard library only.
"""

from __future__ import annotations

import builtins
import random
import socket
import traceback
from types import TracebackType
from typing import Any, NoReturn

from steelyard.sandbox.wire import decode, encode, receive_frame, send_frame

_CHANNEL = 3
"""The descriptor on which the supervisor gives a program its channel."""
_MAX_ANSWER_BYTES = 64 << 20
_FILE_NAME = "<check program>"


class CandidateFailed(BaseException):
    """The candidate raised what cannot be raised here. Not an Exception: no `except` of a check is
    meant to catch it."""


class Candidate:
    """What the check program calls."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self.calls = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        send_frame(self._channel, ["returned", encode(["call", list(args), kwargs])])
        request, _ = receive_frame(self._channel, _MAX_ANSWER_BYTES)
        ((kind, *content),) = decode(request["args"])
        if kind == "raised":
            _raise_like(*content)
        return content[0]


def _raise_like(exception: str, message: str, text: str) -> NoReturn:
    """Raises the built-in exception that the candidate raised, so that a check may expect it."""
    kind = getattr(builtins, exception, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            error = kind(message)
        except TypeError:  # UnicodeDecodeError takes five arguments
            raise CandidateFailed(text) from None
        raise error
    raise CandidateFailed(text)


def run_check(source: str) -> list[str]:
    """["verdict", VERDICT, detail]: "passed", "failed" (the candidate's fault) or "broken" (the
    check's own)."""
    with socket.socket(fileno=_CHANNEL) as channel:
        try:
            return ["verdict", *_run(source, Candidate(channel))]
        finally:
            channel.detach()  # it is not ours to close


def _run(source: str, candidate: Candidate) -> tuple[str, str]:
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
