"""Check programs: an author's source in one sandbox, the candidate in another, behind a proxy."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest

from steelyard.episodes import Cause, Check, Outcome, Scored, Unscored
from steelyard.grading import Grader, GradingSettings
from steelyard.sandbox import Sandbox
from steelyard.sandbox.sandbox import Program
from steelyard.tasks.humaneval import read_humaneval
from steelyard.tasks.task import CheckProgram, Task


def grade(grader: Grader, check: str, candidate: str, timeout_seconds: float = 5.0) -> Outcome:
    task = Task("t", "", CheckProgram("m.py", "f", check), verifier_timeout_seconds=timeout_seconds)
    return grader.grade(task, {"m.py": candidate.encode()})


CHECK = "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(2) == 3\n"


def test_pass_and_fail(grader: Grader) -> None:
    passed = grade(grader, CHECK, "def f(x): return x + 1")
    assert isinstance(passed, Scored)
    assert passed.reward == 1.0
    failed = grade(grader, CHECK, "def f(x): return 2")
    assert isinstance(failed, Scored)
    assert failed.reward == 0.0
    (check,) = failed.checks
    assert (check.name, check.passed) == ("check", False)
    assert check.detail == "AssertionError at: assert candidate(2) == 3"


@pytest.mark.parametrize(
    "candidate",
    [
        "def f(x): raise ValueError('no')",
        "def f(x): return None",
        "import os; os._exit(0)",
        "import os\ndef f(x): os._exit(0)",
        "import sys\ndef f(x): sys.exit(0)",
        "def f(x):\n  while True: pass",
        "while True: pass",
        "def f(x) return x",
        "",
        "class E(int):\n  def __eq__(s, o): return True\n  __hash__ = int.__hash__\n"
        "def f(x): return E()",
        "def f(x): return lambda: 1",
        "import os\nos.kill(-1, 9)\ndef f(x): return 0",
    ],
)
def test_the_candidates_failures_are_failed_checks(grader: Grader, candidate: str) -> None:
    outcome = grade(grader, CHECK, candidate)
    assert isinstance(outcome, Scored), outcome
    assert outcome.reward == 0.0
    assert outcome.checks[0].detail


def test_a_value_that_breaks_the_check_is_the_candidates_failure(grader: Grader) -> None:
    check = "def check(candidate):\n    assert abs(candidate(1) - 2) < 1e-6"
    outcome = grade(grader, check, "def f(x): return None")
    assert isinstance(outcome, Scored)
    assert outcome.reward == 0.0
    assert outcome.checks[0].detail.startswith("TypeError")


def test_an_exception_that_the_check_expects_is_raised_with_its_text(grader: Grader) -> None:
    check = """
def check(candidate):
    try:
        candidate(1)
    except ValueError as error:
        assert str(error) == "one"
    else:
        assert False
"""
    right = "def f(x): raise ValueError('one')"
    for candidate, reward in ((right, 1.0), (right.replace("one", "two"), 0.0)):
        outcome = grade(grader, check, candidate)
        assert isinstance(outcome, Scored)
        assert outcome.reward == reward


def test_no_except_of_a_check_hides_a_dead_candidate(grader: Grader) -> None:
    check = "def check(candidate):\n  try:\n    candidate(1)\n  except Exception:\n    pass"
    outcome = grade(grader, check, "import os\ndef f(x): os._exit(0)")
    assert isinstance(outcome, Scored)
    assert outcome.reward == 0.0


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("def check(candidate) x", "SyntaxError"),
        ("x = 1", "KeyError"),
        ("def check(candidate): undefined_name", "NameError"),
        ("def check(candidate): pass", "never called"),
        ("import os\ndef check(candidate): os._exit(3)", "exit code 3"),
    ],
)
def test_a_broken_check_is_unscored(grader: Grader, check: str, said: str) -> None:
    outcome = grade(grader, check, "def f(x): return x + 1")
    assert isinstance(outcome, Unscored)
    assert outcome.cause is Cause.VERIFIER_ERROR
    assert said in outcome.detail


def test_a_check_that_does_not_end_is_unscored(grader: Grader) -> None:
    check = "def check(candidate):\n  candidate(1)\n  while True: pass"
    started = time.monotonic()
    outcome = grade(grader, check, "def f(x): return x", timeout_seconds=0.3)
    assert isinstance(outcome, Unscored)
    assert outcome.cause is Cause.VERIFIER_TIMEOUT
    assert time.monotonic() - started < 5


NESTED = '["list",' * 100 + "1" + "]" * 100
"""Like the long integer, it can be read, and cannot be sent on."""


def called_with(argument: str) -> str:
    return f'["list", "call", ["list", {argument}], ["dict"]]'


def test_a_check_that_answers_nonsense_is_unscored(grader: Grader) -> None:
    """It is told what its candidate returned, and nothing of what it says is taken for granted."""
    forge = "import socket, struct\ndef check(candidate):\n  candidate(1)\n  "
    forge += "socket.socket(fileno=3).sendall(struct.pack('>II', {n}, 0) + b'{text}')"
    for text, said in (
        ('["returned", ["list", "verdict", "solved", ""]]', "answered ["),
        ("[1, 2]", "unreadable answer"),
        (f'["returned", {called_with(NESTED)}]', "nested deeper"),
        (f'["returned", {called_with("9" * 4290)}]', "int of 14252 bits"),
    ):
        outcome = grade(grader, forge.format(n=len(text), text=text), "def f(x): return x")
        assert isinstance(outcome, Unscored), outcome
        assert outcome.cause is Cause.VERIFIER_ERROR
        assert said in outcome.detail


def test_values_reach_the_check_as_they_were_returned(grader: Grader) -> None:
    check = """
def check(candidate):
    value = {"a": (1, 2.5), "b": {3}, "c": [True, None], "d": b"x"}
    assert repr(candidate(value, scale=(4,))) == repr((value, (4,)))
"""
    outcome = grade(grader, check, "def f(x, scale): return x, scale")
    assert outcome == Scored(1.0, (Check("check", True),))
    deep = "def f(x):\n  for _ in range(63): x = [x]\n  return x"
    outcome = grade(grader, "def check(candidate): candidate(1)", deep)
    assert isinstance(outcome, Scored)
    assert outcome.reward == 0.0


def test_a_candidate_may_be_called_with_a_million_numbers() -> None:
    check = "def check(candidate):\n  assert candidate(list(range(10**6))) == 499999500000"
    with Grader(GradingSettings(workers=1, call_timeout_seconds=30.0)) as patient:
        outcome = grade(patient, check, "def f(x): return sum(x)", timeout_seconds=60.0)
    assert outcome == Scored(1.0, (Check("check", True),))


def test_many_slow_calls_are_bounded_and_are_the_candidates_failure(grader: Grader) -> None:
    check = "def check(candidate):\n  for n in range(1000): candidate(n)"
    outcome = grade(grader, check, "import time\ndef f(x): time.sleep(0.2)", timeout_seconds=0.7)
    assert isinstance(outcome, Scored)
    assert outcome.reward == 0.0


@pytest.mark.parametrize(
    "body",
    ["time.sleep(0.6); f(0)", "f(0); time.sleep(0.6); f(0)", "time.sleep(0.3); f(1)"],
    ids=["first call too late", "second call too late", "little time left"],
)
def test_a_slow_check_is_not_its_candidates_failure(grader: Grader, body: str) -> None:
    check = f"import time\ndef check(f): {body}"
    outcome = grade(grader, check, "import time\ndef f(x): time.sleep(x)", timeout_seconds=0.45)
    assert isinstance(outcome, Unscored), outcome
    assert outcome.cause is Cause.VERIFIER_TIMEOUT


def test_the_time_begins_when_both_sandboxes_are_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    class SlowSandbox(Sandbox):
        def program(
            self, files: Mapping[str, bytes], **options: Any
        ) -> AbstractContextManager[Program]:
            time.sleep(0.6)
            return super().program(files, **options)

    monkeypatch.setattr("steelyard.grading.grader.Sandbox", SlowSandbox)
    check = "def check(candidate): assert candidate(1) == 1"
    with Grader(GradingSettings(workers=1)) as new:
        outcome = grade(new, check, "def f(x): return x", timeout_seconds=1.0)
    assert outcome == Scored(1.0, (Check("check", True),))


def test_what_the_check_prints_is_not_the_verdict(grader: Grader) -> None:
    check = 'def check(candidate):\n  print(\'["passed", ""]\', flush=True)\n  assert candidate(1)'
    outcome = grade(grader, check, "def f(x): return 0")
    assert isinstance(outcome, Scored)
    assert outcome.reward == 0.0


def test_random_inputs_give_one_program_one_verdict(grader: Grader) -> None:
    check = "import random\ndef check(candidate):\n  assert candidate(random.random()) < 0.84442"
    for candidate, reward in (("def f(x): return x", 0.0), ("def f(x): return x - 0.1", 1.0)):
        for _ in range(3):  # the first draw after seed 0 is 0.84442185…
            outcome = grade(grader, check, candidate)
            assert isinstance(outcome, Scored)
            assert outcome.reward == reward


@pytest.mark.slow
def test_every_humaneval_reference_passes_and_returning_nothing_does_not() -> None:
    tasks = read_humaneval()
    assert len(tasks) == 164
    with Grader(GradingSettings(workers=2)) as grader, ThreadPoolExecutor(2) as threads:

        def grade_reference(task: Task) -> Outcome:
            assert task.solution is not None
            return grader.grade(task, task.solution)

        def grade_nothing(task: Task) -> Outcome:
            assert isinstance(task.verifier, CheckProgram)
            lazy = f"def {task.verifier.function}(*args): return None\n"
            return grader.grade(task, {task.verifier.module: lazy.encode()})

        for task, outcome in zip(tasks, threads.map(grade_reference, tasks), strict=True):
            assert outcome == Scored(1.0, (Check("check", True),)), (task.name, outcome)
        for outcome in threads.map(grade_nothing, tasks[::8]):
            assert isinstance(outcome, Scored)
            assert outcome.reward == 0.0
