"""`steelyard audit` from the outside: its document, its exit status, its sentences."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard.cli.main import app

SUBSTRING = "def score(prompt, answer, expected):\n    return float(expected in answer)\n"
EXACT = "def score(prompt, answer, expected):\n    return float(answer.strip() == expected)\n"
ROWS = [{"prompt": f"What is {n} + 1?", "expected": str(n + 1)} for n in (11, 28, 40)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rewards.py").write_text(f"{EXACT}\n\n{SUBSTRING.replace('score', 'contains')}")
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return tmp_path


def run(*words: str | Path) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["audit", *map(str, words)])
    return result.exit_code, result.stdout, result.stderr


def test_a_sound_function_exits_0_and_a_flawed_one_1(folder: Path) -> None:
    examples = ("--examples", folder / "rows.jsonl")
    assert run(f"{folder}/rewards.py:score", *examples)[0] == 0
    code, said, _ = run(f"{folder}/rewards.py:contains", *examples)
    assert code == 1
    assert "answers/contains" in said
    assert "broken" in said


def test_under_json_stdout_is_one_document(folder: Path) -> None:
    report = folder / "report.md"
    words = (folder / "rows.jsonl", "--reward", "rewards.py:contains", "--report", report)
    code, said, _ = run(*words, "--json", "--only", "answers/contains")
    task = json.loads(said)["tasks"][0]
    assert code == 1
    assert task["verdict"] == "broken"
    assert {finding["probe"] for finding in task["findings"]} == {"answers/contains"}
    assert task["findings"][0]["command"].endswith("--only answers/contains")
    assert "an answer that only contains the right one is paid" in report.read_text()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere"], "nowhere: there is no such file or folder"),
        (["rewards.py:score"], "a reward function is audited on examples; add --examples"),
        (["{folder}/rows.jsonl", "--only", "jumps"], "there is no such probe; give a family"),
        (["{folder}/rows.jsonl", "--gold", "truth"], "truth"),
        (["{folder}", "--fix-git"], "no environment/ below it holds a git repository"),
    ],
)
def test_what_cannot_be_audited_is_one_sentence(
    folder: Path, words: list[str], sentence: str
) -> None:
    code, said, complaint = run(*(word.replace("{folder}", str(folder)) for word in words))
    assert (code, said) == (2, "")
    assert sentence in complaint
    assert "\n" not in complaint.strip()
