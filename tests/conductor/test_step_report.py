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
    assert report.waiting == (pytest.approx(5 / 8), pytest.approx(6 / 8))


def test_without_heldout_checks_there_is_no_gap() -> None:
    report = of(Group("g", "t-or", [episode("g/0", "t-or", passed())]))
    assert (report.heldout_mean, report.paid_mean, report.gap) == (None, None, None)
    assert report.metrics()["heldout_mean"] is None
