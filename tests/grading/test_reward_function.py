"""Reward functions: a number from a sandbox, or no reward at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.episodes import Cause, Outcome, Scored, Unscored
from steelyard.grading import Grader
from steelyard.tasks.task import AnswerForm, RewardFunction, RewardStyle, Task


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


def grade_style(
    grader: Grader, folder: Path, style: RewardStyle, source: str, answer: str = "four"
) -> Outcome:
    (folder / "reward.py").write_text(source)
    row = {"answer": "four", "tags": ["a"], "info": {"level": 3}}
    verifier = RewardFunction(folder / "reward.py", "reward", row, style)
    solution = {"answer.txt": b"four"}
    task = Task("t", "2 + 2?", verifier, answer=AnswerForm("answer.txt"), solution=solution)
    return grader.grade(task, {"answer.txt": answer.encode()})


TRL = {
    "text": "def reward(completions, answer, **_):\n"
    "    return [float(c.strip() == a) for c, a in zip(completions, answer)]",
    "chat": "def reward(prompts, completions, answer, **_):\n"
    "    assert prompts == [[{'role': 'user', 'content': '2 + 2?'}]]\n"
    "    return [float(c[0]['content'] == a) for c, a in zip(completions, answer)]",
    "chat in a sibling": "from helper import text\n"
    "def reward(completions, answer, **_):\n"
    "    return [float(text(c) == a) for c, a in zip(completions, answer)]",
    "async": "import asyncio\nasync def reward(completions, answer):\n"
    "    await asyncio.sleep(0)\n    return [float(completions[0] == answer[0])]",
    "columns are lists": "def reward(completions, tags, info, prompts, **_):\n"
    "    assert (tags, info, prompts) == ([['a']], [{'level': 3}], ['2 + 2?'])\n"
    "    return [float(completions == ['four'])]",
}
VERIFIERS = {
    "text": "def reward(completion, answer): return float(completion.strip() == answer)",
    "chat": "def reward(completion, answer): return float(completion[-1]['content'] == answer)",
    "async": "async def reward(completion, answer, state, info):\n"
    "    assert state['answer'] == answer and info == {'level': 3}\n"
    "    return float(completion[-1]['content'] == answer)",
    "everything": "def reward(completion, **rest):\n"
    "    assert set(rest) == {'prompt', 'answer', 'state', 'info', 'task', 'tags'}\n"
    "    return float(completion.strip() == rest['answer'])",
}


@pytest.mark.parametrize(
    ("style", "source"),
    [("trl", s) for s in TRL.values()] + [("verifiers", s) for s in VERIFIERS.values()],
    ids=[f"trl, {n}" for n in TRL] + [f"verifiers, {n}" for n in VERIFIERS],
)
def test_functions_of_other_trainers_run_as_they_are(
    grader: Grader, tmp_path: Path, style: RewardStyle, source: str
) -> None:
    (tmp_path / "helper.py").write_text("def text(messages): return messages[-1]['content']")
    assert grade_style(grader, tmp_path, style, source) == Scored(1.0)
    assert grade_style(grader, tmp_path, style, source, "five") == Scored(0.0)
    assert grade_style(grader, tmp_path, style, source, "") == Scored(0.0)


def test_the_right_answer_fills_in_for_a_missing_column(grader: Grader, tmp_path: Path) -> None:
    (tmp_path / "reward.py").write_text("def reward(completion, answer): return len(answer) / 10")
    verifier = RewardFunction(tmp_path / "reward.py", "reward", {"expected": 1234}, "verifiers")
    solution = {"answer.txt": b"1234"}
    task = Task("t", "?", verifier, answer=AnswerForm("answer.txt"), solution=solution)
    assert grader.grade(task, {"answer.txt": b""}) == Scored(0.4)


@pytest.mark.parametrize(
    ("style", "body", "cause", "said"),
    [
        ("trl", "return 1.0", Cause.VERIFIER_ERROR, "not a list of one number"),
        ("trl", "return [1.0, 1.0]", Cause.VERIFIER_ERROR, "not a list of one number"),
        ("trl", "return [None]", Cause.MALFORMED_REWARD, "NoneType"),
        ("trl", "return [True]", Cause.MALFORMED_REWARD, "bool"),
        ("trl", "return [2.0]", Cause.MALFORMED_REWARD, "not within"),
        ("trl", "raise KeyError(completions[0][0])", Cause.VERIFIER_ERROR, "KeyError: 'f'"),
        ("verifiers", "return True", Cause.MALFORMED_REWARD, "bool"),
        ("verifiers", "return float('nan')", Cause.MALFORMED_REWARD, "nan"),
        ("verifiers", "raise ValueError('why')", Cause.VERIFIER_ERROR, "ValueError: why"),
    ],
)
def test_other_styles_are_read_as_strictly(
    grader: Grader, tmp_path: Path, style: RewardStyle, body: str, cause: Cause, said: str
) -> None:
    parameters = "completions, **_" if style == "trl" else "completion"
    outcome = grade_style(grader, tmp_path, style, f"def reward({parameters}):\n    {body}")
    assert isinstance(outcome, Unscored), outcome
    assert (outcome.cause, said in outcome.detail) == (cause, True), outcome
