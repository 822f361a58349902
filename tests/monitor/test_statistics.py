"""Numbers worked out by hand, and properties that hold for all."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.monitor import (
    clustered_standard_error,
    mean_over_tasks,
    pass_at_k,
    pass_hat_k,
    wilson_interval,
)
from steelyard.monitor.statistics import variety

COUNTS = st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n)))


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [
        # z = 1.959964, z² = 3.841459. For 1 of 2: centre ½, half-width
        # z √(1/8 + 3.841459/16) / (1 + 3.841459/2) = 1.959964 · .604208 / 2.920729 = .405458.
        (1, 2, 0.094531, 0.905469),
        (0, 10, 0.0, 0.277533),  # z² / (n + z²) = 3.841459 / 13.841459
        (10, 10, 0.722467, 1.0),  # n / (n + z²)
        (81, 263, 0.255289, 0.366219),  # Newcombe 1998, table I: .2553 to .3662
    ],
)
def test_wilson_by_hand(successes: int, n: int, low: float, high: float) -> None:
    assert wilson_interval(successes, n) == pytest.approx((low, high), abs=1e-5)


@given(COUNTS, st.floats(0.5, 0.999))
def test_wilson_bounds_solve_their_equation(counts: tuple[int, int], confidence: float) -> None:
    """Each bound p is where |p̂ − p| = z √(p(1 − p)/n): the definition, not the closed form."""
    from statistics import NormalDist

    n, successes = counts
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    low, high = wilson_interval(successes, n, confidence)
    assert 0.0 <= low <= successes / n <= high <= 1.0
    for bound in (low, high):
        distance = abs(successes / n - bound)
        assert distance == pytest.approx(z * math.sqrt(bound * (1 - bound) / n), abs=1e-7)


@given(COUNTS)
def test_wilson_is_symmetric_and_narrows(counts: tuple[int, int]) -> None:
    n, successes = counts
    low, high = wilson_interval(successes, n)
    other_low, other_high = wilson_interval(n - successes, n)
    assert (1 - other_high, 1 - other_low) == pytest.approx((low, high))
    more_low, more_high = wilson_interval(10 * successes, 10 * n)
    assert more_high - more_low < high - low


@pytest.mark.parametrize(("successes", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_wilson_refuses_impossible_counts(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match=r"at least one sample|between 0 and n"):
        wilson_interval(successes, n)


def test_clustered_error_by_hand() -> None:
    # Two tasks that always agree with themselves: as uncertain as two samples, however many.
    values, tasks = [1.0, 1.0, 0.0, 0.0], ["a", "a", "b", "b"]
    assert clustered_standard_error(values, tasks) == pytest.approx(math.sqrt(2) / 4)
    # Residuals ½, ½, −½, −½ alone: √(4 · ¼) / 4 = ¼.
    assert clustered_standard_error(values, [0, 1, 2, 3]) == pytest.approx(0.25)
    # Each task has one success and one failure: the tasks do not differ at all.
    assert clustered_standard_error([1.0, 0.0, 0.0, 1.0], tasks) == 0.0
    # Unequal clusters: mean ⅓; sums of residuals 4/3 − … a: 2·(⅔) = 4/3, b: 4·(−⅓) = −4/3.
    uneven = clustered_standard_error([1.0, 1.0, 0.0, 0.0, 0.0, 0.0], list("aabbbb"))
    assert uneven == pytest.approx(math.sqrt(2 * (4 / 3) ** 2) / 6)
    with pytest.raises(ValueError, match="2 values and 1 clusters"):
        clustered_standard_error([1.0, 0.0], ["a"])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.integers(1, 5))
def test_repeating_a_sample_in_its_cluster_adds_no_certainty(
    values: list[float], times: int
) -> None:
    alone = clustered_standard_error(values, range(len(values)))
    repeated = [v for v in values for _ in range(times)]
    clusters = [i for i in range(len(values)) for _ in range(times)]
    assert clustered_standard_error(repeated, clusters) == pytest.approx(alone)


@given(st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), st.data())
def test_pass_at_k_and_pass_hat_k_count_subsets(
    counts: tuple[int, int], data: st.DataObject
) -> None:
    n, successes = counts
    k = data.draw(st.integers(1, n))
    samples = [True] * successes + [False] * (n - successes)
    subsets = list(combinations(samples, k))
    any_passes = Fraction(sum(any(s) for s in subsets), len(subsets))
    all_pass = Fraction(sum(all(s) for s in subsets), len(subsets))
    assert pass_at_k(n, successes, k) == pytest.approx(float(any_passes))
    assert pass_hat_k(n, successes, k) == pytest.approx(float(all_pass))


def test_pass_at_k_by_hand() -> None:
    assert pass_at_k(10, 3, 1) == pytest.approx(0.3)
    assert pass_at_k(4, 2, 2) == pytest.approx(5 / 6)  # 1 − 1/6
    assert pass_hat_k(4, 2, 2) == pytest.approx(1 / 6)
    assert pass_at_k(3, 2, 2) == 1.0  # fewer than two failures
    mean = mean_over_tasks(pass_at_k, [(4, 2), (4, 0), (3, 2)], 2)
    assert mean == pytest.approx((5 / 6 + 0 + 1) / 3)


@pytest.mark.parametrize("k", [0, 5])
def test_k_beyond_the_samples_is_refused(k: int) -> None:
    with pytest.raises(ValueError, match=f"got k={k}, n=4"):
        pass_at_k(4, 2, k)
    with pytest.raises(ValueError, match=f"got k={k}, n=4"):
        pass_hat_k(4, 2, k)
    with pytest.raises(ValueError, match="at least one task"):
        mean_over_tasks(pass_at_k, [], 1)


def test_variety_is_0_where_all_are_the_same_and_1_where_none_are() -> None:
    assert [variety(distinct, 8) for distinct in (1, 8)] == [0.0, 1.0]
    assert variety(2 + 3, 8 + 8, 2) == pytest.approx(3 / 14)
    assert [variety(1.0, size) for size in (2, 8, 64)] == [0.0] * 3, "whatever the size of a group"
    assert variety(1, 1) is None, "one episode says nothing"
    assert variety(3, 3, 3) is None
