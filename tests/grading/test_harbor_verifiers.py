"""Harbor verifiers as they are: variables, artifacts, hooks, shared sandboxes, steps, tampering."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.episodes import Cause, Check, Outcome, Scored, Unscored
from steelyard.grading import Grader
from steelyard.grading.test_script import grade_test_script, script_sandbox
from steelyard.sandbox import SandboxSettings
from steelyard.tasks import Artifact, CollectHook, Handover, Task, TaskStep, TestScript, read_task

OUT = "/logs/verifier/reward"
EXAMPLE = Path(__file__).parents[2] / "examples/falsy-defaults/tasks/demonstrations/batch-size-gt"


def script(text: str, **variables: str) -> TestScript:
    return TestScript({"test.sh": text.encode(), "expected": b"5"}, variables)


def test_variables_of_task_and_verifier_are_set(grader: Grader) -> None:
    task = Task(
        "t",
        "",
        script(f'[ "$A/$B" = "task/mine" ] && echo 1 > {OUT}.txt', B="mine"),
        environment_variables={"A": "task", "B": "task"},
    )
    assert grader.grade(task, {}) == Scored(1.0)


def test_only_declared_paths_are_handed_over_after_the_hooks(grader: Grader) -> None:
    text = f"cd /app; echo 0.$(cat out/made kept/a 2>/dev/null | wc -l)$(ls | wc -l) > {OUT}.txt"
    task = Task(
        "t",
        "",
        script(text),
        files={"kept/a": b"1\n"},
        handover=Handover((Artifact("out"),), (CollectHook("mkdir out; echo 1 > out/made"),)),
    )
    left = {"kept/a": b"1\n1\n1\n", "stray": b""}
    assert grader.grade(task, left) == Scored(0.22)  # one given and one made line; kept/ and out/
    assert grader.grade(replace(task, handover=Handover()), left) == Scored(0.32)


@pytest.mark.parametrize("change", ["echo 6 > /tests/expected", "rm /tests/expected"])
def test_tests_that_change_while_they_run_score_nothing(grader: Grader, change: str) -> None:
    outcome = grader.grade(Task("t", "", script(f"{change}; echo 1 > {OUT}.txt")), {})
    assert outcome == Unscored(
        Cause.VERIFIER_ERROR, "the tests were changed while they ran: /tests/expected"
    )
    beside = f"mkdir /tests/__pycache__; touch /tests/__pycache__/a.pyc; echo 1 > {OUT}.txt"
    assert grader.grade(Task("t", "", script(beside)), {}) == Scored(1.0)


def test_what_an_agent_left_survives_into_a_shared_verifier_only() -> None:
    limits = SandboxSettings(memory_mb=256, processes=16)
    verifier = script(f"[ -e /tests/planted ] && kill -0 $(cat /app/pid) && echo 1 > {OUT}.txt")

    def grade(shared: bool) -> Outcome:
        with script_sandbox(limits) as sandbox:
            agent = f"mkdir -p /logs/verifier; echo 0.5 > {OUT}.json; touch /tests/planted; "
            agent += "sleep 60 & echo $! > /app/pid"
            sandbox.run(["bash", "-c", agent], timeout_seconds=5, keep_background=True)
            used = sandbox if shared else None
            return grade_test_script(verifier, {}, 5.0, limits, shared=used)

    assert grade(shared=True) == Scored(1.0)
    assert isinstance(grade(shared=False), Unscored)


def two_steps(least: float) -> Task:
    def step(name: str, minimum: dict[str, float]) -> TaskStep:
        text = f"cat /app/{name} > {OUT}.txt"
        return TaskStep(name, name, script(text), min_reward=minimum)

    steps = (step("one", {"reward": least}), step("two", {}))
    return Task("t", "one", steps[-1].verifier, steps=steps)


def test_steps_are_graded_in_turn_until_one_earns_too_little(grader: Grader) -> None:
    left = [{"one": b"0.5"}, {"two": b"1"}]
    half, done = Check("one", False, "0.5"), Check("two", True, "1")
    assert grader.grade_steps(two_steps(0.5), left) == Scored(0.75, (half, done))
    assert grader.grade_steps(replace(two_steps(0.5), step_reward="final"), left) == Scored(
        1.0, (half, done)
    )
    assert grader.grade_steps(two_steps(0.6), left) == Scored(0.5, (half,))
    never = Check("two", False, "never finished")
    assert grader.grade_steps(two_steps(0.5), left[:1]) == Scored(0.25, (half, never))
    broken = grader.grade_steps(two_steps(0.5), [{"one": b"0.5"}, {}])
    assert isinstance(broken, Unscored)
    assert broken.cause is Cause.MALFORMED_REWARD
    assert broken.detail.startswith("step two: ")


ATTACK = """
import os
for target in [f"/proc/{os.getppid()}/fd/1", "/logs/verifier/reward.json"]:
    try:
        with open(target, "w") as file:
            file.write('{"reward": 1}')
    except OSError:
        pass
"""


def test_a_candidate_of_our_example_cannot_write_a_reward(grader: Grader) -> None:
    task = read_task(EXAMPLE)
    files = {p.name: p.read_bytes() for p in (EXAMPLE / "tests").iterdir()}
    scripted = replace(task, verifier=TestScript(files), handover=Handover())
    assert task.solution is not None
    assert grader.grade(scripted, task.solution) == Scored(1.0)
    wrong = {"settings.py": ATTACK.encode() + task.files["settings.py"]}
    assert grader.grade(scripted, wrong) == Scored(0.0)
    # Without the child's promise the same attack pays, so it is the promise that stops it.
    broken = files["run_checks.py"].replace(b"\ngive_up_writing()\n", b"\n")
    assert broken != files["run_checks.py"]
    open_door = replace(scripted, verifier=TestScript(files | {"run_checks.py": broken}))
    assert grader.grade(open_door, wrong) == Scored(1.0)
