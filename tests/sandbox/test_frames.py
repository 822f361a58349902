"""Frames: what a supervisor says arrives as it was said, and nothing else is taken."""

from __future__ import annotations

import socket
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sandbox.frames import FrameError, receive_reply, send_bytes, send_reply

_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=())),  # lone surrogates too: names of files
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(st.text(), _VALUES), st.binary())
def test_a_reply_arrives_as_it_was_sent(reply: dict[str, object], blob: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_reply(theirs, reply, blob)
        assert receive_reply(ours, 1 << 20, time.monotonic() + 5) == (reply, blob)


@pytest.mark.parametrize("header", [b"", b"{'a': 1}", b"[1]", b"\xff", b"[" * 100_000, b"1" * 9999])
def test_what_is_not_a_reply_is_refused(header: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        send_bytes(theirs, header)
        with pytest.raises(FrameError, match="header"):
            receive_reply(ours, 1 << 20, time.monotonic() + 5)
