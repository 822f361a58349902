"""Why no gradient: every cause from a record that shows it, and what the record leaves open."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from made_run import BUGGY, FIXED, episode, failed, passed, write_run

from steelyard.episodes import (
    Cause,
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
from steelyard.monitor import view, wilson_interval
from steelyard.monitor.causes import Why
from steelyard.monitor.diagnosis import diagnose
from steelyard.monitor.symptoms import Attempt, Symptom
from steelyard.store import BASE_STEP, RunReader, RunStore

CONFIG = {"engine": {"temperature": 0.7}, "agent": {"max_turns": 5}}
VARIED = [f"# {i}\n{BUGGY}" for i in range(8)]


def attempts(
    task: str,
    outcome: Outcome,
    *,
    heldout: Outcome | None = None,
    stop_reason: StopReason = StopReason.SUBMITTED,
    programs: Iterable[str] = VARIED,
    name: str = "g1",
) -> list[Episode]:
    return [
        episode(
            f"{name}/{i}", task, outcome, heldout=heldout, stop_reason=stop_reason, program=program
        )
        for i, program in enumerate(programs)
    ]


def calling(task: str, *calls: ToolCall) -> list[Episode]:
    """Attempts that make these calls, one a turn, until their turns are over."""
    episodes = []
    for i in range(4):
        segment = Segment()
        segment.append_context([7])
        segment.append_action([1, 2], [-0.5, -0.5], [0, 0])
        turns = [Turn(0, (1, 3), (3, 3), "I would", (call,)) for call in calls]
        episodes.append(
            Episode(
                f"g1/{i}", task, "g1", Trajectory([segment], turns), Scored(0.0),
                StopReason.TURN_LIMIT, files={"settings.py": VARIED[i].encode()}, kind="or",
            )
        )  # fmt: skip
    return episodes


def recorded(path: Path, *groups: list[Episode]) -> RunReader:
    with RunStore.start(path / "run", CONFIG) as store:
        for step, episodes in enumerate(groups, 1):
            group = Group(episodes[0].group, episodes[0].task, episodes)
            store.add_group(step, group, "train", used=True)
    return RunReader(path / "run")


REFUSED = Scored(0.0)
PROSE = ToolCall("", {}, "error: a turn is one JSON object", error=True)
READ = ToolCall("read", {}, "x")
SAME = ToolCall("edit", {"old": "a", "new": "a"}, "error: nothing would change", error=True)
ERROR = Unscored(Cause.VERIFIER_TIMEOUT, "the verifier took 60 s")
GROUPS = {
    Why.ERROR: (attempts("t-or", ERROR), "shown", "8 of 8 attempts have no reward: 8 verifier_t"),
    Why.TRUNCATED: (
        attempts("t-or", failed(), stop_reason=StopReason.TRUNCATED),
        "shown", "8 of 8 scored attempts were cut in the middle of a turn",
    ),
    Why.REPEATS_ITSELF: (
        calling("t-or", SAME, SAME, SAME, READ),
        "shown", "8 of their 16 calls are the call before them again",
    ),
    Why.UNPARSED: (
        calling("t-or", PROSE, PROSE, READ),
        "shown", "8 of their 12 calls are not one JSON object",
    ),
    Why.NOT_HANDED_IN: (
        attempts("t-or", failed(), stop_reason=StopReason.TURN_LIMIT),
        "shown", "ended by: turn_limit 8",
    ),
    Why.NO_EXPLORATION: (
        attempts("t-or", failed(), programs=[BUGGY] * 8),
        "shown", "distinct final workspaces: 1 in 8 episodes",
    ),
    Why.REJECTS_RIGHT_WORK: (
        attempts("t-or", failed(), heldout=Scored(1.0)),
        "likely", "held-out checks accept 8 of the 8 that they judged",
    ),
    Why.BEYOND_ABILITY: (
        attempts("t-or", failed(), heldout=REFUSED),
        "likely", "held-out checks accept 0 of the 8 that they judged",
    ),
    Why.UNDECIDED: (attempts("t-or", failed()), "open", "without held-out checks the"),
    Why.MASTERED: (
        attempts("t-or", passed(), heldout=Scored(1.0)),
        "shown", "held-out checks accept 8 of 8 of them",
    ),
    Why.ACCEPTS_WRONG_WORK: (
        attempts("t-or", passed(), heldout=REFUSED),
        "likely", "held-out checks refuse 8 of 8 of them",
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", GROUPS)
def test_each_cause_is_told_from_its_record(tmp_path: Path, why: Why) -> None:
    episodes, certainty, evidence = GROUPS[why]
    reader = recorded(tmp_path, episodes)
    for name in ("g1", "t-or", None):
        found = diagnose(reader, name)
        assert (found["verdict"], found["certainty"]) == (why.value, certainty)
        assert found["next"]
        assert set(found["episodes"]) <= {e.id for e in episodes}
        assert found["episodes"]
    group = diagnose(reader, "g1")
    assert any(evidence in line for line in group["why"]), group["why"]
    decided = why in (Why.MASTERED, Why.ERROR, Why.TRUNCATED, Why.UNPARSED, Why.REPEATS_ITSELF,
               Why.NOT_HANDED_IN)  # fmt: skip
    assert (group["experiment"] is None) == decided
    if not decided:
        assert group["experiment"] == f"steelyard diagnose {tmp_path / 'run'} t-or --samples 32"


def test_an_episode_that_was_stopped_for_being_stuck_repeats_itself_however_long_it_was() -> None:
    attempt = Attempt("e", StopReason.STUCK, 0.0, None, None, None, calls=9, repeated=2)
    assert attempt.symptom is Symptom.REPEATS_ITSELF
    assert replace(attempt, stop_reason=StopReason.TURN_LIMIT).symptom is Symptom.NOT_HANDED_IN
    assert replace(attempt, unread=5).symptom is Symptom.UNPARSED


@pytest.mark.parametrize(
    ("distinct", "size", "verdict"),
    [(1, 2, "no_exploration"), (1, 3, "no_exploration"), (2, 3, "undecided")],
)
def test_small_groups_can_lack_exploration_too(
    tmp_path: Path, distinct: int, size: int, verdict: str
) -> None:
    programs = [*VARIED[:distinct], *VARIED[:1] * (size - distinct)]
    found = diagnose(recorded(tmp_path, attempts("t-or", failed(), programs=programs)), "g1")
    assert found["verdict"] == verdict


def test_a_group_of_partial_rewards_can_lack_exploration_too(tmp_path: Path) -> None:
    """Its verdict is mixed, and yet no attempt was paid in full."""
    episodes = attempts("t-or", Scored(0.25), programs=[BUGGY] * 7)
    episodes += [episode("g1/7", "t-or", Scored(0.5), program=FIXED)]
    reader = recorded(tmp_path, episodes)
    assert view(reader, "groups")["groups"][0]["verdict"] == "mixed"
    found = diagnose(reader, "g1")
    assert (found["verdict"], found["certainty"]) == ("no_exploration", "shown")
    assert "distinct final workspaces: 2 in 8 episodes" in found["why"]


def test_work_that_is_paid_elsewhere_is_not_refused_by_a_strict_verifier(tmp_path: Path) -> None:
    """The held-out checks are only weaker: better work is paid."""
    right = attempts("t-or", passed(), heldout=Scored(1.0), name="g2", programs=[FIXED] * 2)
    reader = recorded(tmp_path, attempts("t-or", failed(), heldout=Scored(1.0)), right)
    found = diagnose(reader, "g1")
    assert (found["verdict"], found["certainty"]) == ("seldom_solved", "shown")
    low, high = wilson_interval(2, 2)
    assert f"2 of 2 other attempts at the task were paid ({low:.0%} to {high:.0%})" in found["why"]
    assert "rl.episodes_per_group" in found["next"][0]


def test_advice_names_the_runs_own_values(tmp_path: Path) -> None:
    reader = recorded(tmp_path, GROUPS[Why.NO_EXPLORATION][0])
    assert "engine.temperature (now 0.7)" in diagnose(reader, "g1")["next"][0]


def test_a_task_with_only_mixed_groups_has_a_gradient(tmp_path: Path) -> None:
    mixed = attempts("t-or", failed(), programs=VARIED[:2])
    mixed += [episode("g1/2", "t-or", passed(), program=FIXED)]
    reader = recorded(tmp_path, mixed)
    for name in ("t-or", "g1", None):
        assert diagnose(reader, name)["verdict"] == "has_gradient"


def test_a_check_that_nobody_passes_is_named(tmp_path: Path) -> None:
    reader = recorded(tmp_path, GROUPS[Why.BEYOND_ABILITY][0])
    assert (
        "no attempt ever passed zero; each of the other 3 checks is met"
        in (diagnose(reader, "t-or")["why"])
    )


def test_a_run_counts_its_causes_and_names_its_worst_tasks(tmp_path: Path) -> None:
    lost = attempts("a-or", ERROR, name="g1")
    same = [attempts("b-or", failed(), programs=[BUGGY] * 4, name=name) for name in ("g2", "g3")]
    done = attempts("c-or", passed(), heldout=Scored(1.0), name="g4")
    shown = view(recorded(tmp_path, lost, *same, done), "diagnosis")
    assert shown["verdict"] == "no_exploration"
    assert {c["cause"]: (c["groups"], c["tasks"]) for c in shown["causes"]} == {
        "no_exploration": (2, 1), "sandbox_or_verifier_error": (1, 1), "mastered": (1, 1),
    }  # fmt: skip
    assert [(w["task"], w["wasted"]) for w in shown["worst"]] == [("b-or", 2), ("a-or", 1)]
    assert shown["why"][0] == "0 of 4 groups carried a gradient"
    assert shown["groups"] == {"all_fail": 2, "all_pass": 1, "unscored": 1}


def test_a_run_that_has_mastered_its_tasks_is_not_called_anything_else(tmp_path: Path) -> None:
    done = [attempts("c-or", passed(), heldout=Scored(1.0), name=name) for name in ("g1", "g2")]
    same = attempts("b-or", failed(), programs=[BUGGY] * 4, name="g3")
    shown = view(recorded(tmp_path, *done, same), "diagnosis")
    assert shown["verdict"] == "mastered"
    assert "no exploration: 1 group of 1 task" in shown["why"]
    assert "rl.dynamic_sampling" in shown["next"][0]
    assert "engine.temperature" in shown["next"][1]


def test_a_run_without_a_group_says_so(tmp_path: Path) -> None:
    shown = view(recorded(tmp_path), "diagnosis")
    assert shown["why"] == ["no training group is recorded yet"]
    assert shown["ceilings"] == {}


def test_the_known_run(tmp_path: Path) -> None:
    write_run(tmp_path / "demo")
    with RunReader(tmp_path / "demo") as reader:
        found = view(reader, "diagnosis", ["step-1/d-key", "c-or"])["diagnoses"]
        with pytest.raises(ValueError, match="no group or task 'nobody'"):
            view(reader, "diagnosis", ["nobody"])
    assert [(d["scope"], d["verdict"]) for d in found] == [
        ("group", "no_exploration"), ("task", "has_gradient"),
    ]  # fmt: skip


def test_an_experiment_decides_what_the_record_leaves_open(tmp_path: Path) -> None:
    reader = recorded(tmp_path, GROUPS[Why.UNDECIDED][0])
    made = {
        "task": "t-or", "verdict": "verifier_rejects_right_work", "certainty": "shown",
        "why": ["the verifier refuses the reference solution"], "time": "2026-01-02 03:04",
    }  # fmt: skip
    (tmp_path / "run" / "experiments.jsonl").write_text(
        json.dumps(made | {"verdict": "undecided"}) + "\n" + json.dumps(made) + "\n{torn"
    )
    found = diagnose(reader, "g1")
    assert (found["verdict"], found["certainty"]) == ("verifier_rejects_right_work", "shown")
    assert found["why"][0] == (
        "by experiment on 2026-01-02 03:04: the verifier refuses the reference solution"
    )
    assert found["experiment"] is None
    assert diagnose(reader)["ceilings"]["train"]["shown"] == ["t-or"]


def test_ceilings_count_tasks_that_refuse_right_work(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "run", CONFIG) as store:
        store.add_event("audit", "x", task="audited-or", verdict="weak", kinds=["rejects"])
        store.add_event("audit", "x", task="paid-or", verdict="weak", kinds=["rejects"])
        store.add_event("audit", "x", task="cheated-or", verdict="broken", kinds=["cheat"])
        store.add_event("audit", "written before audits named their kinds")
        groups = {
            "audited-or": attempts("audited-or", failed(), name="g1"),
            "suspect-or": attempts("suspect-or", failed(), heldout=Scored(1.0), name="g2"),
            "paid-or": attempts("paid-or", passed(), heldout=Scored(1.0), name="g3"),
            "cheated-or": attempts("cheated-or", failed(), heldout=REFUSED, name="g4"),
        }
        for step, (task, episodes) in enumerate(groups.items(), 1):
            store.add_group(step, Group(f"g{step}", task, episodes), "train", used=True)
        store.add_evaluation("base", BASE_STEP, "test", attempts("e-or", failed(), name="base"))
    ceilings = view(RunReader(tmp_path / "run"), "diagnosis")["ceilings"]
    assert ceilings["train"] == {
        "tasks": 4, "shown": ["audited-or"], "suspected": ["suspect-or"],
        "low": 0.5, "high": 0.75,
        "low_95": pytest.approx(1 - wilson_interval(2, 4)[1]),
        "high_95": pytest.approx(1 - wilson_interval(1, 4)[0]),
    }  # fmt: skip
    assert (ceilings["test"]["low"], ceilings["test"]["high"]) == (1.0, 1.0)
