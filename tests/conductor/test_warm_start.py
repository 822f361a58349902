"""Kinds that the warm start left behind are imitated further."""

import pytest

from steelyard.conductor.settings import WarmStartSection
from steelyard.conductor.warm_start import further_batches, rate_of, weak_kinds
from steelyard.episodes import (
    Cause,
    Episode,
    Scored,
    Segment,
    StopReason,
    Trajectory,
    Unscored,
)


def demonstration(token):
    segment = Segment()
    segment.append_context([1, 2])
    segment.append_action([token], [0.0], [0])
    return Trajectory([segment])


def episode(kind, outcome, heldout=None):
    return Episode(
        "e", "t", "g", demonstration(3), outcome, StopReason.SUBMITTED, heldout, kind=kind
    )


def test_a_kind_is_weak_by_the_verifier_alone_and_unscored_episodes_do_not_count():
    failed, solved = Scored(0.0), Scored(1.0)
    episodes = [
        *[episode("dead", failed)] * 8,
        *[episode("alive", solved)] * 2,
        *[episode("alive", failed)] * 6,
        # What the verifier passes and held-out checks do not is no reason to teach it further.
        *[episode("hacked", solved, failed)] * 8,
        *[episode("unscored", Unscored(Cause.SANDBOX_FAILURE, "it did not start"))] * 8,
    ]
    assert weak_kinds(episodes, 0.25) == {"dead"}
    assert weak_kinds(episodes, 0.26) == {"dead", "alive"}


def test_half_of_each_batch_is_weak_and_every_weak_demonstration_comes_once_an_epoch():
    kinds = ["a"] * 5 + ["b"] * 7
    played = [demonstration(10 + i) for i in range(12)]
    section = WarmStartSection(episodes_per_batch=4, weak_epochs=2)
    plan = further_batches(played, kinds, {"a"}, section, seed=0)
    assert len(plan) == 6
    seen = [batch.target_T.tolist() for batch in plan]
    weak = [t for batch in seen for t in batch if t < 15]
    assert sorted(weak) == sorted([10, 11, 12, 13, 14] * 2)
    assert all(sum(t >= 15 for t in batch) == 2 for batch in seen)
    again = further_batches(played, kinds, {"a"}, section, seed=0)
    assert seen == [batch.target_T.tolist() for batch in again]
    assert not further_batches(played, kinds, set(), section, seed=0)


@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_a_schedule_of_any_length_stays_within_the_rate(n):
    rate = rate_of(WarmStartSection(learning_rate=1e-3), n, share=0.5)
    steps = [rate.at(i) for i in range(max(1, n))]
    assert all(0 < value <= 5e-4 for value in steps)
