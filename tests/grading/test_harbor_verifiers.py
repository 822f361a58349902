"""Harbor verifiers as they are: variables, artifacts, hooks, shared sandboxes, steps, tampering."""

from __future__ import annotations

import sys
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


@pytest.mark.parametrize(
    "change",
    [
        "echo 6 > /tests/expected",
        "rm -f /tests/expected",
        "mv /tests/expected /tests/e",
        "chmod 777 /tests && touch /tests/random.py",
        "mkdir /tests/__pycache__",
        "mount -o remount,rw /tests && touch /tests/a",
    ],
)
def test_nobody_changes_the_tests_while_they_run(grader: Grader, change: str) -> None:
    left = '[ "$(cat /tests/expected) $(echo $(ls -A /tests))" = "5 expected test.sh" ]'
    text = f"if {change}; then r=1; else r=0; fi; {left} && echo $r > {OUT}.txt"
    assert grader.grade(Task("t", "", script(text)), {}) == Scored(0.0)


def test_more_tests_than_can_be_held_read_only_are_compared_afterwards(grader: Grader) -> None:
    many = {f"data/{i}": b"5" for i in range(200)}

    def grade(text: str) -> Outcome:
        files = {**many, "test.sh": f"{text}; echo 1 > {OUT}.txt".encode()}
        return grader.grade(Task("t", "", TestScript(files)), {})

    assert grade("[ $(ls /tests/data | wc -l) = 200 ] || exit") == Scored(1.0)
    assert grade("echo 6 > /tests/data/7") == Unscored(
        Cause.VERIFIER_ERROR, "the tests were changed while they ran: /tests/data/7"
    )


def test_pytest_runs_in_tests_that_it_cannot_write_to(grader: Grader) -> None:
    files = {
        "test.sh": f"cd /tests && python3 -m pytest -q . && echo 1 > {OUT}.txt".encode(),
        "test_a.py": b"def test_a(tmp_path):\n    (tmp_path / 'a').write_text('')\n",
    }
    assert grader.grade(Task("t", "", TestScript(files), packages=("pytest",)), {}) == Scored(1.0)


def test_start_up_files_of_the_agent_do_not_reach_the_verifier(grader: Grader) -> None:
    """The user site of HOME is on the path of any interpreter that is not told otherwise."""
    text = f'[ -w "$HOME" ] && cd / && echo $(bash -lc "python3 -c \'print(0)\'") > {OUT}.txt'
    minor = sys.version_info.minor
    paid = b"import os\nprint(1, flush=True)\nos._exit(0)\n"
    site = {
        f".local/lib/python3.{n}/site-packages/usercustomize.py": paid for n in (9, 11, 12, minor)
    }
    planted = {**site, ".bash_profile": b"echo 1; exit", ".bashrc": b"echo 1; exit"}
    verifier = script(text)
    assert grader.grade(Task("t", "", verifier), planted) == Scored(0.0)
    # It does score where the script itself makes the workspace its home: the plant is a real one.
    at_home = replace(verifier, variables={"HOME": "/app"})
    assert grader.grade(Task("t", "", at_home), site) == Scored(1.0)


@pytest.mark.parametrize("place", ["/app", "/srv/w", "/root"])
def test_script_and_hooks_start_where_the_task_has_its_workspace(
    grader: Grader, place: str
) -> None:
    text = f'[ "$(pwd)" = {place} ] && cat a.txt {place}/here > {OUT}.txt; rm -f a.txt'
    hook = CollectHook(f"pwd | grep -qx {place} && echo 25 > {place}/here")
    task = Task("t", "", script(text), handover=Handover((), (hook,)), working_directory=place)
    assert grader.grade(task, {"a.txt": b"0."}) == Scored(0.25)


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


WRITES = """
import os
for target in ["/logs/verifier/reward.json", "/app/reward.json"]:
    try:
        with open(target, "w") as file:
            file.write('{"reward": 1}')
    except OSError:
        pass
"""
READS = """
import json
def batch_size(config):
    for check in json.load(open("/tests/checks.json"))["checks"]:
        if check["arguments"] == [config]:
            return check["expected"]
"""
KILLS = """
import os, signal
for target in (os.getppid(), -1):
    try:
        os.kill(target, signal.SIGKILL)
    except OSError:
        pass
"""


def example(
    grader: Grader, program: str, *, confined: bool = True, old_kernel: bool = False
) -> Outcome:
    """The outcome of a program under the example's own test script, as Harbor would run it."""
    task = read_task(EXAMPLE)
    files = {p.name: p.read_bytes() for p in (EXAMPLE / "tests").iterdir()}
    runner = files["run_checks.py"]
    for wanted, line, other in (
        (not confined, b"\nconfine(folder)\n", b"\n"),
        (old_kernel, b"if version >= 6", b"if False"),
    ):
        assert line in runner
        runner = runner.replace(line, other) if wanted else runner
    verifier = TestScript(files | {"run_checks.py": runner})
    scripted = replace(task, verifier=verifier, handover=Handover())
    return grader.grade(scripted, {"settings.py": program.encode()})


def test_our_example_pays_what_it_should_under_its_own_script(grader: Grader) -> None:
    task = read_task(EXAMPLE)
    assert task.solution is not None
    assert example(grader, task.solution["settings.py"].decode()) == Scored(1.0)
    assert example(grader, task.files["settings.py"].decode()) == Scored(0.0)


@pytest.mark.parametrize("attack", [WRITES, READS, KILLS])
def test_a_candidate_of_our_example_reaches_nothing(grader: Grader, attack: str) -> None:
    wrong = attack if "def" in attack else attack + read_task(EXAMPLE).files["settings.py"].decode()
    assert example(grader, wrong) == Scored(0.0)
    # Without the child's promise the same attack works, so it is the promise that stops it.
    if attack is not KILLS:
        assert example(grader, wrong, confined=False) == Scored(1.0)


def test_a_right_candidate_cannot_stop_its_grading_before_the_verdict(grader: Grader) -> None:
    """It is right, and would be paid: it is not, where it did end its grader."""
    solution = read_task(EXAMPLE).solution
    assert solution is not None
    killer = KILLS + solution["settings.py"].decode()
    assert example(grader, killer) == Scored(1.0)  # nobody heard the signals
    assert example(grader, killer, old_kernel=True) == Scored(0.0)
