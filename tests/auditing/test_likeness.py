"""No rounding, and no order that is free, makes a program wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest

from steelyard.auditing import AuditSettings, audit
from steelyard.auditing.likeness import Likeness
from steelyard.tasks import Task, TestScript

PLAIN = "Write mean(values)."
REWARD = "/logs/verifier/reward.txt"


@pytest.mark.parametrize(
    ("instruction", "left", "right", "alike"),
    [
        (PLAIN, 0.1 + 0.2, 0.3, True),
        (PLAIN, 2, 2.0, True),
        (PLAIN, math.nan, math.nan, True),
        (PLAIN, 1.0, 1.001, False),
        (PLAIN, 1, 2, False),
        (PLAIN, True, 1, False),
        (PLAIN, 10**17, 10**17 + 1, False),
        (PLAIN, math.inf, 1e308, False),
        (PLAIN, [1, 2], (1, 2), False),
        (PLAIN, [1, 2], [2, 1], False),
        (PLAIN, {"a": [0.3]}, {"a": [0.1 + 0.2]}, True),
        ("Any result within 0.01 is right.", 1.0, 1.005, True),
        ("Any result within 0.01 is right.", 1.0, 1.02, False),
        ("Return the words in any order.", ["b", "a", "a"], ["a", "b", "a"], True),
        ("Return the words in any order.", ["b", "a"], ["a", "a"], False),
        ("Return the pairs in any order.", [(1, 2), (3, 4)], [(3, 4), (1, 2)], True),
        ("Return the pairs in any order.", [(1, 2)], [(2, 1)], False),
    ],
)
def test_results_are_as_like_as_the_task_asks(
    instruction: str, left: Any, right: Any, alike: bool
) -> None:
    assert Likeness(instruction)(left, right) is alike


def survivors(instruction: str, reference: str, check: str) -> list[str]:
    """The mutants of the reference that are proved to be wrong and pass the check."""
    script = (
        f"cd /app && python3 -c 'from calc import f; {check}' && echo 1 > {REWARD} "
        f"|| echo 0 > {REWARD}\n"
    )
    task = Task(
        "calc", instruction, TestScript({"test.sh": script.encode()}), {"calc.py": b""},
        solution={"calc.py": reference.encode()},
    )  # fmt: skip
    result = audit([task], AuditSettings(only="mutants", gold_runs=1)).tasks[0]
    assert not result.error
    return [finding.evidence for finding in result.findings if finding.proved]


def test_a_small_number_against_division_by_zero_is_no_part_of_the_work() -> None:
    reference = "def f(total, count):\n    return total / (count + 1e-12)\n"
    check = (
        "from math import isclose; a = f(7, 2), f(9, 4), f(10, 5), f(1, 3); "
        "assert all(map(isclose, a, (3.5, 2.25, 2, 1 / 3)))"
    )
    shown = [text for text in survivors("Return the mean.", reference, check) if "1e-12" in text]
    assert shown == []
