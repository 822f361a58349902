"""What a run records of its audit; the view of it calls nothing sound that it does not know."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard.conductor.screening import Screened
from steelyard.conductor.starting import record_audit
from steelyard.monitor import view
from steelyard.store import RunReader, RunStore

WEAK = Screened("b-key", "weak", ("no check tries 0 (paid 1)", "1.0 is paid (x: y)"), ("weak",))
BROKEN = Screened("a: or", "broken", ("doing nothing is paid (1)",), ("cheat", "leak"))


def sound(task: str) -> Screened:
    return Screened(task, "sound", (), ())


@pytest.fixture
def audited(tmp_path: Path) -> Path:
    with RunStore.start(tmp_path / "run", {}) as store:
        record_audit(store, [sound("c"), WEAK, BROKEN, sound("d")])
    return tmp_path / "run"


def test_every_task_has_its_verdict_worst_first(audited: Path) -> None:
    with RunReader(audited) as reader:
        shown = view(reader, "audit")
        (one,) = view(reader, "audit", ["b-key"])["tasks"]
        with pytest.raises(ValueError, match="names no task 'nobody'"):
            view(reader, "audit", ["nobody"])
    assert [(t["verdict"], t["task"]) for t in shown["tasks"]] == [
        ("broken", "a: or"), ("weak", "b-key"), ("sound", "c"), ("sound", "d"),
    ]  # fmt: skip
    assert shown["tasks"][0]["kinds"] == ["cheat", "leak"]
    assert shown["tasks"][0]["sentence"] == "doing nothing is paid (1)"
    assert one["sentence"] == "no check tries 0 (paid 1); 1.0 is paid (x: y)"
    assert shown["verdicts"] == {"broken": 1, "weak": 1, "sound": 2}
    assert shown["sentence"] == (
        "The quick audit of the verifiers, before the run began, proved something of 2 of 4 tasks:"
        " 1 broken, 1 weak; the rest are sound."
    )


def test_a_run_whose_tasks_were_all_sound_says_so(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "run", {}) as store:
        record_audit(store, [sound("c"), sound("d")])
    with RunReader(tmp_path / "run") as reader:
        shown = view(reader, "audit")
    assert shown["sentence"].endswith("proved nothing against any of 2 tasks: all sound.")
    assert shown["verdicts"] == {"broken": 0, "weak": 0, "sound": 2}


def test_without_a_record_nothing_is_called_sound(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "none", {}):
        pass
    with RunStore.start(tmp_path / "old", {}) as store:  # as audits were recorded before
        store.add_event("audit", "weak: b: x", task="b", verdict="weak", kinds=["weak"])
        store.add_event("audit", "from before audits named their tasks")
    with RunReader(tmp_path / "none") as reader:
        none = view(reader, "audit")
    with RunReader(tmp_path / "old") as reader:
        old = view(reader, "audit")
    assert (none["recorded"], none["verdicts"]["sound"], none["tasks"]) == ("nothing", None, [])
    assert "does not say whether there was one" in none["sentence"]
    assert (old["recorded"], old["verdicts"]["sound"]) == ("findings", None)
    assert [t["sentence"] for t in old["tasks"]] == ["x", "from before audits named their tasks"]
    assert old["sentence"].endswith("of 2 tasks. Which others were sound is not recorded.")


def test_show_prints_it_as_a_table(audited: Path) -> None:
    run = ["show", str(audited), "audit"]
    printed = CliRunner().invoke(app, run, env={"COLUMNS": "120"}).stdout
    rows = [line.split() for line in printed.splitlines()]
    assert "1 broken, 1 weak; the rest are sound." in " ".join(printed.split())
    assert ["weak", "b-key", "weak"] in [row[:3] for row in rows]
    assert any(row[:2] == ["sound", "d"] for row in rows)
