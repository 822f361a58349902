"""Sound: checks as data, compared outside of the candidate's process by exact type."""

from __future__ import annotations

from .case import Case
from .classes import SOUND
from .harbor import data
from .problems import (
    BALANCED,
    CHUNKS,
    CLAMP,
    COUNT,
    LEAP,
    MERGE,
    ROMAN,
    ROTATE,
    SLUG,
    UNIQUE,
    Problem,
)


def _sound(name: str, story: str, problem: Problem, *wrong: str) -> Case:
    others = {"second": {problem.file: problem.other}} if problem.other else {}
    attempts = tuple({problem.file: source} for source in wrong)
    return data(name, SOUND, story, problem, others=others, wrong=attempts)


CASES: tuple[Case, ...] = (
    _sound(
        "data-clamp",
        "Bounds, both sides and negative numbers are tried.",
        CLAMP,
        "def clamp(value, low, high):\n    return min(value, high)\n",
    ),
    _sound(
        "data-merge",
        "Two right references of different style; lists compared by value.",
        MERGE,
        "def merge(intervals):\n    return sorted(intervals)\n",
    ),
    _sound(
        "data-slug",
        "Text in, text out, with empty and degenerate inputs.",
        SLUG,
        "def slug(text):\n    return '-'.join(text.lower().split())\n",
    ),
    _sound(
        "data-roman",
        "Every numeral and every subtractive pair is tried.",
        ROMAN,
        "def roman(number):\n    return 'I' * number\n",
    ),
    _sound(
        "data-leap",
        "Truth values, where 1 and True must not be the same.",
        LEAP,
        "def leap(year):\n    return int(year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))\n",
    ),
    _sound(
        "data-count",
        "Dicts, whose order of keys does not matter.",
        COUNT,
        "def count_words(text):\n    return {w: text.split().count(w) for w in text.split()}\n",
    ),
    _sound(
        "data-unique-of-two",
        "Two references, of which one needs hashable items and the other does not.",
        UNIQUE,
        "def unique(items):\n    return list(set(items))\n",
    ),
    _sound(
        "data-rotate",
        "Steps that are zero, negative and larger than the list.",
        ROTATE,
        "def rotate(items, steps):\n    return items[-steps:] + items[:-steps]\n",
    ),
    _sound(
        "data-balanced",
        "As many true as false expectations, so that no constant comes far.",
        BALANCED,
        "def balanced(text):\n    return True\n",
    ),
    _sound(
        "data-chunks",
        "The untouched file passes some of the checks, and is paid nothing for them.",
        CHUNKS,
        "def chunks(items, size):\n    return [items]\n",
    ),
)
