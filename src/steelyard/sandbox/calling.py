"""The trusted end of a program's channel: calls a function that runs in an untrusted child."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from steelyard.sandbox.frames import FrameError
from steelyard.sandbox.wire import decode, encode, receive_frame, send_frame

MAX_REPLY_BYTES = 4 << 20
"""Largest answer that is read from a program, unless its caller says otherwise."""


class ReplyKind(Enum):
    """How a call ended."""

    RETURNED = "returned"
    RAISED = "raised"
    UNREADABLE = "unreadable"
    """It returned an object that is not plain data, or wrote nonsense into its channel."""
    HUNG = "hung"
    """No answer in time: the program must be ended, for a late answer would be taken for the
    next."""
    DIED = "died"


@dataclass(frozen=True)
class Reply:
    """The end of one call: the `value` that was returned, or `text` that says what happened.

    `exception` and `message` are the exception's type name and text where one was raised.
    """

    kind: ReplyKind
    value: Any = None
    text: str = ""
    exception: str = ""
    message: str = ""

    @property
    def usable(self) -> bool:
        """Whether the program can be called again after this reply."""
        return self.kind not in (ReplyKind.HUNG, ReplyKind.DIED)


class Caller:
    """Calls one function of one program. Not thread-safe. A longer answer than `max_reply_bytes`
    is HUNG."""

    def __init__(self, channel: socket.socket, max_reply_bytes: int = MAX_REPLY_BYTES) -> None:
        self._channel = channel
        self._max_reply_bytes = max_reply_bytes
        self.gone = False
        """Whether the program has closed its channel."""

    def ready(self, timeout_seconds: float) -> Reply:
        """Waits until the program's module is imported: RETURNED if it is and has the function."""
        return self._receive(time.monotonic() + timeout_seconds, "while it was imported")

    def call(
        self,
        arguments: Sequence[Any],
        keywords: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float,
    ) -> Reply:
        """Calls the function with fresh copies of the arguments.

        Raises UnsupportedValue if an argument is not plain data.
        """
        deadline = time.monotonic() + timeout_seconds
        request = {"args": encode(list(arguments)), "kwargs": encode(dict(keywords or {}))}
        try:
            self._channel.settimeout(max(timeout_seconds, 0.001))
            send_frame(self._channel, request)
        except TimeoutError:
            return _HUNG
        except OSError:
            self.gone = True
            return Reply(ReplyKind.DIED, text="the program ended before this call")
        return self._receive(deadline, "during the call")

    def _receive(self, deadline: float, when: str) -> Reply:
        try:
            message, _ = receive_frame(self._channel, self._max_reply_bytes, deadline)
            return _read_reply(message)
        except TimeoutError:
            return _HUNG
        except (EOFError, ConnectionError):
            self.gone = True
            return Reply(ReplyKind.DIED, text=f"the program ended {when}")
        except FrameError as error:
            # The frame's end is unknown, so nothing after it can be trusted to be an answer.
            return Reply(ReplyKind.HUNG, text=f"unreadable answer: {error}")


_HUNG = Reply(ReplyKind.HUNG, text="no answer in time")


def _read_reply(message: Any) -> Reply:
    """Reads what the child sent; the child may have been taken over, so nothing is assumed."""
    if isinstance(message, list) and len(message) == 2 and message[0] == "returned":
        return Reply(ReplyKind.RETURNED, value=decode(message[1]))
    if isinstance(message, list) and all(isinstance(part, str) for part in message):
        if len(message) == 3 and message[0] == "raised":
            name, text = message[1][:80], message[2][:300]
            shown = f"raised {name}: {text}" if text else f"raised {name}"
            return Reply(ReplyKind.RAISED, text=shown, exception=name, message=text)
        if len(message) == 2 and message[0] == "unreadable":
            return Reply(ReplyKind.UNREADABLE, text=f"returned an object of type {message[1][:80]}")
    raise FrameError("not an answer")
