"""JSON frames and values on a socket between a trusted and an untrusted side.

A value is a tree of
plain Python data, encoded so that every type survives exactly and nothing else can be expressed:
no pickle, no classes. Standard library only: this file also runs inside sandboxes.
"""

from __future__ import annotations

import json
import socket
from typing import Any

from steelyard.sandbox.frames import FrameError, receive_bytes, send_bytes

_SCALARS = (type(None), bool, int, float, str)
MAX_DEPTH = 64
"""How deeply an encoded value may be nested."""
MAX_INTEGER_BITS = 14_000
"""Longest integer: Python itself refuses to read more than 4,300 decimal digits."""


class UnsupportedValue(ValueError):
    """A value that the encoding does not carry; `type_name` is its type, or what was wrong."""

    def __init__(self, type_name: str) -> None:
        super().__init__(type_name)
        self.type_name = type_name


def send_frame(sock: socket.socket, header: Any, blob: bytes = b"") -> None:
    """Sends one frame. Raises OSError (TimeoutError) if the other side is gone or does not read."""
    send_bytes(sock, json.dumps(header, separators=(",", ":")).encode(), blob)


def receive_frame(
    sock: socket.socket, max_bytes: int, deadline: float | None = None
) -> tuple[Any, bytes]:
    """Receives one frame of at most `max_bytes`, before `deadline` on the monotonic clock.

    Raises EOFError if the other side closed, TimeoutError, or FrameError.
    """
    text, blob = receive_bytes(sock, max_bytes, deadline)
    try:
        return json.loads(text), blob
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame whose header is not JSON: {error}") from None


def encode(value: Any, depth: int = 0) -> Any:
    """Encodes None, bool, int, float, str, list, tuple, dict, set and bytes for JSON.

    Types must be exact: a subclass of int is not an int. Raises UnsupportedValue.
    """
    kind = type(value)
    if kind is int and value.bit_length() > MAX_INTEGER_BITS:
        raise UnsupportedValue(f"int of {value.bit_length()} bits")
    if kind in _SCALARS:
        return value
    if depth >= MAX_DEPTH:
        raise UnsupportedValue(f"data nested deeper than {MAX_DEPTH} levels")
    if kind is list:
        return ["list", *(encode(item, depth + 1) for item in value)]
    if kind is tuple:
        return ["tuple", *(encode(item, depth + 1) for item in value)]
    if kind is set:
        return ["set", *(encode(item, depth + 1) for item in value)]
    if kind is dict:
        return ["dict", *([encode(k, depth + 1), encode(v, depth + 1)] for k, v in value.items())]
    if kind is bytes:
        return ["bytes", value.hex()]
    raise UnsupportedValue(kind.__name__)


def decode(data: Any) -> Any:
    """The value that `encode` encoded. Raises FrameError on anything that it cannot have made."""
    try:
        return _decode(data)
    except (TypeError, ValueError, RecursionError) as error:  # unhashable set items, bad hex
        raise FrameError(f"not an encoded value: {error}") from None


def _decode(data: Any) -> Any:
    if type(data) in _SCALARS:
        return data
    if type(data) is not list or not data:
        raise ValueError("neither a scalar nor a tagged list")
    tag, items = data[0], data[1:]
    if tag == "list":
        return [_decode(item) for item in items]
    if tag == "tuple":
        return tuple(_decode(item) for item in items)
    if tag == "set":
        return {_decode(item) for item in items}
    if tag == "dict":
        return {_decode(key): _decode(value) for key, value in items}
    if tag == "bytes" and len(items) == 1:
        return bytes.fromhex(items[0])
    raise ValueError(f"unknown tag {tag!r:.40}")


def same(left: Any, right: Any) -> bool:
    """Whether two values are equal and of exactly the same types all the way down.

    1, 1.0 and True are three different values; a tuple is not a list; NaN equals nothing.
    """
    return bool(_canonical(left) == _canonical(right))


def _canonical(value: Any) -> Any:
    kind = type(value)
    if kind in (list, tuple):
        return (kind, tuple(_canonical(item) for item in value))
    if kind is set:
        return (kind, frozenset(_canonical(item) for item in value))
    if kind is dict:
        return (kind, frozenset((_canonical(k), _canonical(v)) for k, v in value.items()))
    if kind is float and value != value:
        return (kind, object())  # a tuple compares by identity first, and NaN equals nothing
    if kind in _SCALARS or kind is bytes:
        return (kind, value)
    raise UnsupportedValue(kind.__name__)
