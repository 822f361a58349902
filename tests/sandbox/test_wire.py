"""Values and frames between the trusted and the untrusted side."""

from __future__ import annotations

import json
import socket
import struct
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.sandbox.frames import (
    FrameError,
    receive_reply,
    receive_request,
    send_bytes,
    send_reply,
    send_request,
)
from steelyard.sandbox.wire import (
    UnsupportedValue,
    decode,
    encode,
    receive_frame,
    same,
    send_frame,
)

hashable = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**80), 2**80)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.tuples(inner) | st.tuples(inner, inner),
    max_leaves=4,
)
values = st.recursive(
    hashable,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(hashable, inner, max_size=4)
        | st.sets(hashable, max_size=4)
    ),
    max_leaves=12,
)


@given(values)
def test_what_is_encoded_is_decoded_with_every_type(value: Any) -> None:
    carried = decode(json.loads(json.dumps(encode(value))))
    assert same(carried, value)
    assert repr(carried) == repr(value) or isinstance(value, (set, dict, list, tuple))


@given(values, values)
def test_same_is_equality_of_value_and_type(left: Any, right: Any) -> None:
    assert same(left, left)
    assert same(left, right) == same(right, left)
    if same(left, right):
        assert left == right
        assert type(left) is type(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (1, True),
        (1, 1.0),
        (0, False),
        ([1], (1,)),
        ([1], [True]),
        ({"a": 1}, {"a": 1.0}),
        ({1: "a"}, {True: "a"}),
        ({1}, {True}),
        ({1.0}, {1}),
        ("1", b"1"),
        (None, False),
        ([], None),
        (float("nan"), float("nan")),
        ([1, 2], [2, 1]),
    ],
)
def test_what_python_calls_equal_is_not_the_same(left: Any, right: Any) -> None:
    assert not same(left, right)


def test_order_of_keys_and_items_does_not_matter() -> None:
    assert same({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    assert same({3, 1, 2}, {1, 2, 3})


class Equal(int):
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = int.__hash__


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [Equal(3), [Equal(3)], object(), len, frozenset(), 1j, range(3), nested(100), 10**5000],
    ids=lambda value: type(value).__name__,
)
def test_anything_but_plain_data_is_refused(value: Any) -> None:
    with pytest.raises(UnsupportedValue):
        encode(value)


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(UnsupportedValue, match="nested"):
        encode(loop)


@pytest.mark.parametrize(
    "data",
    [[], {}, {"a": 1}, ["list", []], ["object", 1], [["list"]], ["set", ["list"]], ["bytes", "zz"],
     ["bytes"], ["bytes", 3], ["dict", 3], ["dict", ["a"]], ["dict", [["set"], 1]]],
    ids=repr,
)  # fmt: skip
def test_what_encode_cannot_have_made_is_a_frame_error(data: Any) -> None:
    with pytest.raises(FrameError):
        decode(data)


def test_frames_carry_header_and_bytes() -> None:
    left, right = socket.socketpair()
    with left, right:
        send_frame(left, {"a": [1, "ü"]}, b"\x00data")
        assert receive_frame(right, 1000) == ({"a": [1, "ü"]}, b"\x00data")


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">II", 1 << 31, 0),
        struct.pack(">II", 3, 0) + b"{]}",
        struct.pack(">II", 5000, 0) + b"[" * 5000,
        struct.pack(">II", 5002, 0) + b"1" * 5002,
    ],
)
def test_nonsense_is_a_frame_error(sent: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(sent)
        with pytest.raises(FrameError):
            receive_frame(right, 10_000, time.monotonic() + 5)


def test_a_slow_drip_ends_at_the_deadline_and_a_close_is_an_end() -> None:
    left, right = socket.socketpair()
    with right:
        with left:
            left.sendall(b"\0\0")
            with pytest.raises(TimeoutError):
                receive_frame(right, 1000, time.monotonic() + 0.05)
        with pytest.raises(EOFError):
            receive_frame(right, 1000, time.monotonic() + 5)


@pytest.mark.parametrize(
    "header", [b"__import__('os').getpid()", b"[1]", b"{", b"(" * 5000, b"\xff", b"{1: 2}.keys()"]
)
def test_a_reply_of_a_sandbox_is_a_literal_dict_or_refused(header: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        send_bytes(left, header)
        with pytest.raises(FrameError):
            receive_reply(right, 10_000, time.monotonic() + 5)


def test_requests_and_replies_arrive_as_they_were_sent() -> None:
    said = {"paths": ["ü", "\ud800", "a\0b"], "number": 1.5, "none": None, "yes": True}
    left, right = socket.socketpair()
    with left, right:
        send_request(left, said, b"\x00data")
        assert receive_request(right) == (said, b"\x00data")
        send_reply(right, said, b"\x00data")
        assert receive_reply(left, 1000, time.monotonic() + 5) == (said, b"\x00data")
