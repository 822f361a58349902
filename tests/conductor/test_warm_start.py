"""The schedule of the warm start, and which demonstrations slip."""

import pytest

from steelyard.conductor.settings import WarmStartSection
from steelyard.conductor.warm_start import choose_slips, rate_of
from steelyard.tasks import FunctionChecks, Task


@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_a_schedule_of_any_length_stays_within_the_rate(n):
    rate = rate_of(WarmStartSection(learning_rate=1e-3), n)
    steps = [rate.at(i) for i in range(max(1, n))]
    assert all(0 < value <= 1e-3 for value in steps)


def test_the_share_that_slips_is_the_one_asked_for_and_depends_on_the_seed():
    tasks = [Task(f"t{i}", "Fix f.", FunctionChecks("m.py", "f", ())) for i in range(30)]
    assert choose_slips(tasks, 0.0, 0) == {}
    assert choose_slips(tasks, 1.0, 0).keys() == {task.name for task in tasks}
    some = choose_slips(tasks, 0.5, 0)
    assert sorted(some.values()) == [1] * 8 + [2] * 7, "half of them make the error twice"
    assert some == choose_slips(tasks, 0.5, 0)
    assert some.keys() != choose_slips(tasks, 0.5, 1).keys()
