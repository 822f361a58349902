"""`steelyard show` and the report, on a run whose numbers are known."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

sys.path.append(str(Path(__file__).parents[1] / "monitor"))
from made_run import evaluated, write_run

from steelyard.cli.main import app
from steelyard.cli.tables import print_report
from steelyard.monitor import VIEWS
from steelyard.store import BASE_STEP, RunStore


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "runs" / "demo")
    return tmp_path / "runs"


def show(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["show", *arguments], env={"COLUMNS": "100"})
    return result.exit_code, result.stdout, result.stderr


def test_summary_as_json_by_name_and_by_directory(runs: Path) -> None:
    code, out, _ = show("demo", "summary", "--json")
    assert code == 0
    summary = json.loads(out)
    for stage, rate in (("base", 0.0), ("warm_start", 0.25), ("final", 4 / 7)):
        assert summary[stage]["pass_at_1"] == rate
        assert set(summary[stage]) >= {"pass_at_1", "low", "high", "n", "by_kind"}
        assert set(summary[stage]["by_kind"]["or"]) >= {"pass_at_1", "low", "high", "n"}
    assert json.loads(show(str(runs / "demo"), "summary", "--json")[1])["base"] == summary["base"]


def test_summary_for_a_person(runs: Path) -> None:
    code, out, _ = show("demo")
    assert code == 0
    for part in (
        "demo · tiny · finished",
        "57% (7–96%, n=7)",
        "kind key stays at 0: submitted a wrong program in 75% of 4 episodes",
        "1 mixed, 1 all-fail",
        "64 training, 112 evaluation",
        "2.00 GiB",
    ):
        assert part in out, f"{part!r} is missing in\n{out}"


def test_episode_for_a_person(runs: Path) -> None:
    code, out, _ = show("demo", "episode", "base/a-or/0", "final/a-or/0")
    assert code == 0
    assert "The function retry_count returns\ufffd[31m a count." in out
    assert "✗ zero expected 0, got 3" in out
    assert "return 3 if value is None else value" in out
    assert "held-out checks" not in out.partition("final/a-or/0")[0]


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_draws(runs: Path, view: str) -> None:
    ids = ["final/b-key/3"] if view in ("episode", "changes", "tokens") else []
    code, out, err = show("demo", view, *ids)
    assert (code, err) == (0, "")
    assert out.strip()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere"], "no run at nowhere: it has no run.db"),
        (["demo", "nonsense"], "there is no view 'nonsense': choose one of summary"),
        (["demo", "episode", "nobody"], "the run has no episode 'nobody'"),
        (["demo", "episode", "--json"], "the view episode needs the id of an episode"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_two(
    runs: Path, arguments: list[str], sentence: str
) -> None:
    code, out, err = show(*arguments)
    assert (code, out) == (2, "")
    assert sentence in err
    assert len(err.strip().splitlines()) == 1


@pytest.mark.parametrize("width", [80, 120])
def test_report_puts_before_beside_after(runs: Path, width: int) -> None:
    screen = io.StringIO()
    print_report(Path("runs/demo"), Console(file=screen, width=width))
    text = screen.getvalue()
    titles = next(line for line in text.splitlines() if "before: a-or" in line)
    assert "after: a-or" in titles
    for part in ("base model", "after warm start", "after RL", "kind key stays at 0", "runs/demo"):
        assert part in text
    assert max(map(len, text.splitlines())) <= width


def test_report_of_a_run_that_was_stopped_early(tmp_path: Path) -> None:
    write_run(tmp_path / "stopped", finished=False)
    screen = io.StringIO()
    print_report(tmp_path / "stopped", Console(file=screen, width=100))
    assert "after warm start" in screen.getvalue()
    assert "after RL" not in screen.getvalue()


def test_a_run_that_only_evaluated(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "eval", {}) as store:
        store.add_evaluation("eval", BASE_STEP, "test", evaluated("e", {"a-or": (1, 2)}))
    code, out, _ = show(str(tmp_path / "eval"))
    assert code == 0
    assert "50% (5–95%, n=2)" in out


def test_show_needs_no_torch() -> None:
    script = "import sys, steelyard.cli.show; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "src")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.strip() == "False", done.stderr
