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


def test_a_further_epoch_holds_every_demonstration_and_weak_ones_repeatedly():
    kinds = ["a"] * 5 + ["b"] * 7
    played = [demonstration(10 + i) for i in range(12)]
    section = WarmStartSection(episodes_per_batch=4, weak_epochs=2, weak_repeats=3)
    plan = further_batches(played, kinds, {"a"}, section, seed=0)
    seen = [batch.target_T.tolist() for batch in plan]
    epoch = sorted([10, 11, 12, 13, 14] * 3 + list(range(15, 22)))
    assert [len(batch) for batch in seen] == [4, 4, 4, 4, 4, 2] * 2
    first, second = ([t for batch in seen[i : i + 6] for t in batch] for i in (0, 6))
    assert sorted(first) == sorted(second) == epoch
    assert first != second != epoch != first, "each epoch has an order of its own"


def test_further_batches_depend_on_the_seed_alone_and_without_weak_kinds_there_are_none():
    played = [demonstration(10 + i) for i in range(12)]

    def targets(weak, seed):
        plan = further_batches(played, ["a", "b"] * 6, weak, WarmStartSection(), seed)
        return [batch.target_T.tolist() for batch in plan]

    assert targets({"a"}, 0) == targets({"a"}, 0) != targets({"a"}, 1)
    assert targets(set(), 0) == targets({"never demonstrated"}, 0) == []
    assert sum(map(len, targets({"a", "b"}, 0))) == 36, "all weak: all of them are repeated"


@pytest.mark.parametrize("n", [0, 1, 3, 40])
def test_a_schedule_of_any_length_stays_within_the_rate(n):
    rate = rate_of(WarmStartSection(learning_rate=1e-3), n, share=0.5)
    steps = [rate.at(i) for i in range(max(1, n))]
    assert all(0 < value <= 5e-4 for value in steps)
