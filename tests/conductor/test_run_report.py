"""A training ends with a report, and the report's command begins the same run again."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from run_folder import RunFolder

from steelyard import conductor
from steelyard.conductor.settings import as_table
from steelyard.monitor.report import write_report
from steelyard.store import RunReader


@pytest.fixture
def trained(folder: RunFolder) -> tuple[Path, str]:
    """The directory of a short run of the command, and what the command printed."""
    arguments = ["train", str(folder.run_file("short")), "--set", "rl.steps=1"]
    program = "from steelyard.cli.main import app; app()"
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env={**os.environ, "PYTHONPATH": str(source)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return folder.path / "runs" / "short", done.stdout


def test_a_training_ends_with_its_report(trained: tuple[Path, str]) -> None:
    run, printed = trained
    assert printed.splitlines()[-1] == f"report: {run / 'report.html'}"
    text = re.sub(r"<[^>]+>", " ", (run / "report.html").read_text())
    with RunReader(run) as reader:
        episodes = len(reader.episode_records(purpose="train"))
        recorded = reader.config()
    assert f"{episodes} training, " in text
    assert "group comparison" in text  # an axis of the algorithm
    assert re.search(r"rl\.episodes_per_group\s+4\s", text)
    # The command that the report names reads the same settings, but for the new name.
    (command,) = re.findall(r"steelyard train (.+?-again)", text)
    file, flag, change = shlex.split(command)
    assert flag == "--set"
    again = as_table(conductor.read_run_file(Path(file), [change]))
    assert again.pop("run") == recorded.pop("run") | {"name": "short-again"}
    assert again == recorded


def test_a_report_changes_nothing_in_the_record(finished: Path, tmp_path: Path) -> None:
    import shutil

    run = tmp_path / "copy"
    shutil.copytree(finished, run)
    before = (run / "run.db").read_bytes()
    write_report(run)
    assert (run / "run.db").read_bytes() == before
    assert sorted(p.name for p in run.iterdir() if p.name.startswith("report")) == [
        "report.html",
        "report.md",
    ]
