"""Finds an input on which two programs differ, both run where they can do no harm."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.sandbox import Caller, Reply, ReplyKind, Sandbox
from steelyard.sandbox.wire import same

_FIRST_BATCH = 16
_LARGEST_BATCH = 256
_SHOWN_CHARACTERS = 300
_PATIENCE = 2.0
"""How much longer a call may take when a difference is confirmed: a busy machine is no hang."""


@dataclass(frozen=True, slots=True)
class Separation:
    """An input on which two programs differ each time, and what each does, as text."""

    arguments: tuple[Any, ...]
    left: str
    right: str


class CannotCompare(ValueError):
    """There is nothing to compare; the one sentence says why."""


def separate(
    sandbox: Sandbox,
    left: Mapping[str, bytes],
    right: Mapping[str, bytes],
    module: str,
    function: str,
    inputs: Iterable[tuple[Any, ...]],
    *,
    call_timeout_seconds: float = 3.0,
    timeout_seconds: float = 30.0,
    max_hung_calls: int = 2,
    left_returns: bool = False,
    alike: Callable[[Any, Any], bool] = same,
) -> Separation | None:
    """The first of the inputs on which `function` of `module` differs between two programs.

    Values are compared by `alike`, with their exact types unless that says otherwise; an exception
    against a value, or against one of another type, is a difference, and so is a hang, a death or a
    result that is not plain data against anything else. Two results that are not plain data count
    as alike. With
    `left_returns`, only inputs for which the left program (the reference) returns a value: the
    others are outside what it promises.

    A difference counts if it is still there when each program, started afresh, is asked that input
    alone, twice; a program that contradicts itself there, or differs only after earlier calls, is
    passed over. What a call does to its arguments is not seen.

    None: no difference in the inputs that were tried before `timeout_seconds`, or before
    `max_hung_calls` of one program in one batch were without an answer; never a proof. The time may
    be exceeded by one confirmation, four calls of twice the call's time. Raises CannotCompare if
    there is no input or the left program cannot be imported, SandboxError, OSError where the files
    do not fit, and UnsupportedValue for an input that is not plain data.
    """
    deadline = time.monotonic() + timeout_seconds
    ask = _Asker(sandbox, module, function, call_timeout_seconds, max_hung_calls, deadline, alike)
    tried = False
    for batch in _batches(inputs):
        tried = True
        expected = ask.all(left, batch)
        if expected and expected[0].unimportable:
            raise CannotCompare(f"the reference: {module} {expected[0].text}")
        got = ask.all(right, batch[: len(expected)])
        for arguments, one, other in zip(batch, expected, got, strict=False):
            if (left_returns and not one.returned) or one.like(other, alike):
                continue
            found = ask.confirmed(left, right, arguments)
            if found is not None:
                return found
            if time.monotonic() > deadline:
                return None
        if len(got) < len(batch):
            return None
    if not tried:
        raise CannotCompare(f"{module}: there is no input on which to call {function}; give one")
    return None


@dataclass(frozen=True, slots=True)
class _Behaviour:
    """What a program does with one input."""

    reply: Reply
    text: str
    unimportable: bool = False

    @property
    def returned(self) -> bool:
        return self.reply.kind is ReplyKind.RETURNED and not self.unimportable

    def like(self, other: _Behaviour, alike: Callable[[Any, Any], bool]) -> bool:
        mine, theirs = self.reply, other.reply
        if (self.unimportable, mine.kind) != (other.unimportable, theirs.kind):
            return False
        if self.returned:
            # equal texts of plain data are equal data, and NaN, which equals nothing, is like NaN
            return alike(mine.value, theirs.value) or repr(mine.value) == repr(theirs.value)
        return mine.exception == theirs.exception


@dataclass
class _Asker:
    sandbox: Sandbox
    module: str
    function: str
    call_timeout_seconds: float
    max_hung_calls: int
    deadline: float
    alike: Callable[[Any, Any], bool]

    def all(self, files: Mapping[str, bytes], batch: Sequence[tuple[Any, ...]]) -> list[_Behaviour]:
        """One behaviour for each input; fewer where time ran out or calls hung."""
        done: list[_Behaviour] = []
        hung = 0
        while len(done) < len(batch) and hung < self.max_hung_calls:
            if time.monotonic() >= self.deadline:
                break
            new = self._in_one_child(files, batch[len(done) :], self.call_timeout_seconds)
            if new and new[0].unimportable:
                return [new[0]] * len(batch)
            done += new
            hung += done[-1].reply.kind is ReplyKind.HUNG
        return done

    def confirmed(
        self, left: Mapping[str, bytes], right: Mapping[str, bytes], arguments: tuple[Any, ...]
    ) -> Separation | None:
        """Asks both again, twice, each time in a fresh child."""
        twice: list[list[_Behaviour]] = []
        for files in (left, right):
            patience = self.call_timeout_seconds * _PATIENCE
            asked = [self._in_one_child(files, [arguments], patience)[0] for _ in range(2)]
            if not asked[0].like(asked[1], self.alike):
                return None
            twice.append(asked)
        one, other = twice[0][0], twice[1][0]
        return None if one.like(other, self.alike) else Separation(arguments, one.text, other.text)

    def _in_one_child(
        self, files: Mapping[str, bytes], batch: Sequence[tuple[Any, ...]], seconds: float
    ) -> list[_Behaviour]:
        """Calls until the batch is done, the time is up or the child cannot answer; at least one.

        A child that dies while it is imported has a behaviour for every input.
        """
        with self.sandbox.program(files, module=self.module, function=self.function) as program:
            imported = program.caller.ready(seconds)
            replies = [] if imported.kind is not ReplyKind.RETURNED else list(
                self._replies(program.caller, batch, seconds)
            )  # fmt: skip
        ending = f" ({program.ending})" if program.ending else ""
        if not replies:
            text = f"could not be imported: {imported.text}{ending}"
            return [_Behaviour(imported, text, unimportable=True)]
        behaviours = [_Behaviour(reply, _text(reply)) for reply in replies]
        if replies[-1].kind is ReplyKind.DIED:
            behaviours[-1] = _Behaviour(replies[-1], f"{replies[-1].text}{ending}")
        return behaviours

    def _replies(
        self, caller: Caller, batch: Sequence[tuple[Any, ...]], seconds: float
    ) -> Iterator[Reply]:
        for i, arguments in enumerate(batch):
            if i and time.monotonic() >= self.deadline:
                return
            reply = caller.call(arguments, timeout_seconds=seconds)
            yield reply
            if not reply.usable:
                return


def _batches(inputs: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    """Small batches first: most differences show at once."""
    waiting = iter(inputs)
    size = _FIRST_BATCH
    while batch := list(itertools.islice(waiting, size)):
        yield batch
        size = min(size * 2, _LARGEST_BATCH)


def _text(reply: Reply) -> str:
    text = f"returned {reply.value!r}" if reply.kind is ReplyKind.RETURNED else reply.text
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…"
