"""The schedule of the warm start."""

import pytest

from steelyard.conductor.settings import WarmStartSection
from steelyard.conductor.warm_start import rate_of


@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_a_schedule_of_any_length_stays_within_the_rate(n):
    rate = rate_of(WarmStartSection(learning_rate=1e-3), n)
    steps = [rate.at(i) for i in range(max(1, n))]
    assert all(0 < value <= 1e-3 for value in steps)
