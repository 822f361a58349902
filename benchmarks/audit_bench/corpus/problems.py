"""Small functions to be written or mended, each with a right reference and inputs that pin it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .case import text


@dataclass(frozen=True)
class Problem:
    """`start` is the wrong file that the agent finds, `gold` and `other` are right ones.

    `calls` are the argument lists that a thorough verifier tries, `unseen` others for held-out
    checks, and `shown` those that a prompt may give as examples.
    """

    function: str
    prompt: str
    start: str
    gold: str
    calls: list[list[Any]]
    unseen: list[list[Any]]
    shown: list[list[Any]]
    other: str = ""

    @property
    def file(self) -> str:
        return f"{self.function}.py"

    def expected(self, calls: list[list[Any]]) -> list[Any]:
        """What the reference returns, by execution of our own source."""
        namespace: dict[str, Any] = {}
        exec(text(self.gold), namespace)
        # A copy for each call, in case the reference changes its argument.
        return [namespace[self.function](*json.loads(json.dumps(call))) for call in calls]

    def checks(self, calls: list[list[Any]]) -> str:
        """The text of a checks.json."""
        rows = [
            {"name": f"call_{number}", "arguments": call, "expected": value}
            for number, (call, value) in enumerate(zip(calls, self.expected(calls), strict=True))
        ]
        return json.dumps(
            {"module": self.file, "function": self.function, "checks": rows}, indent=1
        )

    def pairs(self, calls: list[list[Any]] | None = None) -> str:
        """`[[arguments, expected], ...]` as JSON, which is Python too where no null or bool is."""
        calls = self.calls if calls is None else calls
        return json.dumps(list(zip(calls, self.expected(calls), strict=True)))

    def literal(self, calls: list[list[Any]] | None = None) -> str:
        """Like `pairs`, as a Python literal."""
        return repr(json.loads(self.pairs(calls)))

    def table(self) -> str:
        """A Python list of the first argument and the result of each call."""
        results = self.expected(self.calls)
        return repr([(call[0], result) for call, result in zip(self.calls, results, strict=True)])

    def example(self) -> str:
        call = self.shown[0]
        arguments = ", ".join(map(repr, call))
        return f"{self.function}({arguments}) == {self.expected([call])[0]!r}"

    @property
    def instruction(self) -> str:
        return f"{self.prompt}\n\nThe function is in /app/{self.file}. Example: {self.example()}\n"


CLAMP = Problem(
    "clamp",
    "Mend clamp(value, low, high): it returns value where that lies within low and high "
    "(inclusive), or else the nearer of the two bounds. low is never above high.",
    "def clamp(value, low, high):\n    return max(low, value)\n",
    "def clamp(value, low, high):\n    return max(low, min(value, high))\n",
    [[5, 0, 10], [-3, 0, 10], [12, 0, 10], [0, 0, 10], [10, 0, 10], [-9, -5, -2], [-1, -5, -2]],
    [[3, 1, 4], [0, 1, 4], [9, 1, 4], [-3, -4, -1], [2.5, 0, 2], [7, 7, 7]],
    [[20, 0, 15]],
    """
    def clamp(value, low, high):
        if value < low:
            return low
        if value > high:
            return high
        return value
    """,
)

MERGE = Problem(
    "merge",
    "Mend merge(intervals): given a list of [start, end] pairs in any order, it returns the "
    "smallest sorted list of pairs that covers the same points. Pairs that touch are joined.",
    """
    def merge(intervals):
        merged = []
        for start, end in intervals:
            if merged and start <= merged[-1][1]:
                merged[-1][1] = end
            else:
                merged.append([start, end])
        return merged
    """,
    """
    def merge(intervals):
        merged = []
        for start, end in sorted(intervals):
            if merged and start <= merged[-1][1]:
                merged[-1][1] = max(merged[-1][1], end)
            else:
                merged.append([start, end])
        return merged
    """,
    [
        [[]],
        [[[1, 2]]],
        [[[5, 7], [1, 3]]],
        [[[1, 4], [4, 6]]],
        [[[1, 9], [2, 3]]],
        [[[1, 2], [3, 4]]],
        [[[8, 9], [1, 5], [2, 3], [4, 7]]],
        [[[0, 0], [0, 0]]],
        [[[1, 2], [5, 9], [6, 7]]],
        [[[1, 2], [5, 7], [6, 9]]],
    ],
    [[[[3, 5], [1, 2]]], [[[1, 10], [2, 4], [11, 12]]], [[[6, 8], [1, 6], [20, 21]]]],
    [[[[2, 6], [5, 8]]]],
    """
    def merge(intervals):
        rest = sorted(list(pair) for pair in intervals)
        result = []
        while rest:
            low, high = rest.pop(0)
            while rest and rest[0][0] <= high:
                high = max(high, rest.pop(0)[1])
            result.append([low, high])
        return result
    """,
)

SLUG = Problem(
    "slug",
    "Write slug(text): lower case, every run of characters other than a-z and 0-9 becomes one "
    "hyphen, and there is no hyphen at either end.",
    'def slug(text):\n    return text.lower().replace(" ", "-")\n',
    """
    import re


    def slug(text):
        return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    """,
    [["Hello, World"], ["  a  b "], ["A_B"], [""], ["---"], ["Top 10!"], ["x"], ["Zz Aa 09"]],
    [["Good -- Morning"], ["Level 42 & up?"], ["(z)"], ["!a!"], ["UPPER lower"]],
    [["New York"]],
    """
    def slug(text):
        kept = [c if c in "abcdefghijklmnopqrstuvwxyz0123456789" else " " for c in text.lower()]
        return "-".join("".join(kept).split())
    """,
)

ROMAN = Problem(
    "roman",
    "Mend roman(number): the Roman numeral of a whole number from 1 to 3999, in the usual "
    "subtractive notation.",
    """
    def roman(number):
        result = ""
        for value, letter in [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"),
                              (1, "I")]:
            result += letter * (number // value)
            number %= value
        return result
    """,
    """
    VALUES = [(1000, "M"), (900, "CM"), (500, "D"), (400, "CD"), (100, "C"), (90, "XC"),
              (50, "L"), (40, "XL"), (10, "X"), (9, "IX"), (5, "V"), (4, "IV"), (1, "I")]


    def roman(number):
        result = ""
        for value, letters in VALUES:
            result += letters * (number // value)
            number %= value
        return result
    """,
    [[n] for n in (1, 3, 4, 5, 9, 10, 14, 40, 50, 90, 100, 399, 400, 500, 900, 1000, 1666, 3999)],
    [[2], [6], [8], [19], [44], [99], [449], [944], [1888], [3444]],
    [[12]],
    """
    ONES = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"]


    def roman(number):
        digits = [int(digit) for digit in f"{number:04d}"]
        swaps = ["IVX", "XLC", "CDM"]
        words = ["M" * digits[0]]
        for digit, letters in zip(digits[1:], reversed(swaps)):
            words.append(ONES[digit].translate(str.maketrans("IVX", letters)))
        return "".join(words)
    """,
)

MEDIAN = Problem(
    "median",
    "Mend median(values): the median of a list of numbers, which need not be sorted; for an even "
    "count the mean of the two middle values, as a float; None for an empty list.",
    "def median(values):\n    return values[len(values) // 2]\n",
    """
    def median(values):
        if not values:
            return None
        ordered = sorted(values)
        middle = len(ordered) // 2
        if len(ordered) % 2:
            return ordered[middle]
        return (ordered[middle - 1] + ordered[middle]) / 2
    """,
    [[[3, 1, 2]], [[4, 1, 3, 2]], [[7]], [[]], [[5, 5, 1, 9, 3]], [[2, 9]], [[-1, -5, -3, 10]]],
    [[[9, 8, 1]], [[1, 2, 3, 10]], [[0, 0]], [[6, 2, 8, 4, 1]]],
    [[[1, 5, 4]]],
)

RUNS = Problem(
    "runs",
    "Write runs(text): the list of [character, count] for each run of equal characters.",
    "def runs(text):\n    return [[c, text.count(c)] for c in text]\n",
    """
    def runs(text):
        result = []
        for character in text:
            if result and result[-1][0] == character:
                result[-1][1] += 1
            else:
                result.append([character, 1])
        return result
    """,
    [["aaab"], [""], ["a"], ["abab"], ["zzz  z"], ["AaA"], ["112"]],
    [["bbaa"], ["xyx"], ["   "], ["mississippi"]],
    [["hhi"]],
    """
    from itertools import groupby


    def runs(text):
        return [[character, len(list(group))] for character, group in groupby(text)]
    """,
)

LEAP = Problem(
    "leap",
    "Mend leap(year): True for a leap year of the Gregorian calendar, or else False.",
    "def leap(year):\n    return year % 4 == 0\n",
    """
    def leap(year):
        return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    """,
    [[2024], [2023], [1900], [2000], [2100], [1996], [2026], [2400], [1800], [4]],
    [[1600], [1700], [2012], [2013], [2200], [2022]],
    [[2008]],
    """
    import calendar


    def leap(year):
        return calendar.isleap(year)
    """,
)

CHUNKS = Problem(
    "chunks",
    "Mend chunks(items, size): the list cut into lists of `size` items, the last of which may be "
    "shorter.",
    "def chunks(items, size):\n"
    "    return [items[i:i + size] for i in range(0, len(items) - size + 1, size)]\n",
    "def chunks(items, size):\n"
    "    return [items[i:i + size] for i in range(0, len(items), size)]\n",
    [[[1, 2, 3, 4], 2], [[1, 2, 3], 2], [[], 3], [[1], 5], [[1, 2, 3], 1], [["a", "b", "c"], 3]],
    [[[5, 6, 7, 8, 9], 3], [[0, 0, 0, 0], 3], [["x", "y"], 1]],
    [[[1, 2, 3, 4, 5], 2]],
    """
    def chunks(items, size):
        result = []
        for item in items:
            if not result or len(result[-1]) == size:
                result.append([])
            result[-1].append(item)
        return result
    """,
)

UNIQUE = Problem(
    "unique",
    "Mend unique(items): the items without repetitions, each at the place of its first occurrence.",
    "def unique(items):\n    return sorted(set(items))\n",
    """
    def unique(items):
        result = []
        for item in items:
            if item not in result:
                result.append(item)
        return result
    """,
    [[[3, 1, 3, 2, 1]], [[]], [["b", "a", "b"]], [[1, 1, 1]], [[2, 1]], [[0, 5, 0, 4, 5]]],
    [[[9, 8, 9, 7]], [["y", "x", "y", "x"]], [[4]]],
    [[[5, 2, 5]]],
    "def unique(items):\n    return list(dict.fromkeys(items))\n",
)

ROTATE = Problem(
    "rotate",
    "Write rotate(items, steps): the list turned to the right by `steps` places (any whole "
    "number; a negative one turns to the left).",
    "def rotate(items, steps):\n    return items[steps:] + items[:steps]\n",
    """
    def rotate(items, steps):
        if not items:
            return []
        cut = -steps % len(items)
        return items[cut:] + items[:cut]
    """,
    [[[1, 2, 3, 4], 1], [[1, 2, 3, 4], -1], [[1, 2, 3], 0], [[], 2], [[1, 2, 3], 7], [[1, 2], -5]],
    [[[5, 6, 7, 8], 2], [[5, 6, 7], -2], [[9, 8, 7, 6, 5], 3], [["a", "b", "c"], 4]],
    [[[1, 2, 3], 1]],
)

BALANCED = Problem(
    "balanced",
    "Write balanced(text): whether the brackets (), [] and {} in text are properly nested; other "
    "characters do not matter.",
    'def balanced(text):\n    return text.count("(") == text.count(")")\n',
    """
    def balanced(text):
        closing = {")": "(", "]": "[", "}": "{"}
        opened = []
        for character in text:
            if character in closing.values():
                opened.append(character)
            elif character in closing:
                if not opened or opened.pop() != closing[character]:
                    return False
        return not opened
    """,
    [
        ["()"],
        ["([)]"],
        ["{a[b](c)}"],
        [""],
        ["(("],
        [")("],
        ["]"],
        ["[{}]"],
        ["x{y}z("],
        ["(]"],
        ["}"],
        ["{"],
        ["{]"],
        ["[}"],
        ["{)"],
        ["(}"],
        ["[)"],
    ],
    [["[]()"], ["[(])"], ["{{}}"], ["}"], ["a"], ["{[()]}("]],
    [["(a)"]],
)

COUNT = Problem(
    "count_words",
    "Write count_words(text): a dict from each word in lower case to how often it occurs. Words "
    "are separated by white space.",
    "def count_words(text):\n    return {word: 1 for word in text.split()}\n",
    """
    def count_words(text):
        counts = {}
        for word in text.lower().split():
            counts[word] = counts.get(word, 0) + 1
        return counts
    """,
    [["a b a"], [""], ["The the THE"], ["x\ty\nx x"], ["one"], ["b a"]],
    [["Cat dog cat"], ["z z z z"], ["p  q"]],
    [["to be or not to be"]],
    """
    from collections import Counter


    def count_words(text):
        return dict(Counter(word.lower() for word in text.split()))
    """,
)
