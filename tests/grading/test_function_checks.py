"""Function checks: right programs pass, wrong ones fail by name, attackers score nothing."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from program_attacks import ATTACKS

from steelyard.episodes import Cause, Check, Scored, Unscored
from steelyard.grading import Grader, GradingSettings
from steelyard.tasks.task import CheckSpec, FunctionChecks, Task

HONEST = {"m.py": b"def add_one(x):\n    return x + 1\n"}


def task(*specs: tuple[str, tuple[Any, ...], Any], function: str = "add_one") -> Task:
    checks = tuple(CheckSpec(*spec) for spec in specs)
    return Task("add-one", "Fix add_one.", FunctionChecks("m.py", function, checks))


ADD_ONE = task(("one", (1,), 2), ("two", (2,), 3), ("zero", (0,), 1))


def grade(grader: Grader, source: str, what: Task = ADD_ONE) -> Scored:
    outcome = grader.grade(what, {"m.py": source.encode()})
    assert isinstance(outcome, Scored), outcome
    return outcome


def test_a_right_program_scores_one(grader: Grader) -> None:
    outcome = grader.grade(ADD_ONE, HONEST)
    assert isinstance(outcome, Scored)
    assert outcome.reward == 1.0
    assert [(check.name, check.passed) for check in outcome.checks] == [
        ("one", True),
        ("two", True),
        ("zero", True),
    ]


def test_a_wrong_program_scores_zero_and_names_the_check(grader: Grader) -> None:
    outcome = grade(grader, "def add_one(x): return x + 1 if x else None")
    assert outcome.reward == 0.0
    assert [check.passed for check in outcome.checks] == [True, True, False]
    assert outcome.checks[2].detail == "returned None, not 1"


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_scores_nothing_and_spoils_nothing(grader: Grader, name: str) -> None:
    outcome = grader.grade(ADD_ONE, {"m.py": ATTACKS[name].encode()})
    assert isinstance(outcome, Scored), outcome
    assert outcome.reward == 0.0
    assert len(outcome.checks) == 3
    assert all(check.detail for check in outcome.checks if not check.passed)
    after = grader.grade(ADD_ONE, HONEST)
    assert isinstance(after, Scored)
    assert after.reward == 1.0, after


def test_each_check_gets_its_own_verdict_after_a_death(grader: Grader) -> None:
    outcome = grade(grader, "import os\ndef add_one(x): x == 2 and os._exit(7); return x + 1")
    assert [check.passed for check in outcome.checks] == [True, False, True]
    assert "exit code 7" in outcome.checks[1].detail


def test_hangs_are_bounded_and_the_rest_is_failed_untried() -> None:
    settings = GradingSettings(workers=1, call_timeout_seconds=0.3, max_hung_calls=2)
    many = task(*((f"c{n}", (n,), n + 1) for n in range(9)))
    with Grader(settings) as grader:
        grader.grade(many, HONEST)
        started = time.monotonic()
        outcome = grade(grader, "def add_one(x):\n  while x > 2: pass\n  return x + 1", many)
    assert time.monotonic() - started < 3
    assert [check.passed for check in outcome.checks] == [True] * 3 + [False] * 6
    assert outcome.checks[3].detail == outcome.checks[4].detail == "no answer in time"
    assert "not tried" in outcome.checks[5].detail


def test_the_time_for_all_checks_is_bounded(grader: Grader) -> None:
    slow = Task("slow", "", ADD_ONE.verifier, verifier_timeout_seconds=0.5)
    outcome = grade(grader, "import time\ndef add_one(x): time.sleep(0.3); return x + 1", slow)
    assert [check.passed for check in outcome.checks] == [True, False, False]


def test_a_missing_file_or_function_fails_every_check(grader: Grader) -> None:
    for files in ({}, {"other.py": b""}, {"m.py": b"x = 1"}):
        outcome = grader.grade(ADD_ONE, files)
        assert isinstance(outcome, Scored)
        assert outcome.reward == 0.0
        assert all("could not be imported" in check.detail for check in outcome.checks)


def test_arguments_are_fresh_for_every_call(grader: Grader) -> None:
    shared = [1, 2]
    checks = task(("a", (shared,), 2), ("b", (shared,), 2), function="pop_all")
    outcome = grade(grader, "def pop_all(v):\n  n = len(v)\n  v.clear()\n  return n", checks)
    assert outcome.reward == 1.0
    assert shared == [1, 2]


@pytest.mark.parametrize(
    ("expected", "returned"),
    [("[1, 2]", "(1, 2)"), ("1", "True"), ("1", "1.0"), ("True", "1"), ("{'a': 1}", "{'a': True}")],
)
def test_types_must_be_exact_all_the_way_down(grader: Grader, expected: str, returned: str) -> None:
    checks = task(("exact", (), eval(expected)), function="f")
    assert grade(grader, f"def f(): return {expected}", checks).reward == 1.0
    assert grade(grader, f"def f(): return {returned}", checks).reward == 0.0


def test_modules_of_packages_and_siblings_import(grader: Grader) -> None:
    what = Task("p", "", FunctionChecks("pkg/sub.py", "f", (CheckSpec("c", (), 5),)))
    files = {
        "pkg/__init__.py": b"",
        "pkg/sub.py": b"from .other import x\nimport top\ndef f(): return x + top.y\n",
        "pkg/other.py": b"x = 2\n",
        "top.py": b"y = 3\n",
    }
    assert grader.grade(what, files) == Scored(1.0, (Check("c", True),))


def test_planted_bytecode_is_not_what_is_graded(grader: Grader) -> None:
    """An unchecked-hash .pyc beside clean source would be what an ordinary import loads."""
    import importlib.util
    import marshal
    import subprocess

    from steelyard.sandbox.bubblewrap import find_python

    version = subprocess.run(
        [find_python().executable, "-c", "import sys; print(sys.implementation.cache_tag)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    code = compile("def add_one(x): return x + 1", "m.py", "exec")
    cached = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
    files = {
        "m.py": b"def add_one(x): return 0",
        f"__pycache__/m.{version}.pyc": cached + marshal.dumps(code),
    }
    outcome = grader.grade(ADD_ONE, files)
    assert isinstance(outcome, Scored)
    assert outcome.reward == 0.0


def test_heldout_checks_are_graded_apart(grader: Grader) -> None:
    heldout = FunctionChecks("m.py", "add_one", (CheckSpec("big", (10**30,), 10**30 + 1),))
    both = Task("both", "", ADD_ONE.verifier, heldout=heldout)
    table = {"m.py": b"def add_one(x): return {1: 2, 2: 3, 0: 1}[x]"}
    seen, unseen = grader.grade(both, table), grader.grade(both, table, heldout=True)
    assert isinstance(seen, Scored)
    assert isinstance(unseen, Scored)
    assert (seen.reward, unseen.reward) == (1.0, 0.0)
    assert unseen.checks[0].detail.startswith("raised KeyError")


def test_a_task_that_cannot_judge_is_an_error_not_a_reward(grader: Grader) -> None:
    with pytest.raises(ValueError, match="no held-out checks"):
        grader.grade(ADD_ONE, HONEST, heldout=True)
    with pytest.raises(ValueError, match="has no checks"):
        grader.grade(task(), HONEST)


def test_files_that_do_not_fit_are_unscored(grader: Grader) -> None:
    for files in ({"m.py": b"#" * (5 << 20)}, {**HONEST, "../up": b""}):
        outcome = grader.grade(ADD_ONE, files)
        assert isinstance(outcome, Unscored)
        assert outcome.cause is Cause.INFRASTRUCTURE_FAILURE
    assert isinstance(grader.grade(ADD_ONE, HONEST), Scored)


def test_a_worker_that_dies_is_replaced_and_the_program_tried_again(grader: Grader) -> None:
    import os

    grader.grade(ADD_ONE, HONEST)
    place = grader._idle.get()
    worker = place.sandbox(packages=False)
    assert worker.pid is not None
    os.kill(worker.pid, 9)
    grader._idle.put(place)
    assert grade(grader, HONEST["m.py"].decode()).reward == 1.0


def test_many_threads_get_their_own_verdicts() -> None:
    rewards: dict[int, list[float]] = {}
    with Grader(GradingSettings(workers=2)) as grader:

        def work(number: int) -> None:
            what = task(("c", (number,), number * 2), function="f")
            right, wrong = f"def f(x): return {number} * 2", "def f(x): return -1"
            rewards[number] = [grade(grader, source, what).reward for source in (right, wrong) * 5]

        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert rewards == {number: [1.0, 0.0] * 5 for number in range(6)}


def test_one_worker_grades_many_programs_a_second() -> None:
    many = task(*((f"c{n}", (n,), n + 1) for n in range(9)))
    with Grader(GradingSettings(workers=1)) as grader:
        grader.grade(many, HONEST)
        started = time.perf_counter()
        for _ in range(50):
            assert grade(grader, HONEST["m.py"].decode(), many).reward == 1.0
        rate = 50 / (time.perf_counter() - started)
    print(f"one worker grades {rate:.0f} programs a second")
    assert rate > 20  # some 250 on an idle core
