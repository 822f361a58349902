"""Prompts with a reward function, and the arithmetic example."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import pytest

from steelyard.tasks import AnswerForm, RewardFunction, load_tasks, read_jsonl

EXAMPLE = Path(__file__).parents[2] / "examples/arithmetic"


def lay(folder: Path, lines: str, rewards: str = "def score(prompt, answer): return 1.0\n") -> Path:
    (folder / "rewards.py").write_text(rewards)
    (folder / "prompts.jsonl").write_text(lines)
    return folder / "prompts.jsonl"


def test_a_line_becomes_a_single_turn_task(tmp_path: Path) -> None:
    line = '{"prompt": "1 + 1?", "name": "one", "split": "dev", "kind": "add", "expected": 2}'
    first, second = read_jsonl(lay(tmp_path, f'{line}\n\n{{"prompt": "2 + 2?"}}\n'))
    assert (first.name, first.split, first.kind) == ("one", "dev", "add")
    assert first.instruction == "1 + 1?"
    assert first.answer == AnswerForm("answer.txt")
    assert first.verifier == RewardFunction(tmp_path / "rewards.py", "score", {"expected": 2})
    assert second.name == "prompts-00003"
    assert second.verifier == RewardFunction(tmp_path / "rewards.py", "score", {})


@pytest.mark.parametrize("reward", ["lib/grade.py:grade", "lib.grade:grade"])
def test_a_reward_is_named_by_file_or_by_module(tmp_path: Path, reward: str) -> None:
    path = lay(tmp_path, '{"prompt": "x"}\n')
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/grade.py").write_text("raise SystemExit('imported')\ndef grade(): ...\n")
    (task,) = read_jsonl(path, reward)
    assert task.verifier == RewardFunction(tmp_path / "lib/grade.py", "grade", {})


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ('{"prompt": "a"}\n{"prompt": \n', "prompts.jsonl line 2: this is not JSON"),
        ('["a"]\n', r"line 1: this is '\[\"a\"\]', not an object"),
        ('{"name": "a"}\n', "line 1: prompt is missing"),
        ('{"prompt": ["a"]}\n', r"line 1: prompt = \['a'\] is not valid; give a string"),
        ('{"prompt": " "}\n', "line 1: prompt = ' ' is not valid"),
        ('{"prompt": "a", "split": null}\n', "line 1: split = None is not valid"),
        ('{"prompt": "a", "answer": "4"}\n', "line 1: a column answer would hide"),
        ('{"prompt": "a", "name": "n"}\n' * 2, "line 2: name 'n' is taken by line 1"),
        ("\n", "prompts.jsonl: it holds no prompts"),
        (b'{"prompt": "\xff"}\n', "line 1: this is not JSON"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, lines: str | bytes, sentence: str) -> None:
    path = lay(tmp_path, "")
    path.write_bytes(lines if isinstance(lines, bytes) else lines.encode())
    with pytest.raises(ValueError, match=sentence):
        read_jsonl(path)


@pytest.mark.parametrize(
    ("reward", "sentence"),
    [
        ("score", "reward = 'score' is not valid; give file.py:function"),
        ("rewards.py:", "is not valid; give file.py:function"),
        ("missing:score", "missing.py: there is no such file"),
        ("rewards:grade", r"rewards.py: it defines no grade, .* define grade\(prompt, answer"),
    ],
)
def test_a_reward_that_is_not_there_fails_before_training(
    tmp_path: Path, reward: str, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_jsonl(lay(tmp_path, '{"prompt": "a"}\n'), reward)


@pytest.mark.parametrize(
    ("signature", "style"),
    [
        ("def f(prompt, answer, **row)", "steelyard"),
        ("def f(completions, **kwargs)", "trl"),
        ("async def f(prompts, completions, answer)", "trl"),
        ("def f(completion, answer)", "verifiers"),
        ("async def f(*, completion, state)", "verifiers"),
        ("def f(**everything)", "steelyard"),
    ],
)
def test_the_style_is_read_from_the_signature(tmp_path: Path, signature: str, style: str) -> None:
    path = lay(tmp_path, '{"prompt": "x"}\n', f"raise SystemExit\n{signature}: return 1.0\n")
    (tmp_path / "again.py").write_text("from rewards import f as g\n")
    for reward in ("rewards.py:f", "again:g"):
        (task,) = read_jsonl(path, reward)
        assert isinstance(task.verifier, RewardFunction)
        assert task.verifier.style == style


def test_a_column_answer_is_the_row_of_other_styles(tmp_path: Path) -> None:
    line = '{"prompt": "1 + 1?", "answer": "2"}\n'
    (task,) = read_jsonl(lay(tmp_path, line, "def score(completions, answer): return [1.0]\n"))
    path = (tmp_path / "rewards.py").resolve()
    assert task.verifier == RewardFunction(path, "score", {"answer": "2"}, "trl")
    assert task.solution == {"answer.txt": b"2"}


@pytest.mark.parametrize(
    ("row", "gold", "text"),
    [
        ({"label": "b", "expected": 42}, None, "42"),
        ({"target": "späť", "gold": "x"}, None, "späť"),
        ({"ground_truth": [1, "ä"]}, None, '[1, "ä"]'),
        ({"expected": 1, "mine": True}, "mine", "true"),
        ({"expected": None}, None, None),
        ({"other": 1}, None, None),
    ],
)
def test_the_right_answer_becomes_the_solution(
    tmp_path: Path, row: dict[str, object], gold: str | None, text: str | None
) -> None:
    path = lay(tmp_path, json.dumps({"prompt": "x", **row}))
    (task,) = read_jsonl(path, gold=gold)
    assert task.solution == (None if text is None else {"answer.txt": text.encode()})
    assert isinstance(task.verifier, RewardFunction)
    assert task.verifier.row == row


def test_a_named_gold_column_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line 1: it has no column 'truth', which gold names"):
        read_jsonl(lay(tmp_path, '{"prompt": "x", "expected": 1}'), gold="truth")


def test_a_reward_is_also_found_below_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/grade.py").write_text("def far(prompt, answer): return 1.0\n")
    path = lay(tmp_path / "data", '{"prompt": "x"}\n')
    monkeypatch.chdir(tmp_path)
    for reward in ("lib.grade:far", "lib/grade.py:far"):
        (task,) = read_jsonl(path, reward)
        assert task.verifier == RewardFunction(tmp_path / "lib/grade.py", "far", {})
    (task,) = read_jsonl(path, "rewards:score")  # beside the JSONL comes first
    assert task.verifier == RewardFunction(tmp_path / "data/rewards.py", "score", {})


def test_a_reward_with_a_syntax_error_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"rewards.py line 2: "):
        read_jsonl(lay(tmp_path, '{"prompt": "a"}\n', "x = 1\ndef score(:\n"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none.jsonl: there is no such file"):
        read_jsonl(tmp_path / "none.jsonl")


def test_the_arithmetic_example_is_right_and_strict() -> None:
    tasks = load_tasks(EXAMPLE / "prompts.jsonl")
    assert {split: sum(t.split == split for t in tasks) for split in ("train", "dev", "test")} == {
        "train": 36,
        "dev": 12,
        "test": 12,
    }
    assert len({task.instruction for task in tasks}) == len(tasks)
    spec = importlib.util.spec_from_file_location("arithmetic_rewards", EXAMPLE / "rewards.py")
    assert spec is not None
    assert spec.loader is not None
    rewards = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rewards)
    for task in tasks:
        assert isinstance(task.verifier, RewardFunction)
        row = task.verifier.row
        expected = row["expected"]
        first, second = map(int, re.findall(r"\d+", task.instruction))
        assert expected == (first - second if " - " in task.instruction else first + second)
        for answer, reward in {
            f"{expected}": 1.0,
            f" {expected}\n": 1.0,
            f"{expected + 1}": 0.0,
            f"It is {expected}": 0.0,
            f"{expected} {expected}": 0.0,
            f"{expected}.0": 0.0,
            "": 0.0,
        }.items():
            assert rewards.score(prompt=task.instruction, answer=answer, **row) == reward
