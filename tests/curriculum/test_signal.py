import itertools
import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.curriculum import Seen, SignalOrder, mixed_probability

KINDS = ["known", "known", "open", "open", "dead"]


def drawn(order, step, seen, n):
    return list(itertools.islice(order.upcoming(step, seen, 10), n))


@given(st.integers(0, 30), st.integers(0, 30), st.integers(2, 12))
def test_the_probability_is_the_integral_over_what_is_known_of_the_rate(good, bad, size):
    grid = [(i + 0.5) / 20_000 for i in range(20_000)]
    log_mass = [good * math.log(p) + bad * math.log1p(-p) for p in grid]
    most = max(log_mass)
    mass = [math.exp(x - most) for x in log_mass]
    mixed = sum(m * (1 - p**size - (1 - p) ** size) for m, p in zip(mass, grid, strict=True))
    assert mixed_probability(good, bad, size) == pytest.approx(mixed / sum(mass), abs=1e-6)


def test_kinds_without_a_signal_are_drawn_less_and_never_forgotten():
    seen = [Seen(s, kind, (rate,) * 8) for s in (1, 2, 3) for kind, rate in
            (("known", 1.0), ("dead", 0.0), ("open", 0.5))]  # fmt: skip
    order = SignalOrder(KINDS, 8, seed=0)
    weights = order.weights(4, seen)
    assert weights["known"] == pytest.approx(weights["dead"])
    assert weights["open"] > 2.5 * weights["known"]
    count = Counter(KINDS[i] for i in drawn(order, 4, seen, 500))
    for kind, weight in weights.items():
        assert count[kind] == pytest.approx(500 * weight / sum(weights.values()), abs=50)
    later = order.weights(30, seen)
    assert min(later.values()) > 0.99 * max(later.values()), "what is long ago says nothing"


def test_a_batch_holds_each_kind_as_its_weight_says_to_within_one():
    order = SignalOrder(list("abcdefghij"), 8, seed=1)
    draws = drawn(order, 1, [], 40)
    for start in range(0, 40, 10):
        assert sorted(draws[start : start + 10]) == list(range(10))


def test_the_tasks_of_a_kind_take_turns_across_the_steps():
    order = SignalOrder(["one"] * 5, 8, seed=2)
    seen = []
    for step in (1, 2, 3, 4, 5):
        batch = drawn(order, step, seen, 2)
        seen += [Seen(step, "one", (1.0, 0.0)) for _ in batch]
    order_of = [drawn(order, s, seen, 2) for s in (1, 2, 3, 4, 5)]
    flat = [i for pair in order_of for i in pair]
    assert sorted(flat[:5]) == sorted(flat[5:]) == list(range(5))


def test_the_tasks_of_a_kind_take_turns():
    order = SignalOrder(["one"] * 5, 8, seed=2)
    first = drawn(order, 1, [], 10)
    assert sorted(first) == sorted([*range(5)] * 2)
    assert sorted(first[:5]) == list(range(5))


def test_a_draw_depends_on_the_seed_the_step_and_the_steps_before():
    order = SignalOrder(KINDS, 8, seed=0)
    seen = [Seen(1, "open", (1.0, 0.0)), Seen(2, "known", (1.0,) * 8)]
    again = SignalOrder(KINDS, 8, seed=0)
    assert drawn(order, 2, seen, 30) == drawn(again, 2, seen[:1], 30)
    assert drawn(order, 2, seen, 30) != drawn(order, 3, seen, 30)
    assert drawn(order, 2, seen, 30) != drawn(SignalOrder(KINDS, 8, seed=1), 2, seen, 30)


def test_equal_outcomes_are_no_signal_whatever_they_are():
    half = SignalOrder(KINDS, 8, seed=0).weights(2, [Seen.of(1, "open", [0.5] * 8)])
    none = SignalOrder(KINDS, 8, seed=0).weights(2, [Seen.of(1, "open", [0.0] * 8)])
    assert half == none
    assert half["open"] < half["known"]
    assert Seen.of(1, "open", [1 / 3, None, 1.0]) == Seen.of(1, "open", [0.333333333333333, 1.0])


def test_unscored_episodes_say_nothing():
    order = SignalOrder(KINDS, 8, seed=0)
    assert order.weights(2, [Seen(1, "open", ())]) == order.weights(2, [])


def test_no_tasks_is_an_error():
    with pytest.raises(ValueError, match="no task"):
        SignalOrder([], 8, 0)
