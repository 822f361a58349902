"""Whether a text is the one that was expected: exactly, or as its check declares."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

from steelyard.sandbox.wire import MAX_DEPTH, same
from steelyard.tasks.task import Comparison

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_SHOWN_CHARACTERS = 100


def matches(got: bytes, expected: str, comparison: Comparison, tolerance: float = 0.0) -> bool:
    """Whether `got` is `expected`.

    - "exact": byte by byte
    - "lines": white space at the end of a line, and lines without text at the end, do not count
    - "unordered_lines": as "lines", in any order, each as often as expected
    - "json": the same JSON value, types exact (1 is not 1.0)
    - "numbers": each number differs by at most `tolerance`, which is absolute; between the
      numbers the text is the same but for the amount of white space
    """
    if comparison == "exact":
        return got == expected.encode()
    try:
        text = got.decode()
    except UnicodeDecodeError:
        return False
    match comparison:
        case "lines":
            return _lines(text) == _lines(expected)
        case "unordered_lines":
            return Counter(_lines(text)) == Counter(_lines(expected))
        case "json":
            return _same_json(text, expected)
        case "numbers":
            return _close(text, expected, tolerance)


def shown(text: bytes | str) -> str:
    """The beginning of a text as one line, for a check's detail."""
    decoded = text.decode(errors="replace") if isinstance(text, bytes) else text
    begin = repr(decoded[:_SHOWN_CHARACTERS])
    return begin if len(decoded) <= _SHOWN_CHARACTERS else f"{begin}…"


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.rstrip().split("\n")]


def _same_json(text: str, expected: str) -> bool:
    try:
        found = json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)
    except (ValueError, RecursionError):
        return False
    return not _deeper(found, MAX_DEPTH) and same(found, json.loads(expected))


def _deeper(value: Any, levels: int) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels == 0 or any(_deeper(item, levels - 1) for item in items)


def _close(text: str, expected: str, tolerance: float) -> bool:
    if _NUMBER.sub("0", text).split() != _NUMBER.sub("0", expected).split():
        return False
    found = [float(number) for number in _NUMBER.findall(text)]
    wanted = [float(number) for number in _NUMBER.findall(expected)]
    return all(
        math.isfinite(a) and abs(a - b) <= tolerance for a, b in zip(found, wanted, strict=True)
    )


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a key occurs twice")
    return dict(pairs)
