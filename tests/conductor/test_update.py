"""What one batch's optimiser steps see, on hand-made episodes."""

import pytest
import torch

from steelyard.conductor.update import Plan, update
from steelyard.episodes import Episode, Group, Scored, Segment, StopReason, Trajectory
from steelyard.learner import Learner, LearnerSettings
from steelyard.models import resolve
from steelyard.objective import Correction, GroupComparison, algorithm


def episode(number, turns, reward, group="g"):
    segment = Segment()
    segment.append_context([5, 6, 7])
    for k in range(turns):
        action = [11 + number % 2, 12, 13 + (number + k) % 3]
        segment.append_action(action, [-4.5] * 3, [0] * 3)
        if k < turns - 1:
            segment.append_context([9, 10])
    return Episode(
        id=str(number),
        task="t",
        group=group,
        trajectory=Trajectory([segment]),
        outcome=Scored(reward),
        stop_reason=StopReason.SUBMITTED,
    )


@pytest.fixture
def learner(tiny_model):
    return Learner(resolve(str(tiny_model)), LearnerSettings(dtype="float32", threads=1))


@pytest.mark.parametrize("name", ["dapo", "gspo", "ctpo"])
@pytest.mark.parametrize("epochs", [1, 2])
def test_a_turn_without_an_advantage_still_belongs_to_its_episodes_ratio(learner, name, epochs):
    """The only second turn has no peer: its tokens are absent from the loss, not from ρ."""
    group = Group("g", "t", [episode(0, 2, 1.0), episode(1, 1, 0.0), episode(2, 1, 0.0)])
    row = algorithm(name, credit=GroupComparison(scale="std", level="turn"))
    done = update([group], learner, row, Plan(1e-3, 1.0, epochs=epochs))
    assert done.measures["dropped_tokens"] == 0
    assert done.advantage_T.isnan().tolist() == [False] * 3 + [True] * 3 + [False] * 6
    assert torch.isfinite(done.prox_logp_T).all()


def split_episode(number, reward):
    """Two segments, as after a compaction: the ratio runs over both."""
    segments = []
    for k in range(2):
        segment = Segment()
        segment.append_context([20 + 5 * k + number, 6, 7])
        segment.append_action([11, 12, 13 + number % 3], [-4.5] * 3, [0] * 3)
        segments.append(segment)
    return Episode(
        id=str(number),
        task="t",
        group="g",
        trajectory=Trajectory(segments),
        outcome=Scored(reward),
        stop_reason=StopReason.SUBMITTED,
    )


@pytest.mark.parametrize("name", ["gspo", "ctpo", "full_ratio"])
@pytest.mark.parametrize("scope", [None, "full"])
def test_a_ratio_over_segments_does_not_depend_on_where_they_are_computed(tiny_model, name, scope):
    group = Group("g", "t", [split_episode(i, float(i % 2)) for i in range(4)])
    row = algorithm(name, correction=scope and Correction(scope=scope, prox="recomputed"))
    outcomes = []
    for max_bin_tokens in (8, 1000):
        settings = LearnerSettings(dtype="float32", threads=1, max_bin_tokens=max_bin_tokens)
        learner = Learner(resolve(str(tiny_model)), settings)
        done = update([group], learner, row, Plan(1e-3, 1.0, epochs=3))
        assert done.measures["dropped_tokens"] == 0
        outcomes.append((done.metrics.loss, done.measures["limited_fraction"]))
        assert done.metrics.bins >= (12 if max_bin_tokens == 8 else 3)
    assert outcomes[0] == pytest.approx(outcomes[1], abs=1e-5)


def test_the_first_of_several_steps_starts_at_ratio_one(learner):
    """GSPO's window is 3e-4 wide: whatever moved the numbers would be clipped."""
    group = Group("g", "t", [episode(i, 1 + i % 2, float(i % 2)) for i in range(4)])
    done = update([group], learner, algorithm("gspo"), Plan(1e-12, 1.0, epochs=2))
    assert done.measures["limited_fraction"] == 0


def test_minibatches_are_whole_groups_and_each_counts_its_own_tokens(learner):
    groups = [
        Group(f"g{g}", "t", [episode(g + i, 1 + g, float(i % 2), f"g{g}") for i in range(2)])
        for g in range(3)
    ]
    seen = []
    step = learner.step

    def watch(batch, loss, weight_T, **rest):
        seen.append((batch, weight_T))
        return step(batch, loss, weight_T, **rest)

    learner.step = watch
    update(groups, learner, algorithm("dapo"), Plan(1e-3, 1.0, minibatches=2))
    assert len(seen) == 2
    members = [set(batch.group_T[w != 0].tolist()) for batch, w in seen]
    assert not (members[0] & members[1])
    assert members[0] | members[1] == {0, 1, 2}
    assert all(float(w.sum()) == pytest.approx(1.0) for _, w in seen)
