"""`steelyard report`, and the line with which a training ends."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "monitor"))
from made_run import write_run

from steelyard.cli.main import app
from steelyard.cli.report import write_report_if_possible


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_run(Path("runs/demo"))
    return Path("runs/demo")


def test_report_writes_the_file_and_prints_its_path(run: Path) -> None:
    result = CliRunner().invoke(app, ["report", "demo"])
    assert (result.exit_code, result.stdout) == (0, "runs/demo/report.html\n")
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    assert (run / "report.md").is_file()


def test_markdown_is_printed_and_nothing_is_written(run: Path) -> None:
    result = CliRunner().invoke(app, ["report", "demo", "--markdown"])
    assert result.exit_code == 0
    assert result.stdout.startswith("# demo\n")
    assert not (run / "report.html").exists()


def test_open_shows_the_file(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert CliRunner().invoke(app, ["report", "demo", "--open"]).exit_code == 0
    assert opened == [(run / "report.html").resolve().as_uri()]


def test_no_run_is_one_sentence(run: Path) -> None:
    result = CliRunner().invoke(app, ["report", "nothing"])
    assert (result.exit_code, result.stderr) == (
        2,
        "steelyard: no run at nothing: it has no run.db\n",
    )


def test_a_training_does_not_fail_because_its_report_does(run: Path) -> None:
    assert write_report_if_possible(run) == "report: runs/demo/report.html"
    (run / "report.html").unlink()
    (run / "report.html").mkdir()  # something is in the way
    said = write_report_if_possible(run)
    assert said.startswith("the report could not be written (IsADirectoryError")
    assert said.endswith("; try steelyard report runs/demo")
    assert [p.name for p in run.glob("report.html.*")] == []
    (run / "run.db").write_bytes(b"no database")
    assert "cannot be read as a run database" in write_report_if_possible(run)
