"""Reward functions: a number from a sandbox, or no reward at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.episodes import Cause, Outcome, Scored, Unscored
from steelyard.grading import Grader
from steelyard.tasks.task import AnswerForm, RewardFunction, Task


def grade(
    grader: Grader, folder: Path, source: str, answer: str = "four", timeout_seconds: float = 5.0
) -> Outcome:
    path = folder / "reward.py"
    path.write_text(source)
    task = Task(
        "t",
        "What is 2 + 2?",
        RewardFunction(path, "reward", {"expected": "four", "tags": ["a", 1, None]}),
        answer=AnswerForm("answer.txt"),
        verifier_timeout_seconds=timeout_seconds,
    )
    return grader.grade(task, {"answer.txt": answer.encode()})


def test_the_function_gets_prompt_answer_and_row(grader: Grader, tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text("def same(a, b): return float(a == b)")
    source = """
from helper import same
def reward(prompt, answer, expected, tags):
    assert prompt == "What is 2 + 2?" and tags == ["a", 1, None]
    return same(answer, expected)
"""
    assert grade(grader, tmp_path, source) == Scored(1.0)
    assert grade(grader, tmp_path, source, answer="five") == Scored(0.0)


@pytest.mark.parametrize("value", ["0.25", "1", "0", "1e-3"])
def test_a_number_in_range_is_the_reward(grader: Grader, tmp_path: Path, value: str) -> None:
    outcome = grade(grader, tmp_path, f"def reward(**row): return {value}")
    assert outcome == Scored(float(value))


@pytest.mark.parametrize(
    ("body", "cause", "said"),
    [
        ("raise ValueError('bad row')", Cause.VERIFIER_ERROR, "raised ValueError: bad row"),
        ("import os; os._exit(0)", Cause.VERIFIER_ERROR, "exit code 0"),
        ("import sys; sys.exit()", Cause.VERIFIER_ERROR, "SystemExit"),
        ("while True: pass", Cause.VERIFIER_TIMEOUT, "no answer in time"),
        ("return None", Cause.MALFORMED_REWARD, "NoneType"),
        ("return True", Cause.MALFORMED_REWARD, "bool"),
        ("return '1.0'", Cause.MALFORMED_REWARD, "str"),
        ("return float('nan')", Cause.MALFORMED_REWARD, "nan"),
        ("return float('inf')", Cause.MALFORMED_REWARD, "inf"),
        ("return 1.5", Cause.MALFORMED_REWARD, "1.5"),
        ("return -1", Cause.MALFORMED_REWARD, "-1"),
        ("return object()", Cause.MALFORMED_REWARD, "object"),
        ("return {'reward': 1.0}", Cause.MALFORMED_REWARD, "dict"),
    ],
)
def test_anything_else_is_unscored_and_never_zero(
    grader: Grader, tmp_path: Path, body: str, cause: Cause, said: str
) -> None:
    outcome = grade(grader, tmp_path, f"def reward(**row):\n  {body}", timeout_seconds=1.0)
    assert isinstance(outcome, Unscored), outcome
    assert outcome.cause is cause
    assert said in outcome.detail
    assert "reward.py" in outcome.detail


@pytest.mark.parametrize("source", ["def reward(", "import numpy_is_not_here", "x = 1"])
def test_a_file_that_does_not_import_is_unscored(
    grader: Grader, tmp_path: Path, source: str
) -> None:
    outcome = grade(grader, tmp_path, source)
    assert isinstance(outcome, Unscored)
    assert outcome.cause is Cause.VERIFIER_ERROR


def test_the_function_runs_in_the_sandbox_and_not_here(grader: Grader, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    source = f"""
import os
def reward(**row):
    return float(os.path.exists({str(tmp_path / "secret.txt")!r}) or "STEELYARD_X" in os.environ)
"""
    assert grade(grader, tmp_path, source) == Scored(0.0)


def test_a_missing_file_or_answer_is_unscored(grader: Grader, tmp_path: Path) -> None:
    verifier = RewardFunction(tmp_path / "none.py", "reward", {})
    task = Task("t", "", verifier, answer=AnswerForm("answer.txt"))
    for files, said in (({"answer.txt": b""}, "none.py"), ({}, "answer.txt")):
        outcome = grader.grade(task, files)
        assert isinstance(outcome, Unscored)
        assert outcome.cause is Cause.VERIFIER_ERROR
        assert said in outcome.detail
    with pytest.raises(ValueError, match="no answer file"):
        grader.grade(Task("t", "", verifier), {})
