"""Shaping in a real run: training sees it, dynamic sampling and evaluations do not."""

import asyncio
import itertools
import json

import pytest
from run_folder import RunFolder

from steelyard.agents import AgentSettings
from steelyard.agents.demonstration import Script
from steelyard.conductor import read_run_file, train
from steelyard.conductor.listener import NullListener
from steelyard.conductor.rollouts import Request, Rollouts
from steelyard.conductor.update import Plan, update
from steelyard.episodes import Group, Scored
from steelyard.grading import Grader, ShapingSettings
from steelyard.learner import Learner, LearnerSettings
from steelyard.models import ChatRenderer, resolve
from steelyard.monitor import view
from steelyard.objective import GroupComparison, algorithm
from steelyard.sandbox import SandboxPool
from steelyard.store import RunReader
from steelyard.tasks import (
    AnswerForm,
    CheckSpec,
    FunctionChecks,
    ProgramCheck,
    ProgramChecks,
    Task,
    write_task,
)

STOP = 2


def length_task(name, *last):
    """An answer's length decides: its remainders by 1, 2 and 3, then the commands of `last`."""
    test = "test $(( $(wc -c < answer.txt) % $0 )) -eq 0"
    checks = [ProgramCheck(f"by {n}", ("-c", test, str(n))) for n in (1, 2, 3)]
    checks += [ProgramCheck(command, ("-c", command)) for command in last]
    verifier = ProgramChecks(("sh",), tuple(checks))
    return Task(name, "Say something.", verifier, answer=AnswerForm("answer.txt"))


def run(folder, name, *changes):
    tasks = folder.path / f"{name}-tasks"
    write_task(length_task("sometimes"), tasks / "sometimes")
    write_task(length_task("never", "false"), tasks / "never")
    changes = [f'tasks.train="{tasks}"', f'tasks.test="{tasks}"', "rl.steps=3", *changes]
    settings = read_run_file(folder.run_file(name), [*changes, "evaluation.every_steps=0"])
    train(settings, NullListener(), accept_audit=True)  # "sometimes" pays an empty answer
    return settings.path


@pytest.fixture(scope="module")
def shaped_run(tmp_path_factory, tiny_model):
    folder = RunFolder(tmp_path_factory.mktemp("shaped"), tiny_model)
    return run(
        folder,
        "shaped",
        "shaping.partial_credit=0.5",
        "shaping.overlong_buffer_tokens=200",
        "agent.max_episode_tokens=220",
    )


def test_raw_and_shaped_rewards_differ_and_both_are_recorded(shaped_run):
    with RunReader(shaped_run) as reader:
        records = [r for r in reader.episode_records(purpose="train") if r.reward is not None]
        assert {r.raw for r in records} == {0.0, 1.0}
        assert len({r.reward for r in records}) > 4
        for record in records:
            assert set(record.components) == {"outcome", "partial_credit", "overlong"}
            assert record.components["outcome"] == record.raw
            assert record.reward == pytest.approx(sum(record.components.values()))
            assert record.solved == (record.raw == 1.0)
        outcome = reader.episode(records[0].id).outcome
        assert (outcome.raw, outcome.components) == (records[0].raw, records[0].components)


def test_dynamic_sampling_reads_the_raw_outcome(shaped_run):
    with RunReader(shaped_run) as reader:
        shaped_rewards = {}
        for record in reader.episode_records(purpose="train"):
            shaped_rewards.setdefault(record.group, set()).add(record.reward)
        groups = reader.groups()
        failed = [g for g in groups if set(g.rewards) == {0.0}]
        assert any(len(shaped_rewards[g.id]) > 1 for g in failed), "shaping alone would mix it"
        assert all((g.verdict, g.used) == ("all_fail", False) for g in failed)
        assert {g.task for g in groups if g.used} == {"sometimes"}


def test_evaluations_are_not_shaped(shaped_run):
    with RunReader(shaped_run) as reader:
        records = reader.episode_records(purpose="eval")
        assert records
        assert all((r.reward, r.components) == (r.raw, {}) for r in records)


def test_the_summary_names_every_component(shaped_run):
    with RunReader(shaped_run) as reader:
        step = view(reader, "summary")["steps"][0]
        means = {
            r.id: (r.raw, r.reward) for r in reader.episode_records(purpose="train", step=1)
        }.values()
    assert step["reward_mean"] == pytest.approx(sum(raw for raw, _ in means) / len(means))
    assert step["reward_shaped_mean"] == pytest.approx(sum(r for _, r in means) / len(means))
    assert set(step["components"]) == {"outcome", "partial_credit", "overlong"}
    assert sum(step["components"].values()) == pytest.approx(step["reward_shaped_mean"])


def test_training_uses_the_shaped_reward(folder):
    """Without dynamic sampling a group that solves nothing teaches by its shaped rewards alone."""
    hopeless = ["rl.dynamic_sampling=false", "rl.steps=1"]
    tasks = folder.path / "hopeless-tasks"
    write_task(length_task("never", "false"), tasks / "never")
    norms = []
    for name, change in (("plain", []), ("paid", ["shaping.partial_credit=0.5"])):
        changes = [f'tasks.train="{tasks}"', "evaluation.every_steps=0", *hopeless, *change]
        settings = read_run_file(folder.run_file(f"hopeless-{name}"), changes)
        train(settings, NullListener())
        with RunReader(settings.path) as reader:
            assert {r.raw for r in reader.episode_records(purpose="train")} == {0.0}
            norms.append(reader.steps("rl")[0].values["grad_norm"])
    assert not norms[0] > 0
    assert norms[1] > 0


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (["shaping.potential=1"], "shaping.potential: potential-based shaping telescopes"),
        (
            ["shaping.potential=1", "algorithm.name=ppo", "algorithm.credit.gamma=0.9"],
            r"shaping.potential: it discounts by turns",
        ),
        (
            ["shaping.potential=1", "algorithm.name=ppo", "algorithm.credit.bootstrap_truncated=1"],
            "shaping.potential: the potential where an episode was cut",
        ),
        (["shaping.overlong_buffer_tokens=100000"], "shaping.overlong_buffer_tokens: 100000"),
        (
            ["shaping.overlong_buffer_tokens=10", "algorithm.name=maxrl"],
            "rewards may fall below 0, and algorithm.credit.scale 'mean'",
        ),
        (["shaping.bonus=1"], "shaping.bonus: unknown key"),
    ],
)  # fmt: skip
def test_shaping_that_cannot_work_is_refused(folder, changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        read_run_file(folder.run_file("refused"), changes)


class Scripted:
    """An engine whose sessions say what they were given: edits that pass 0, 1, 2, 1 checks."""

    def __init__(self, turns):
        self._turns = turns

    def open(self, seed):
        session = Script(self._turns)
        session.close = lambda: None
        return session


def test_potentials_are_those_of_the_states_before_each_turn(smollm2, tiny_model):
    """Real edits, real grading: states of 0, 1, 2, 1 of four checks, then the hand-in."""
    checks = tuple(CheckSpec(str(n), (n,), n * n) for n in (1, 2, 3, 4))
    task = Task(
        "square",
        "Fix f.",
        FunctionChecks("m.py", "f", checks),
        files={"m.py": b"def f(n):\n    return None\n"},
    )
    bodies = ["return 1", "return {1: 1, 2: 4}.get(n)", "return n * n if n == 3 else None"]
    calls = [
        {"name": "edit", "arguments": {"old": old, "new": new}}
        for old, new in itertools.pairwise(["return None", *bodies])
    ]
    calls.append({"name": "submit", "arguments": {}})
    encode = lambda text: smollm2.tokenizer(text, add_special_tokens=False).input_ids  # noqa: E731
    turns = [[*encode(json.dumps(call)), STOP] for call in calls]
    sandboxes = SandboxPool()
    with Grader() as grader:
        rollouts = Rollouts(
            Scripted(turns), grader, ChatRenderer(smollm2.tokenizer), frozenset({STOP}), sandboxes,
            AgentSettings(), concurrency=4, lockstep=False, shaping=ShapingSettings(potential=1.0),
        )  # fmt: skip
        requests = [Request(f"g/{i}", "g", task, i, train=i < 2) for i in range(3)]
        first, second, untrained = asyncio.run(rollouts.episodes(requests))
        rollouts.close()
    sandboxes.close()
    assert first.potentials == second.potentials == (0.0, 0.25, 0.5, 0.25)
    assert untrained.potentials == ()
    assert first.outcome == untrained.outcome
    second.potentials = ()  # as if only the first were paid for its states
    second.outcome = Scored(0.0)
    learner = Learner(resolve(str(tiny_model)), LearnerSettings(dtype="float32", threads=1))
    row = algorithm("dapo", credit=GroupComparison(scale="none", level="turn"))
    done = update([Group("g", "square", [first, second])], learner, row, Plan(1e-3, 1.0))
    # F = .25, .25, −.25, −.25; what is to come of it, halved by the comparison with 0.
    per_turn = done.advantage_T[done.batch.episode_T == 0].unique_consecutive()
    assert per_turn.tolist() == [0.0, -0.125, -0.25, -0.125]
