"""Checks by reference: the expected values come from a trusted implementation."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.episodes import Cause, Outcome, Scored, Unscored
from steelyard.grading import Grader
from steelyard.tasks import ReferenceChecks, Task

INPUTS = """
import random
def inputs(seed):
    dice = random.Random(seed)
    return [[dice.randrange(-9, 9), []] for _ in range(6)]
"""
REFERENCE = "from helper import double\ndef f(x, seen): seen.append(x); return (double(x), seen)"
RIGHT = "def f(x, seen): return (x + x, seen + [x])"


def grade(
    grader: Grader,
    source: str,
    inputs: str = INPUTS,
    reference: str = REFERENCE,
    seed: int = 0,
    timeout_seconds: float = 5.0,
) -> Outcome:
    files = {
        "inputs.py": inputs.encode(),
        "reference.py": reference.encode(),
        "helper.py": b"def double(x): return 2 * x",
    }
    verifier = ReferenceChecks("m.py", "f", "reference.py", "inputs.py", files, seed)
    task = Task("t", "", verifier, verifier_timeout_seconds=timeout_seconds)
    return grader.grade(task, {"m.py": source.encode()})


def test_the_candidate_must_return_what_the_reference_does(grader: Grader) -> None:
    right = grade(grader, RIGHT)
    assert isinstance(right, Scored)
    assert (right.reward, len(right.checks)) == (1.0, 6)
    wrong = grade(grader, RIGHT.replace("x + x", "abs(x) * 2"))
    assert isinstance(wrong, Scored)
    assert wrong.reward == 0.0
    assert 0 < sum(check.passed for check in wrong.checks) < 6
    assert "(-" in next(check.name for check in wrong.checks if not check.passed)


def test_types_are_exact(grader: Grader) -> None:
    outcome = grade(grader, "def f(x, seen): return [x + x, seen + [x]]")
    assert isinstance(outcome, Scored)
    assert not any(check.passed for check in outcome.checks)


def test_the_seed_decides_the_inputs(grader: Grader) -> None:
    names = []
    for seed in (0, 1, 0):
        outcome = grade(grader, RIGHT, seed=seed)
        assert isinstance(outcome, Scored)
        names.append([check.name for check in outcome.checks])
    assert names[0] == names[2] != names[1]


def test_the_candidate_finds_neither_file(grader: Grader) -> None:
    source = """
import os
def f(x, seen):
    try:
        import reference
        return reference.f(x, seen)
    except ImportError:
        assert os.listdir() == ["m.py"], os.listdir()
        return None
"""
    outcome = grade(grader, source)
    assert isinstance(outcome, Scored)
    assert {check.detail.partition(",")[0] for check in outcome.checks} == {"returned None"}


def test_the_reference_is_run_once_for_a_task(
    grader: Grader, monkeypatch: pytest.MonkeyPatch
) -> None:
    from steelyard.grading import reference_checks

    inputs = INPUTS + "# once"
    assert isinstance(grade(grader, RIGHT, inputs), Scored)
    monkeypatch.delattr(reference_checks, "_answered")
    assert isinstance(grade(grader, RIGHT, inputs), Scored)
    with pytest.raises(NameError):
        grade(grader, RIGHT, inputs + "# other")


@pytest.mark.parametrize(
    ("inputs", "reference", "said"),
    [
        (INPUTS, "def f(x, seen): return 1 // 0", "reference.py: f(3, []): raised ZeroDivision"),
        (INPUTS, "def f(x, seen):\n  while True: pass", "no answer in time"),
        (INPUTS, "import os\ndef f(x, seen): os._exit(0)", "the program ended"),
        (INPUTS, "def f(x, seen): return float('nan')", "returned NaN, which equals nothing"),
        (INPUTS, "def f(x, seen): return f", "an object of type function"),
        (INPUTS, "def g(): ...", "reference.py could not be imported"),
        ("def inputs(seed): return []", REFERENCE, "inputs.py: inputs returned []"),
        ("def inputs(seed): return 3", REFERENCE, "not a list of inputs"),
        ("def inputs(seed): return [[1], 2]", REFERENCE, "returned 2 among the argument lists"),
        ("def inputs(seed): raise OSError", REFERENCE, "inputs.py: inputs(0): raised OSError"),
        ("x = 1", REFERENCE, "inputs.py could not be imported"),
    ],
)
def test_a_broken_reference_is_unscored(
    grader: Grader, inputs: str, reference: str, said: str
) -> None:
    outcome = grade(grader, RIGHT, inputs, reference)
    assert isinstance(outcome, Unscored), outcome
    assert outcome.cause is Cause.VERIFIER_ERROR
    assert said in outcome.detail


def test_a_slow_reference_takes_no_time_from_the_candidate(grader: Grader) -> None:
    slow = "import time\n" + REFERENCE.replace("seen):", "seen): time.sleep(.12);")
    outcome = grade(
        grader,
        "import time\n" + RIGHT.replace("seen):", "seen): time.sleep(.08);"),
        reference=slow,
        timeout_seconds=1.0,
    )
    assert isinstance(outcome, Scored), outcome
    assert outcome.reward == 1.0, outcome


def test_files_are_run_as_they_are_given_not_from_here(grader: Grader, tmp_path: Path) -> None:
    (tmp_path / "here").write_text("x")
    reference = f"import os\ndef f(x, seen): return os.path.exists({str(tmp_path / 'here')!r})"
    outcome = grade(grader, "def f(x, seen): return False", reference=reference)
    assert isinstance(outcome, Scored)
    assert outcome.reward == 1.0
