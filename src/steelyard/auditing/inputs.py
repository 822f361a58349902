"""Inputs to try: near those that are known, and those that texts show."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator
from typing import Any

_RANDOM_DRAWS = 300
_FALSY: tuple[Any, ...] = (None, 0, "", False, [])
_LETTERS = "ab Z0_-"


def neighbours(arguments: tuple[Any, ...], rng: random.Random) -> Iterator[tuple[Any, ...]]:
    """Calls near an observed one, itself first, none twice; the simplest changes first.

    First one argument at a time (numbers ±1, 0, negated, large; text empty, doubled, in another
    case, not ASCII; lists empty, shortened, doubled, reversed, with changed items; dicts without a
    key, with a falsy value, with another key or one more; another value for None), then a few
    hundred draws in which every argument may change. The same `rng` state gives the same calls.
    Types stay those observed, except that a dict's values and an observed None may become None, 0,
    "", False or []. Values are JSON-like (tuples stay tuples; what is neither stays as it is); each
    call is a fresh copy.
    """
    seen: set[str] = set()

    def unseen(call: tuple[Any, ...]) -> bool:
        key = repr(call)
        new = key not in seen
        seen.add(key)
        return new

    def fresh(call: tuple[Any, ...]) -> tuple[Any, ...]:
        return copy.deepcopy(call)

    if unseen(arguments):
        yield fresh(arguments)
    changes = [list(_changes(argument)) for argument in arguments]
    for rank in range(max(map(len, changes), default=0)):
        for i, options in enumerate(changes):
            if rank < len(options):
                call = (*arguments[:i], options[rank], *arguments[i + 1 :])
                if unseen(call):
                    yield fresh(call)
    for _ in range(_RANDOM_DRAWS):
        call = tuple(a if rng.random() < 0.25 else _draw(a, rng) for a in arguments)
        if unseen(call):
            yield fresh(call)


def _changes(value: Any) -> Iterator[Any]:
    """Values of the same type near `value`, simplest first."""
    kind = type(value)
    if value is None:
        yield from _FALSY[1:]
    elif kind is bool:
        yield not value
    elif kind is int:
        near = (0, 1, value + 1, value - 1, 2, value * 2, 10, 100, 1000, -value, -1, 10**6)
        # a negative number is the likelier to be one that was never promised
        yield from sorted(near, key=lambda number: number < 0 <= value)
    elif kind is float:
        yield from (0.0, 1.0, -1.0, value + 1, value - 1, -value, value / 2, value + 0.5, 1e-9)
        yield from (float(round(value)), 1e9)
    elif kind is str:
        yield from _text_changes(value)
    elif kind in (list, tuple):
        for items in _list_changes(list(value)):
            yield kind(items)
    elif kind is dict:
        yield from _dict_changes(value)


def _text_changes(text: str) -> Iterator[str]:
    yield from ("", text[:1], text[1:], text[:-1], text + text, text[::-1])
    yield from (text.upper(), text.lower(), text.swapcase(), f" {text} ", f"{text}\n")
    yield from ("a", "0", " ", f"{text}é", "Straße ☃", text * 20)
    for i in range(min(len(text), 6)):
        yield text[:i] + text[i + 1 :]
        yield text[:i] + text[i] * 2 + text[i + 1 :]


def _list_changes(items: list[Any]) -> Iterator[list[Any]]:
    yield from ([], items[:1], items[1:], items[:-1], items[::-1], items + items)
    if items:
        yield [*items, items[0]]
        yield [items[-1], *items]
        yield [items[0]] * max(len(items), 2)
    for i in range(min(len(items), 6)):
        for changed in _changes(items[i]):
            yield [*items[:i], changed, *items[i + 1 :]]
    if not items:
        yield from ([0], [1], ["a"], [[]])


def _dict_changes(pairs: dict[Any, Any]) -> Iterator[dict[Any, Any]]:
    yield {}
    for key in pairs:
        yield {k: v for k, v in pairs.items() if k != key}
    for key, value in pairs.items():
        for falsy in _FALSY:
            yield {**pairs, key: falsy}
        for changed in _changes(value):
            yield {**pairs, key: changed}
    first = next(iter(pairs.values()), 1)
    yield {**pairs, "another": first}
    for key in pairs:
        for changed in _changes(key) if type(key) in (str, int) else ():
            yield {changed if k == key else k: v for k, v in pairs.items()}
    yield dict(reversed(pairs.items()))


def _draw(value: Any, rng: random.Random, depth: int = 0) -> Any:
    """A random value of the same shape."""
    kind = type(value)
    if kind is bool:
        return rng.random() < 0.5
    if kind is int:
        size = rng.choice((3, 10, abs(value) + 2, 10 * abs(value) + 10))
        return rng.randint(0 if value >= 0 and rng.random() < 0.7 else -size, size)
    if kind is float:
        return round(rng.uniform(-2, 2) * rng.choice((1.0, 10.0, abs(value) + 1)), 3)
    if kind is str:
        letters = value if value and rng.random() < 0.6 else value + _LETTERS
        return "".join(rng.choice(letters) for _ in range(rng.randint(0, len(value) + 3)))
    if kind in (list, tuple):
        if depth > 8 or not value:
            return value
        draws: list[Callable[[], Any]] = [
            lambda: rng.choice(value),
            lambda: _draw(rng.choice(value), rng, depth + 1),
        ]
        # a tuple's length and the places of its types are part of its shape
        if kind is tuple:
            return tuple(_draw(item, rng, depth + 1) for item in value)
        return [rng.choice(draws)() for _ in range(rng.randint(0, len(value) + 3))]
    if kind is dict:
        kept = {k: v for k, v in value.items() if rng.random() < 0.8}
        return {
            k: rng.choice(_FALSY) if rng.random() < 0.2 else _draw(v, rng, depth + 1)
            for k, v in kept.items()
        }
    if value is None and rng.random() < 0.3:
        return rng.choice(_FALSY)
    return value
