"""Shaping: the reward that training sees, beside a raw outcome that nothing changes."""

from __future__ import annotations

import pytest
import torch

from steelyard.episodes import (
    Check,
    Episode,
    Group,
    GroupVerdict,
    Scored,
    StopReason,
    Trajectory,
)
from steelyard.grading import ShapingSettings
from steelyard.grading.shaping import brevity, overlong, partial_credit, shaped, share_passed
from steelyard.objective import GroupComparison, Runs, overlong_penalty, potential_reward
from steelyard.objective.credit import group_advantage


def passing(count: int, of: int = 4) -> Scored:
    """The outcome of a program that passes `count` checks."""
    checks = tuple(Check(str(i), i < count) for i in range(of))
    return Scored(float(count == of), checks)


def shape(outcome: Scored, length: int = 0, **settings: float) -> Scored:
    return shaped(
        outcome,
        ShapingSettings(**settings),
        length_tokens=length,
        longest=100,
        action_tokens=length,
    )


def test_a_quarter_a_check() -> None:
    """R10: four episodes pass 0, 1, 2, 1 of four checks; compared, they earn −.25, 0, +.25, 0."""
    rewards = [shape(passing(n), partial_credit=1.0).reward for n in (0, 1, 2, 1)]
    assert rewards == [0.0, 0.25, 0.5, 0.25]
    advantage, _ = group_advantage(torch.tensor(rewards), torch.zeros(4), GroupComparison())
    assert advantage.tolist() == [-0.25, 0.0, 0.25, 0.0]


def test_potentials_between_the_same_states_cancel_out() -> None:
    """Φ = .25 a check: what a turn gains it is paid, what it loses it pays back, 0 in all."""
    potential = torch.tensor([share_passed(passing(n)) for n in (0, 1, 2, 1)])
    rewards = potential_reward(potential, Runs.of(torch.zeros(4, dtype=torch.int64)))
    assert rewards.tolist() == [0.25, 0.25, -0.25, -0.25]


@pytest.mark.parametrize(
    ("outcome", "weight", "added"),
    [
        (passing(2), 0.5, 0.25),
        (passing(4), 0.5, 0.0),
        (passing(4), 1.0, 0.0),
        (passing(0), 1.0, 0.0),
        (Scored(0.0), 1.0, 0.0),
        (Scored(0.7), 1.0, 0.0),
        (Scored(0.1, (Check("a", True), Check("b", False))), 1.0, 0.4),
    ],
)
def test_partial_credit_lifts_what_is_unsolved(
    outcome: Scored, weight: float, added: float
) -> None:
    assert partial_credit(outcome, weight) == pytest.approx(added)


@pytest.mark.parametrize("length", [0, 80, 81, 90, 99, 100, 150])
def test_overlong_is_the_hearts_penalty(length: int) -> None:
    wanted = overlong_penalty(torch.tensor([length]), longest=100, buffer=20)
    assert overlong(length, longest=100, buffer=20) == pytest.approx(float(wanted))


def test_components_sum_to_the_reward_and_the_raw_outcome_stays() -> None:
    outcome = shape(passing(2), length=90, partial_credit=0.5, overlong_buffer_tokens=20)
    assert outcome.components == {"outcome": 0.0, "partial_credit": 0.25, "overlong": -0.5}
    assert (outcome.reward, outcome.raw, outcome.solved) == (-0.25, 0.0, False)
    assert outcome.checks == passing(2).checks
    long = shape(passing(4), length=100, overlong_buffer_tokens=20)
    assert (long.reward, long.raw, long.solved) == (0.0, 1.0, True)


def test_without_shaping_the_outcome_is_the_same() -> None:
    assert shape(passing(2)) == passing(2)
    assert shape(passing(2), potential=1.0) == passing(2)
    assert (passing(2).raw, passing(4).raw) == (0.0, 1.0)


def group(*outcomes: Scored) -> Group:
    episodes = [
        Episode(str(i), "t", "g", Trajectory(), outcome, StopReason.SUBMITTED)
        for i, outcome in enumerate(outcomes)
    ]
    return Group("g", "t", episodes)


def test_a_group_is_judged_by_its_raw_outcomes() -> None:
    def credited(count: int, length: int = 0) -> Scored:
        return shape(passing(count), length, partial_credit=1.0, overlong_buffer_tokens=20)

    failed = group(credited(0), credited(2), credited(3))
    assert len(set(failed.rewards)) == 3
    assert failed.verdict is GroupVerdict.ALL_FAIL
    assert group(credited(4), credited(4, 100)).verdict is GroupVerdict.ALL_PASS
    assert group(credited(4, 100), credited(0)).rewards == [0.0, 0.0]
    assert group(credited(4, 100), credited(0)).verdict is GroupVerdict.MIXED


@pytest.mark.parametrize("bad", [{"partial_credit": 1.5}, {"partial_credit": -0.1}, {"bonus": 1.0}])
def test_settings_that_make_no_sense_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        ShapingSettings(**bad)


@pytest.mark.parametrize(
    ("raw", "tokens", "expected"),
    [(1.0, 0, 0.0), (1.0, 28, -0.25), (1.0, 56, -0.5), (1.0, 500, -0.5), (0.0, 10, 0.0)],
)
def test_brevity_pays_only_what_is_solved(raw: float, tokens: int, expected: float) -> None:
    assert brevity(Scored(raw), tokens, weight=0.5, scale=56) == pytest.approx(expected)


def test_brevity_is_a_component_beside_the_raw_outcome() -> None:
    outcome = shape(passing(4), length=14, brevity=0.5, brevity_tokens=56)
    assert outcome.raw == 1.0
    assert outcome.components == {"outcome": 1.0, "brevity": -0.125}
    assert outcome.reward == 0.875
