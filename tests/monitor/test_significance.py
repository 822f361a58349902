import math
import random
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.monitor.significance import (
    Unit,
    binomial_tail,
    exceeds_zero,
    fisher_tail,
    growth,
    outlier,
)
from steelyard.monitor.statistics import clustered_interval, wilson_interval

RATES = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=8, max_size=20)


def units(values, strata=("a", "b")):
    return [Unit(strata[i % len(strata)], v) for i, v in enumerate(values)]


@given(RATES, RATES, st.floats(-1, 1), st.floats(-1, 1))
@settings(max_examples=15, deadline=None)
def test_growth_does_not_depend_on_how_hard_each_kind_is(before, after, a, b):
    shift = {"a": a, "b": b}
    plain = growth(units(before), units(after), level=0.01)
    moved = growth(
        *([Unit(u.stratum, u.value + shift[u.stratum]) for u in units(w)] for w in (before, after)),
        level=0.01,
    )
    assert math.isclose(plain.growth, moved.growth, abs_tol=1e-9)
    assert abs(plain.p - moved.p) < 5e-3, "the same resamples, up to ties"


@given(RATES, RATES)
@settings(max_examples=15, deadline=None)
def test_growth_one_way_is_the_fall_the_other_way(before, after):
    there = growth(units(before), units(after), level=0.01)
    back = growth(units(after), units(before), level=0.01)
    assert math.isclose(there.growth, -back.growth, abs_tol=1e-9)
    assert there.low <= there.growth + 1e-12
    assert 0 < there.p <= 1
    assert max(there.p, back.p) > 0.49, "not both grew"


def test_a_hard_kind_that_comes_oftener_later_is_no_growth():
    before = [Unit("easy", 0.0)] * 12 + [Unit("hard", 0.9)] * 4
    after = [Unit("easy", 0.0)] * 4 + [Unit("hard", 0.9)] * 12
    tested = growth(before, after, level=0.01)
    assert tested.after - tested.before > 0.4
    assert abs(tested.growth) < 1e-9
    assert tested.p > 0.2


def test_growth_is_rarely_claimed_where_there_is_none_and_mostly_where_it_is():
    draw = random.Random(3)

    def visits(n, rate):
        kinds = [
            (k, min(1.0, max(0.0, rate + d))) for k, d in (("a", -0.2), ("b", 0.0), ("c", 0.2))
        ]
        made = []
        for i in range(n):
            kind, chance = kinds[i % 3]
            made.append(Unit(kind, sum(draw.random() < chance for _ in range(8)) / 8))
        return made

    level = 0.02
    null = [growth(visits(32, 0.3), visits(16, 0.3), level=level, seed=i).p for i in range(300)]
    assert sum(p <= level for p in null) <= 14, "6 are expected of 300, 14 in 1 of 700 tries"
    real = [growth(visits(32, 0.3), visits(16, 0.6), level=level, seed=i).p for i in range(40)]
    assert sum(p <= level for p in real) >= 38


def test_too_little_proves_nothing():
    assert growth(units([0.0] * 7), units([1.0] * 30), level=0.01) is None
    assert exceeds_zero([1.0] * 7) == 1.0
    assert outlier([1.0, 1.0, 1.0], 99.0, 0.1) == 1.0


def test_equal_units_that_jump_are_seen():
    tested = growth(units([0.0] * 12), units([1.0] * 8), level=1e-3)
    assert tested.p < 1e-3
    assert tested.low > 0.8


def test_p_reaches_below_what_resamples_can_tell():
    level = 1e-7
    tested = growth(units([0.0] * 24), units([1.0] * 16), level=level)
    assert 0 < tested.p < level
    assert 0.3 < tested.low < tested.growth
    assert 0 < exceeds_zero([0.4, 0.5, 0.6] * 8) < level


def test_a_growth_is_significant_where_its_lower_bound_is_above_zero():
    draw = np.random.default_rng(8)
    for i in range(40):
        level = float(10 ** draw.uniform(-6, -2))
        made = (list(draw.binomial(8, rate, 16) / 8) for rate in (0.3, draw.uniform(0.3, 0.9)))
        tested = growth(*map(units, made), level=level, seed=i)
        if not 0.5 < tested.p / level < 2:  # the quantile of few resamples is interpolated
            assert (tested.p <= level) == (tested.low >= 0)


def test_few_units_claim_a_growth_no_oftener_than_they_may():
    draw, level, n = np.random.default_rng(4), 0.004, 1200
    for rate, size in ((0.3, 4), (0.5, 8)):
        p = [
            growth(
                *([Unit("", float(x)) for x in draw.binomial(size, rate, 8) / size] for _ in "ab"),
                level=level,
                seed=i,
            ).p
            for i in range(n)
        ]  # fmt: skip
        assert sum(x <= level for x in p) <= 3 * level * n, "5 are expected of 1,200"
    null = [exceeds_zero(list(draw.binomial(4, 0.3, 8) / 4 - 0.3), seed=i) for i in range(n)]
    assert sum(x <= level for x in null) <= 3 * level * n


def test_a_mean_above_zero_is_rarely_claimed_of_units_around_zero():
    draw = np.random.default_rng(5)
    null = [exceeds_zero(list(draw.choice([-0.1, 0.9], 30, p=[0.9, 0.1]))) for _ in range(300)]
    assert sum(p <= 0.05 for p in null) <= 27, "15 are expected; 27 in 1 of 500 tries"
    assert exceeds_zero([0.3, 0.5, 0.4] * 6) < 1e-3
    assert exceeds_zero([-0.3, -0.5, 0.1] * 6) > 0.9


@given(st.integers(1, 8), st.integers(0, 8), st.integers(1, 8), st.integers(0, 8))
def test_fishers_tail_counts_every_way_to_place_the_events(n_now, now, n_earlier, earlier):
    now, earlier = min(now, n_now), min(earlier, n_earlier)
    places = range(n_now + n_earlier)
    chosen = list(combinations(places, now + earlier))
    hits = sum(sum(i < n_now for i in c) >= now for c in chosen)
    assert math.isclose(
        fisher_tail(now, n_now, earlier, n_earlier), hits / len(chosen), rel_tol=1e-12
    )


@given(st.integers(0, 30), st.integers(1, 30))
def test_the_binomial_tail_is_exact(successes, n):
    successes, rate = min(successes, n), Fraction(1, 20)
    exact = sum(math.comb(n, i) * rate**i * (1 - rate) ** (n - i) for i in range(successes, n + 1))
    assert math.isclose(binomial_tail(successes, n, 0.05), float(exact), rel_tol=1e-9)
    assert binomial_tail(2000, 5000, 0.05) < 1e-100, "no overflow"


def test_an_outlier_is_judged_by_students_t():
    # t = 3 at 9 degrees: the table says 0.00748. Ten values with median 0 and spread 1.
    earlier = [-1.0 / 1.4826, 1.0 / 1.4826] * 5
    value = 3.0 * math.sqrt(1.1)
    assert outlier(earlier, value, 0.1) == pytest.approx(0.00748, rel=0.02)
    assert outlier(earlier, -value, 0.1) == pytest.approx(1 - 0.00748, rel=0.02)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4)), min_size=2, max_size=12))
def test_a_clustered_interval_holds_the_rate_and_never_leaves_0_to_1(tasks):
    values = [float(i < min(c, n)) for c, n in tasks for i in range(n)]
    clusters = [i for i, (_, n) in enumerate(tasks) for _ in range(n)]
    low, high = clustered_interval(values, clusters)
    rate = sum(values) / len(values)
    assert -1e-12 <= low <= rate + 1e-9
    assert rate - 1e-9 <= high <= 1 + 1e-12
    # Repeating what every task said adds nothing that is not known.
    again = clustered_interval(values * 3, clusters * 3)
    assert again[1] - again[0] >= (high - low) * 0.999 or len(values) > len(set(clusters))


def test_samples_of_one_task_that_agree_count_once():
    values, clusters = [1.0] * 40 + [0.0] * 40, [i // 8 for i in range(80)]
    low, high = clustered_interval(values, clusters)
    assert (low, high) == pytest.approx(wilson_interval(4, 9)[0:2], abs=0.06), "about ten samples"
    assert high - low > 2 * (wilson_interval(40, 80)[1] - wilson_interval(40, 80)[0])
    assert clustered_interval([0.0] * 6, list("aabbcc")) == wilson_interval(0, 3)
    with pytest.raises(ValueError, match="between 0 and 1"):
        clustered_interval([2.0, 0.0], ["a", "b"])
