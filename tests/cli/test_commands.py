"""The commands as a user meets them: what they print, and what they say about a mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard.cli.main import app

EXAMPLES = Path(__file__).parents[2] / "examples"
RUN_FILE = EXAMPLES / "falsy-defaults" / "run.toml"
TASK = EXAMPLES / "falsy-defaults" / "tasks" / "test" / "retry-count-or"


def steelyard(*arguments, code=0, **options):
    result = CliRunner().invoke(app, [str(a) for a in arguments], **options)
    assert result.exit_code == code, result.output + repr(result.exception)
    return result


def mistake(*arguments):
    """The one sentence on standard error of a command that a user got wrong."""
    result = steelyard(*arguments, code=2)
    assert result.stderr.startswith("steelyard: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.output
    return result.stderr


def test_every_command_has_help():
    text = steelyard("--help").stdout
    for command in app.registered_commands:
        assert command.name in text
        assert steelyard(command.name, "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train", "nowhere.toml"], "nowhere.toml: there is no such run file"),
        (["train", RUN_FILE, "--set", "rl.stepz=3"], "did you mean 'steps'?"),
        (["train", RUN_FILE, "--set", "tasks.train=nowhere"], "nowhere"),
        (["train", RUN_FILE, "--dry-run", "--set", "model.path=./nowhere"], "no such directory"),
        (["train", RUN_FILE, "--resume", "--set", "run.name=never-begun"], "no run to continue"),
        (["validate", "nowhere"], "nowhere: there is no such file or folder"),
        (["eval", TASK, "--model", "./nowhere"], "no such directory"),
        (["show", "nowhere", "summary"], "nowhere"),
        (["export", "nowhere", "out"], "neither a run with checkpoints"),
        (["init", EXAMPLES], "is not empty"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, words):
    assert words in mistake(*arguments)


def test_without_bubblewrap_the_sentence_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    sentence = mistake("eval", TASK)
    assert "bubblewrap" in sentence
    assert "install" in sentence
    result = steelyard("doctor", code=1)
    assert "bubblewrap" in result.stdout


def test_doctor_is_content_here():
    assert "wrong" not in steelyard("doctor").stdout


def test_a_new_project_is_sound_and_its_run_file_valid(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    steelyard("init", "project")
    monkeypatch.chdir(tmp_path / "project")
    assert "1 of 1 tasks are sound" in steelyard("validate", "tasks").stdout
    assert "135 M parameters" in steelyard("train", "run.toml", "--dry-run").stdout


def test_validate_names_what_is_wrong_with_a_task(tmp_path):
    steelyard("init", tmp_path / "project")
    task = tmp_path / "project" / "tasks" / "clamp"
    checks = task / "tests" / "checks.json"
    checks.write_text(checks.read_text().replace('"expected": 5', '"expected": 6'))
    result = steelyard("validate", task, "--json", code=1)
    (problem,) = json.loads(result.stdout)
    assert "the task's own reference is not paid" in problem["problem"]
    solved = task / "environment" / "workspace" / "clamp.py"
    checks.write_text(checks.read_text().replace('"expected": 6', '"expected": 5'))
    solved.write_text((task / "solution" / "files" / "clamp.py").read_text())
    (problem,) = json.loads(steelyard("validate", task, "--json", code=1).stdout)
    assert "doing nothing is paid" in problem["problem"]


def test_a_task_without_a_verifier_is_refused(tmp_path):
    import shutil

    shutil.copytree(TASK, tmp_path / "task")
    shutil.rmtree(tmp_path / "task" / "tests")
    assert "tests" in mistake("validate", tmp_path / "task")


def test_algorithms_are_the_records_that_run():
    from steelyard.objective import ALGORITHMS, as_table

    rows = json.loads(steelyard("algorithms", "--json").stdout)
    assert rows == {name: as_table(row) for name, row in ALGORITHMS.items()}
    printed = steelyard("algorithms").stdout
    assert all(name in printed for name in ALGORITHMS)
    assert "[algorithm]" in printed, "not swallowed as markup"


def test_only_an_algorithm_that_needs_fresh_samples_is_said_to_need_them():
    from steelyard.cli.algorithms import ratio
    from steelyard.objective import ALGORITHMS

    words = {name: ratio(row) for name, row in ALGORITHMS.items() if row.ratio == "none"}
    imitating = {name for name, word in words.items() if word == "none (imitation)"}
    assert imitating == {"sft", "rest"}
    assert {word for name, word in words.items() if name not in imitating} == {
        "none (fresh samples)"
    }


def test_play_lets_a_person_be_the_policy():
    fix = '    value = config.get("retries")\n    return 3 if value is None else value'
    turns = [
        {"name": "edit", "arguments": {"old": '    return config.get("retries") or 3', "new": fix}},
        {"name": "run", "arguments": {}},
        {"name": "submit", "arguments": {}},
    ]
    result = steelyard("play", TASK, input="".join(json.dumps(t) + "\n" for t in turns))
    assert "checks: reward 1" in result.stdout
    assert "held-out checks: reward 1" in result.stdout
    assert "zero: ok" in result.stdout


def test_eval_reports_an_interval_and_keeps_every_episode(tiny_model, tmp_path):
    folder = EXAMPLES / "falsy-defaults" / "tasks" / "dev"
    out = tmp_path / "evaluation"
    result = steelyard(
        "eval",
        folder,
        "--model",
        tiny_model,
        "--limit",
        4,
        "--max-turn-tokens",
        8,
        "--json",
        "--out",
        out,
    )
    shown = json.loads(result.stdout)
    assert shown["n"] == 4
    assert shown["low"] == 0.0
    assert shown["high"] > 0
    episodes = json.loads(steelyard("show", out, "episodes", "--json").stdout)
    assert len(episodes["episodes"]) == 4
