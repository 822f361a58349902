"""Frames on a socket between the trainer and a sandbox, and what the two say to each other.

A frame is two big-endian 32-bit lengths, a header and a blob of bytes. Standard library only, and
little of it: the supervisor imports this before a sandbox is ready.
"""

from __future__ import annotations

import marshal
import struct
import time

TYPE_CHECKING = False
if TYPE_CHECKING:  # every module that is imported here delays every sandbox
    import socket
    from collections.abc import Mapping
    from typing import Any

_LENGTHS = struct.Struct(">II")
_MARSHAL_VERSION = 4  # that of every Python since 3.4


class FrameError(ValueError):
    """The other side sent something that is not a frame of ours."""


def send_bytes(sock: socket.socket, header: bytes, blob: bytes = b"") -> None:
    """Sends one frame. Raises OSError (TimeoutError) if the other side is gone or does not read."""
    sock.sendall(_LENGTHS.pack(len(header), len(blob)) + header + blob)


def receive_bytes(
    sock: socket.socket, max_bytes: int, deadline: float | None = None
) -> tuple[bytes, bytes]:
    """Receives one frame of at most `max_bytes`, before `deadline` on the monotonic clock.

    Raises EOFError if the other side closed, TimeoutError, or FrameError.
    """
    header_size, blob_size = _LENGTHS.unpack(_receive(sock, _LENGTHS.size, deadline))
    if header_size + blob_size > max_bytes:
        raise FrameError(f"a frame of {header_size + blob_size} bytes, more than {max_bytes}")
    header = _receive(sock, header_size, deadline)
    return header, _receive(sock, blob_size, deadline)


def _receive(sock: socket.socket, size: int, deadline: float | None) -> bytes:
    data = bytearray()
    while len(data) < size:
        if deadline is not None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:  # a zero timeout would mean non-blocking, and a slow drip forever
                raise TimeoutError("no complete frame in time")
            sock.settimeout(remaining)
        chunk = sock.recv(min(size - len(data), 1 << 20))
        if not chunk:
            raise EOFError("the other side closed the channel")
        data += chunk
    return bytes(data)


def send_request(sock: socket.socket, request: Mapping[str, Any], blob: bytes = b"") -> None:
    """From the trainer to a supervisor, which trusts it: marshal needs no import."""
    send_bytes(sock, marshal.dumps(dict(request), _MARSHAL_VERSION), blob)


def receive_request(sock: socket.socket) -> tuple[dict[str, Any], bytes]:
    """The supervisor's side of `send_request`. Raises EOFError if the trainer is gone."""
    header, blob = receive_bytes(sock, 1 << 32)
    request: dict[str, Any] = marshal.loads(header)
    return request, blob


def send_reply(sock: socket.socket, reply: Mapping[str, Any], blob: bytes = b"") -> None:
    """From a supervisor to the trainer, which does not trust it: JSON."""
    send_bytes(sock, _json(reply).encode("ascii"), blob)


def receive_reply(
    sock: socket.socket, max_bytes: int, deadline: float
) -> tuple[dict[str, Any], bytes]:
    """The trainer's side of `send_reply`. Raises like `receive_bytes`."""
    from json import loads

    header, blob = receive_bytes(sock, max_bytes, deadline)
    try:
        reply = loads(header)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"a frame whose header is not JSON: {error}") from None
    if not isinstance(reply, dict):
        raise FrameError("a frame whose header is not an object")
    return reply, blob


def _json(value: Any) -> str:
    """What `json.dumps` gives; importing json would delay every sandbox by 3 ms."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_json_character, value))}"'
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(_json, value))}]"
    assert isinstance(value, dict), value
    return f"{{{','.join(f'{_json(key)}:{_json(item)}' for key, item in value.items())}}}"


def _json_character(character: str) -> str:
    code = ord(character)
    if 0x20 <= code < 0x7F and character not in '"\\':
        return character
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
