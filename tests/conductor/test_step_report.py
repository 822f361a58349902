"""What a step's report says of truth and cost is counted from the step's own episodes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "monitor"))
from made_run import episode, failed, lost, passed

from steelyard.conductor.collect import Collected
from steelyard.conductor.listener import StepReport
from steelyard.conductor.reporting import step_report
from steelyard.episodes import Group, Scored, StopReason, Unscored


def of(*groups: Group) -> StepReport:
    return step_report(
        1,
        Collected(list(groups), list(groups)),
        None,
        seconds={"sampling": 6.0, "training": 2.0},
        sampled=300,
        sampling_rate=100.0,
        staleness=0.0,
    )


def test_truth_is_compared_on_the_same_episodes_and_errors_are_no_zeros() -> None:
    members = [
        episode("g/0", "t-or", passed(), heldout=Scored(1.0)),
        episode("g/1", "t-or", passed(), heldout=Scored(0.0)),
        episode("g/2", "t-or", failed(), heldout=Scored(0.0)),
        episode("g/3", "t-or", failed(), heldout=lost()),  # held-out checks that broke say nothing
        episode("g/4", "t-or", lost(), heldout=Scored(0.0)),
        episode("g/5", "t-or", failed(), stop_reason=StopReason.TURN_LIMIT),
    ]
    report = of(Group("g", "t-or", members))
    assert report.paid_mean == pytest.approx(2 / 3)
    assert report.heldout_mean == pytest.approx(1 / 3)
    assert report.heldout_scored == 3
    assert report.gap == pytest.approx(1 / 3)
    assert report.reward_mean == pytest.approx(2 / 5)
    assert isinstance(members[4].outcome, Unscored)
    assert (report.episodes, report.scored) == (6, 5)
    # Five episodes with two calls each; the one that ran into the turn limit made none.
    assert (report.calls, report.call_errors, report.cut) == (10, 0, 1)
    assert report.metrics()["gap"] == report.gap
    # 300 tokens at 100 a second: the engine worked for 3 of 8 seconds, the learner for 2.
    assert report.waiting_shares == (pytest.approx(5 / 8), pytest.approx(6 / 8))


def test_without_heldout_checks_there_is_no_gap() -> None:
    report = of(Group("g", "t-or", [episode("g/0", "t-or", passed())]))
    assert (report.heldout_mean, report.paid_mean, report.gap) == (None, None, None)
    assert report.metrics()["heldout_mean"] is None


def test_the_rewards_interval_is_clustered_by_task() -> None:
    groups = [
        Group(f"g{t}", f"t{t}", [episode(f"g{t}/{i}", f"t{t}", outcome) for i in range(8)])
        for t, outcome in enumerate((passed(), failed(), passed(), failed()))
    ]
    groups[0].episodes.append(episode("g0/8", "t0", lost()))
    report = of(*groups)
    assert report.reward_mean == 0.5
    # SE² = Σ(±8/2)²/32² · 4/3 = 1/12, so n* = 1/4 · 12 = 3: four tasks, not 32 samples.
    assert report.reward_interval == pytest.approx(_wilson_of_half(3))


def _wilson_of_half(n: int) -> tuple[float, float]:
    z = 1.959964
    half = (0.25 / n + (z / (2 * n)) ** 2) ** 0.5 * z / (1 + z * z / n)
    return 0.5 - half, 0.5 + half


def test_rewards_beyond_0_and_1_have_no_interval_of_a_rate() -> None:
    members = [episode("g/0", "t-or", Scored(2.0)), episode("g/1", "t-or", failed())]
    assert of(Group("g", "t-or", members)).reward_interval is None
