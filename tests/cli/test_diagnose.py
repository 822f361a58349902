"""`steelyard diagnose` on records that are known; the experiments are tested with the conductor."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "monitor"))
from made_run import episode, failed, training_group, write_run

from steelyard.cli.main import app
from steelyard.episodes import Group
from steelyard.store import RunStore


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "demo")
    return tmp_path / "runs"


def called(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "100"})
    return result.exit_code, result.stdout, result.stderr


def test_a_run_for_a_person_and_as_json(runs: Path) -> None:
    code, out, _ = called("diagnose", "demo")
    assert code == 0
    for part in (
        "the run: no exploration (shown)",
        "2 of 4 groups carried a gradient",
        "try: sample more widely",
        "d-key",
        "decide by experiment, for example: steelyard diagnose runs/demo d-key",
        "findings in 44 scanned episodes: none",
    ):
        assert part in out, f"{part!r} is missing in\n{out}"
    code, out, _ = called("diagnose", "demo", "--json")
    assert code == 0
    assert json.loads(out)["verdict"] == "no_exploration"
    assert json.loads(called("show", "demo", "diagnosis", "--json")[1]) == json.loads(out)


def test_a_group_by_show(runs: Path) -> None:
    code, out, _ = called("show", "demo", "diagnosis", "step-1/d-key", "c-or")
    assert code == 0
    assert "step-1/d-key: no exploration (shown)" in out
    assert "c-or: has gradient" in out


def test_findings_are_scanned_when_they_are_looked_at(runs: Path) -> None:
    path = runs / "cheat"
    with RunStore.start(path, {}) as store:
        cheat = "import os\nos._exit(0)  # \x1b[31mred\n"
        store.add_group(1, training_group(1, "a-or", [failed()], [cheat]), "train", True)
        code, out, _ = called("show", "cheat", "findings")
        assert code == 0
        assert "1 findings; 1 of 1 episodes scanned" in out
        assert "exits" in out
        assert "\x1b[31m" not in out
        other = Group("g2", "a-or", [episode("g2/0", "a-or", failed(), program="x = 1\n")])
        store.add_group(2, other, "train", True)
        shown = json.loads(called("show", "cheat", "findings", "--json")[1])
    assert (shown["scanned"], shown["episodes"]) == (2, 2)
    (finding,) = shown["findings"]
    assert (finding["task"], finding["step"], finding["raw"]) == ("a-or", 1, 0.0)
    assert called("show", "cheat", "findings", "cheat", "--json")[0] == 0
    assert json.loads(called("show", "cheat", "findings", "info", "--json")[1])["findings"] == []


def test_a_diagnosis_does_not_steer_the_terminal(runs: Path) -> None:
    path = runs / "hostile"
    with RunStore.start(path, {}) as store:
        group = training_group(1, "a\x1b[2J-or", [failed()] * 4, ["x = 1\n"] * 4)
        store.add_group(1, group, "train", True)
    for command in (("diagnose", "hostile"), ("show", "hostile", "diagnosis")):
        code, out, _ = called(*command)
        assert code == 0
        assert "\x1b" not in out


def test_what_does_not_exist_is_one_sentence(runs: Path) -> None:
    for arguments, sentence in (
        (("diagnose", "nowhere"), "no run at nowhere"),
        (("diagnose", "demo", "--policy", "x"), "--policy plays a task"),
        (("diagnose", "demo", "nobody"), "the run has no task 'nobody'"),
        (("diagnose", "demo", "d-key"), "no longer lies where the run's configuration names it"),
        (("show", "demo", "diagnosis", "nobody"), "no group or task 'nobody'"),
    ):
        code, _, error = called(*arguments)
        assert code == 2
        assert sentence in error
        assert "Traceback" not in error
