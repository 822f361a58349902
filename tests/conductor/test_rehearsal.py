"""Where no episode of a step succeeds, the reference is imitated."""

from pathlib import Path
from random import Random

import pytest

from steelyard.conductor import read_run_file, train
from steelyard.conductor.listener import NullListener
from steelyard.conductor.rehearsal import evened, failed_tasks
from steelyard.conductor.replaying import replay
from steelyard.episodes import Cause, Episode, Group, Scored, StopReason, Trajectory, Unscored
from steelyard.store import RunReader
from steelyard.tasks import Task, TestScript

TASKS = Path(__file__).parents[2] / "examples" / "falsy-defaults" / "tasks"


def group(task, outcomes, heldout=None):
    return Group(
        "g",
        task,
        [
            Episode(str(i), task, "g", Trajectory([]), outcome, StopReason.SUBMITTED, heldout)
            for i, outcome in enumerate(outcomes)
        ],
    )


def test_failed_tasks_are_those_that_the_verifier_never_solved():
    failed, solved = Scored(0.0), Scored(1.0)
    unscored = Unscored(Cause.SANDBOX_FAILURE, "it did not start")
    groups = [
        group("fails", [failed, failed]),
        group("mixed", [failed, solved]),
        group("fails", [failed, failed]),
        # Held-out checks must not choose what is learned.
        group("hacked", [solved, solved], failed),
        group("broken", [unscored, unscored]),
        group("fails with an error", [failed, failed, unscored]),
    ]
    assert failed_tasks(groups) == ["fails", "fails with an error"]


def task(name, kind):
    return Task(name, "Do it.", TestScript({}), kind=kind, solution={"a.py": b""})


def test_a_batch_is_evened_over_the_kinds():
    """One lone reference would draw every kind towards itself."""
    others = [task(f"{kind}-{i}", kind) for kind in "abcd" for i in range(4)]
    failed = [task("f1", "a"), task("f2", "a"), task("b-0", "b")]
    kinds = [t.kind for t in evened(failed, others, 8, Random(0))]
    assert kinds[:3] == ["a", "a", "b"], "what failed comes first"
    assert {k: kinds.count(k) for k in "abcd"} == {"a": 2, "b": 2, "c": 2, "d": 2}
    draws = [[t.name for t in evened(failed, others, 8, Random(seed))] for seed in (0, 0, 1)]
    assert draws[0] == draws[1] != draws[2], "chosen by the draw alone"
    assert all(len(set(names)) == 8 for names in draws), "each task once"
    assert evened(failed, others, 2, Random(0)) == failed, "what failed is never left out"
    assert len(evened(failed, others, 99, Random(0))) == 3 + 15


def run_file(folder, name):
    """A run of three steps in which a random model never repairs anything."""
    path = folder.run_file(name)
    text = path.read_text().replace('reward = "rewards.py:score"\n', "")
    path.write_text(text.replace("prompts.jsonl", str(TASKS / "dev")))
    return path


CHANGES = [
    "agent.max_turns=5",
    "agent.max_turn_tokens=96",
    "rl.steps=3",
    "rl.episodes_per_group=2",
    "rl.max_groups_per_step=2",
    "evaluation.every_steps=0",
    "checkpoint.every_steps=3",
    "rl.rehearsal_rate_fraction=1.0",
]


def test_a_run_learns_from_references_where_no_group_carries_a_signal(folder):
    settings = read_run_file(run_file(folder, "rehearsing"), CHANGES)
    train(settings, NullListener())
    with RunReader(settings.path) as reader:
        steps = reader.steps("rl")
        assert {group.verdict for group in reader.groups()} == {"all_fail"}
    assert [step.values["updated"] for step in steps] == [0, 0, 0], "no group had a signal"
    assert [step.values["rehearsal_episodes"] for step in steps] == [2, 2, 2]
    assert [step.version for step in steps] == [1, 2, 3], "yet each step moved the policy"
    assert steps[-1].values["rehearsal_loss"] < steps[0].values["rehearsal_loss"]
    with pytest.raises(ValueError, match="between checkpoint 0 and step 2 the run imitated"):
        replay(settings.path, 2)


def test_a_reference_that_does_not_fit_is_left_out_and_the_run_goes_on(folder):
    changes = [*CHANGES, "agent.max_turns=1", "rl.steps=1"]
    settings = read_run_file(run_file(folder, "short"), changes)
    train(settings, NullListener())
    with RunReader(settings.path) as reader:
        (step,) = reader.steps("rl")
        notes = [event.text for event in reader.events() if event.text.startswith("not rehearsed")]
    assert "rehearsal_episodes" not in step.values
    assert len(notes) == 2
    assert all("its demonstration ends as turn_limit; raise agent.max_turns" in n for n in notes)


def test_a_run_whose_tasks_have_no_reference_is_refused(folder):
    settings = read_run_file(folder.run_file("prompts"), ["rl.rehearsal_rate_fraction=1.0"])
    with pytest.raises(ValueError, match="no task has a reference solution to imitate"):
        train(settings, NullListener())
