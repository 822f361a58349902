import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import GroupComparison, group_advantage

REWARDS = st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=2, max_size=8)


def advantages(rewards: list[float], rule: GroupComparison, group: int = 0) -> list[float]:
    values, exists = group_advantage(
        torch.tensor(rewards), torch.full((len(rewards),), group), rule
    )
    assert exists.all()
    return values.tolist()


@pytest.mark.parametrize(
    ("rewards", "rule", "expected"),
    [
        ([1, 0, 0, 0], GroupComparison(), [0.75, -0.25, -0.25, -0.25]),
        ([1, 0, 0, 0], GroupComparison(scale="std", ddof=0, epsilon=0), [1.7321, *[-0.5774] * 3]),
        ([1, 0, 0, 0], GroupComparison(scale="std", ddof=1, epsilon=0), [1.5, -0.5, -0.5, -0.5]),
        ([1, 0, 0, 0], GroupComparison(baseline="leave_one_out"), [1, *[-1 / 3] * 3]),
        ([0, 0.25, 0.5, 0.25], GroupComparison(), [-0.25, 0, 0.25, 0]),
        (
            [0, 0.25, 0.5, 0.25],
            GroupComparison(scale="std", ddof=0, epsilon=0),
            [-1.4142, 0, 1.4142, 0],
        ),
        (
            [0, 0.25, 0.5, 0.25],
            GroupComparison(scale="std", ddof=1, epsilon=0),
            [-1.2247, 0, 1.2247, 0],
        ),
        ([0, 0.25, 0.5, 0.25], GroupComparison(baseline="leave_one_out"), [-1 / 3, 0, 1 / 3, 0]),
    ],
)
def test_the_notes_vectors(rewards, rule, expected):
    assert advantages(rewards, rule) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1])
@pytest.mark.parametrize("scale", ["none", "std"])
def test_an_all_equal_group_carries_exactly_nothing(value, scale):
    assert advantages([value] * 7, GroupComparison(scale=scale)) == [0.0] * 7


def test_a_group_of_one_has_no_advantage():
    values, exists = group_advantage(
        torch.tensor([1.0, 1.0, 0.0]), torch.tensor([5, 9, 9]), GroupComparison(scale="std")
    )
    assert exists.tolist() == [False, True, True]
    assert torch.isfinite(values).all()


@given(REWARDS, REWARDS)
def test_groups_do_not_see_each_other(first, second):
    rule = GroupComparison(scale="std")
    both, _ = group_advantage(
        torch.tensor(first + second),
        torch.tensor([3] * len(first) + [1] * len(second)),
        rule,
    )
    assert both.tolist() == pytest.approx(
        advantages(first, rule) + advantages(second, rule), abs=1e-6
    )


@given(REWARDS)
def test_centred_advantages_sum_to_zero_and_leave_one_out_scales_them(rewards):
    centred = advantages(rewards, GroupComparison())
    n = len(rewards)
    assert sum(centred) == pytest.approx(0, abs=1e-5)
    expected = [a * n / (n - 1) for a in centred]
    assert advantages(rewards, GroupComparison(baseline="leave_one_out")) == pytest.approx(
        expected, abs=1e-6
    )


def test_nan_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        group_advantage(torch.tensor([float("nan"), 1.0]), torch.tensor([0, 0]), GroupComparison())


def test_a_deviation_around_another_centre_is_refused():
    with pytest.raises(ValueError, match="another centre"):
        GroupComparison(baseline="leave_one_out", scale="std")
