"""Paging, filters and rates say of many episodes what their rows say one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

import pytest

from steelyard.episodes import (
    Cause,
    Check,
    Episode,
    Group,
    Outcome,
    Scored,
    Segment,
    StopReason,
    ToolCall,
    Trajectory,
    Turn,
    Unscored,
)
from steelyard.store import (
    ORDERS,
    Counts,
    EpisodeFilter,
    Regressions,
    RunReader,
    RunStore,
    Tally,
    TrainingRewards,
)

RUN = ToolCall("run", {"command": "ls"}, "settings.py")
EDIT = ToolCall("edit", {"old": "x", "new": 'print("100% é")'}, "no such file", error=True)
SUBMIT = ToolCall("submit", {}, "done")
LOST = Unscored(Cause.VERIFIER_TIMEOUT)


def played(
    name: str,
    calls: list[ToolCall],
    outcome: Outcome,
    heldout: Outcome | None = None,
    *,
    stop: StopReason = StopReason.SUBMITTED,
    text: str = "I look around",
) -> Episode:
    """An episode of the task that its group is named after; one call a turn."""
    segment, turns = Segment(), []
    segment.append_context([1])
    for call in calls:
        start = len(segment)
        segment.append_action([2, 3], [-0.5, -0.5], [len(turns) + 4] * 2)
        turns.append(Turn(0, (start, start + 2), (start + 2, start + 2), text, (call,)))
    group = name.partition("/")[0]
    return Episode(
        name, f"task-{group}", group, Trajectory([segment], turns), outcome, stop, heldout, kind="k"
    )


def checks(*passed: bool) -> tuple[Check, ...]:
    return tuple(Check(f"c{i}", p) for i, p in enumerate(passed))


TRAINING = {
    1: [
        played("a/0", [RUN, RUN, SUBMIT], Scored(1.0, checks(True, True)), Scored(0.0)),
        played("a/1", [EDIT, RUN, EDIT], Scored(0.0, checks(False, True)), Scored(1.0)),
        played("a/2", [SUBMIT], LOST, stop=StopReason.TRUNCATED, text="What a_b is"),
    ],
    2: [
        played("b/0", [RUN], Scored(0.5, checks(True, False), raw=1.0), Scored(1.0)),
        played("b/1", [], Scored(0.0), LOST, stop=StopReason.TURN_LIMIT),
    ],
}
EVALUATED = [played("c/0", [SUBMIT], Scored(1.0), Scored(1.0, checks(False, True)))]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunReader]:
    run = tmp_path_factory.mktemp("runs") / "r"
    with RunStore.start(run, {}) as store:
        for step, episodes in TRAINING.items():
            group = episodes[0].group
            store.add_group(step, Group(group, f"task-{group}", episodes), "train", True)
        store.add_evaluation("step-2", 2, "dev", EVALUATED)
        store.set_untouched({("task-a", "training"): checks(True, True)})
        store.set_untouched(
            {
                ("task-a", "training"): [*checks(False, True), Check("c1", True)],
                ("task-b", "training"): checks(False, True),
                ("task-c", "heldout"): [Check("c0", True)],
            }
        )
    with RunReader(run) as opened:
        yield opened


def names(reader: RunReader, order: str = "recorded", **conditions: Any) -> list[str]:
    records, total = reader.episode_page(0, 100, order, EpisodeFilter(**conditions))
    assert total == len(records)
    return [r.id for r in records]


def test_calls_are_counted_with_errors_and_repetitions(reader: RunReader) -> None:
    counts = {
        r.id: (r.n_calls, r.n_call_errors, r.n_repeated_calls, r.oldest_version)
        for r in reader.episode_records()
    }
    assert counts == {
        "a/0": (3, 0, 1, 4),
        "a/1": (3, 2, 0, 4),  # the same call again, but not the call just before
        "a/2": (1, 0, 0, 4),
        "b/0": (1, 0, 0, 4),
        "b/1": (0, 0, 0, None),
        "c/0": (1, 0, 0, 4),
    }


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, ["a/0", "a/1", "a/2", "b/0", "b/1", "c/0"]),
        ({"purpose": "train", "step": 2}, ["b/0", "b/1"]),
        ({"task": "task-a"}, ["a/0", "a/1", "a/2"]),
        ({"group": "b", "kind": "k"}, ["b/0", "b/1"]),
        ({"kind": "other"}, []),
        ({"split": "dev"}, ["c/0"]),
        ({"evaluation": "step-2"}, ["c/0"]),
        ({"evaluation": "final"}, []),
        ({"stop_reason": "turn_limit"}, ["b/1"]),
        ({"cause": "verifier_timeout"}, ["a/2"]),
        ({"outcome": "solved"}, ["b/0", "c/0"]),
        ({"outcome": "wrong"}, ["a/0", "a/1"]),
        ({"outcome": "unscored"}, ["a/2", "b/1"]),
        ({"tool": "edit"}, ["a/1"]),
        ({"tool": "run", "step": 2}, ["b/0"]),
        ({"text": "WHAT A_B"}, ["a/2"]),
        ({"text": "aXb"}, []),
        ({"text": "what a%b"}, []),
        ({"text": 'print("100% é")'}, ["a/1"]),
        ({"text": "settings.py", "outcome": "wrong"}, ["a/0", "a/1"]),
        ({"ids": ["b/1", "a/0", "z"]}, ["a/0", "b/1"]),
    ],
)
def test_a_filter_chooses_what_meets_all_its_conditions(
    reader: RunReader, conditions: dict[str, Any], expected: list[str]
) -> None:
    assert names(reader, **conditions) == expected


def test_pages_follow_each_other_and_hold_whole_rows(reader: RunReader) -> None:
    everything = reader.episode_records()
    paged = [reader.episode_page(offset, 2) for offset in (0, 2, 4, 6)]
    assert [r for records, _ in paged for r in records] == everything
    assert {total for _, total in paged} == {len(everything)}


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_is_that_of_the_values_with_missing_ones_last(
    reader: RunReader, order: str
) -> None:
    at = {r.id: i for i, r in enumerate(reader.episode_records())}
    values = {r.id: {**asdict(r), "recorded": at[r.id]}[order] for r in reader.episode_records()}
    known = [name for name in values if values[name] is not None]
    unknown = [name for name in values if values[name] is None]
    assert names(reader, order) == sorted(known, key=lambda n: (values[n], at[n])) + unknown
    assert names(reader, f"-{order}") == (
        sorted(known, key=lambda n: (values[n], at[n]), reverse=True) + unknown[::-1]
    )


def test_an_unknown_order_is_named(reader: RunReader) -> None:
    with pytest.raises(ValueError, match="cannot be sorted by 'files; DROP'"):
        reader.episode_page(0, 1, "files; DROP")


def test_rewards_pair_training_with_heldout_and_keep_errors_apart(reader: RunReader) -> None:
    assert reader.training_rewards() == {
        1: TrainingRewards(Tally(0, 2, 1), raw=0.5, paired=2, paired_passed=1, paired_heldout=1),
        2: TrainingRewards(Tally(1, 1, 1), raw=0.5, paired=1, paired_passed=1, paired_heldout=1),
    }


def test_counts_by_any_dimensions_keep_errors_apart(reader: RunReader) -> None:
    assert {key: c.n for key, c in reader.counts(["evaluation", "task"]).items()} == {
        (None, "task-a"): 3, (None, "task-b"): 2, ("step-2", "task-c"): 1,
    }  # fmt: skip
    assert reader.counts([])[()].n == 6
    assert reader.counts(["step"], EpisodeFilter(purpose="train")) == {
        (1,): Counts(n=3, known=2, solved=0, raw=0.5),
        (2,): Counts(n=2, known=1, solved=1, raw=0.5),
    }
    assert reader.counts([], EpisodeFilter(step=9)) == {}


def test_untouched_checks_and_what_episodes_broke(reader: RunReader) -> None:
    assert reader.untouched() == {
        "task-a": {"training": {"c0": False, "c1": True}},
        "task-b": {"training": {"c0": False, "c1": True}},
        "task-c": {"heldout": {"c0": True}},
    }
    assert reader.regressions(["task"]) == {
        ("task-a",): Regressions(checks=2, failed=0),
        ("task-b",): Regressions(checks=1, failed=1),  # b/1 ran no checks
        ("task-c",): Regressions(checks=1, failed=1),
    }
    assert reader.regressions([], EpisodeFilter(step=1))[()].checks == 2
    assert reader.regressions([], EpisodeFilter(step=9)) == {}
