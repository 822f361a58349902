"""Inputs near observed ones, and calls read from tests, doctests and prose."""

from __future__ import annotations

import random
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.auditing.inputs import neighbours
from steelyard.auditing.observing import Call, observed_calls

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.floats(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)


def near(*arguments: Any) -> list[tuple[Any, ...]]:
    return list(neighbours(arguments, random.Random(0)))


@given(arguments=st.tuples(JSON, JSON))
def test_calls_are_distinct_repeatable_and_begin_with_the_observed_one(
    arguments: tuple[Any, ...],
) -> None:
    before = repr(arguments)
    made = list(islice(neighbours(arguments, random.Random(1)), 200))
    assert repr(made[0]) == before
    assert len({repr(call) for call in made}) == len(made)
    assert repr(made) == repr(list(islice(neighbours(arguments, random.Random(1)), 200)))
    for call in made:  # what a call does to its arguments does not reach the next one
        for value in call:
            if isinstance(value, (list, dict)):
                value.clear()
    assert repr(arguments) == before


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        (5, [0, 1, -1, 4, 6, -5, 1000]),
        (2.5, [0.0, 3.5, -2.5, 1e9]),
        ("ab", ["", "a", "b", "abab", "ba", "AB", "abé", " ab "]),
        ([3, 4], [[], [3], [4, 3], [3, 4, 3, 4], [3, 3], [0, 4], [3, 5]]),
        (
            {"k": 2},
            [{}, {"k": None}, {"k": 0}, {"k": ""}, {"k": []}, {"k": False}, {"K": 2}, {"k": 3}],
        ),
        (None, [0, "", False, []]),
        (True, [False]),
        ([], [[0], ["a"]]),
    ],
)
def test_each_type_has_its_neighbours(argument: Any, expected: list[Any]) -> None:
    made = [repr(call[0]) for call in near(argument)]
    assert {repr(value) for value in expected} <= set(made)


@given(values=st.tuples(st.integers(), st.text(max_size=5), st.lists(st.integers(), max_size=4)))
def test_types_stay_as_observed(values: tuple[int, str, list[int]]) -> None:
    for number, text, items in neighbours(values, random.Random(2)):
        assert type(number) is int
        assert type(text) is str
        if values[2]:
            assert {type(item) for item in items} <= {int}


def test_simple_changes_of_one_argument_come_before_draws_of_all() -> None:
    made = near(7, "seven")
    assert made[:3] == [(7, "seven"), (0, "seven"), (7, "")]
    first_joint = next(i for i, (a, b) in enumerate(made) if a != 7 and b != "seven")
    assert first_joint > 30
    assert len(made) > first_joint + 100


TESTS = '''
import pytest, unittest
from m import f

def test_f():
    """f(9) returns 81."""
    assert f(1, [2]) == {"a": (1,)}
    assert [3] == m.f(x=1)
    assert f(4) is None
    assert not f(5)
    assert f(6), "six"
    assert f(y) == 3
    assert abs(f(7) - 1.5) < 1e-6
    g(1) == f(8)

@pytest.mark.parametrize("a, b", [(10, 100), (11, 121), (y, 1)])
def test_squares(a, b):
    assert f(a) == b

class T(unittest.TestCase):
    def test(self):
        self.assertEqual(f("12"), -1.5)
        self.assertEqual([1], f(13))
        self.assertTrue(f(14))
        self.assertIsNone(f(15))
'''


def test_calls_and_values_of_python_tests() -> None:
    calls = {repr((c.arguments, *c.keywords)): c for c in observed_calls(TESTS, "f")}
    asserted = {key: call.expected for key, call in calls.items() if call.asserted}
    assert asserted == {
        "((1, [2]),)": {"a": (1,)},
        "((), ('x', 1))": [3],
        "((4,),)": None,
        "((5,),)": False,
        "((6,),)": True,
        "((9,),)": 81,
        "((10,),)": 100,
        "((11,),)": 121,
        "(('12',),)": -1.5,
        "((13,),)": [1],
        "((14,),)": True,
        "((15,),)": None,
    }
    assert {key for key, call in calls.items() if not call.asserted} == {"((7,),)", "((8,),)"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so f(1, 2) == 3, and", 3),
        ("`f(1, 2)` returns `[3, 4]`.", [3, 4]),
        ("f(1, 2) -> 'a, \\'b'", "a, 'b"),
        ("f(1, 2) ➞ {'a': 1}", {"a": 1}),
        ("f(1, 2) should return -3.5 here", -3.5),
        ("f(1, 2) # => True", True),
        ("For example, f(1, 2) is None.", None),
        (">>> f(1, 2)\n'x'\n", "x"),
        (">>> f(1, 2) == 7\nTrue\n", 7),
    ],
)
def test_calls_and_values_of_prose(text: str, expected: Any) -> None:
    assert observed_calls(f"It does this:\n{text}", "f") == [Call((1, 2), (), True, expected)]


@pytest.mark.parametrize("text", ["off(1, 2) == 3", "f(1, n) == 3", "f(1, 2", "what f returns"])
def test_what_is_no_literal_call_is_not_read(text: str) -> None:
    assert observed_calls(f"A text, {text} it says", "f") == []


def test_a_call_without_a_value_keeps_its_arguments() -> None:
    assert observed_calls("Try f(1, 2). Good luck.", "f") == [Call((1, 2))]
    assert observed_calls("def f(a):\n    '''>>> f(3)\n    4\n    '''\n", "f") == [
        Call((3,), (), True, 4)
    ]
