"""The panel says what happened, at every width, and stays as calm as it promises."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console

from steelyard.cli.drawing import sparkline, verdict_bar
from steelyard.cli.panel import TrainPanel, open_listener
from steelyard.conductor.listener import (
    EvaluationReport,
    LineListener,
    Listener,
    NullListener,
    StepReport,
)
from steelyard.episodes import GroupVerdict
from steelyard.monitor import view
from steelyard.monitor.text import duration, printable
from steelyard.store import RunReader, RunStore


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class Raised:
    name: str
    step: int
    text: str


def report(step: int, solved: int, mixed: int, *, entropy: float | None = 0.25) -> StepReport:
    groups = {
        GroupVerdict.MIXED: mixed,
        GroupVerdict.ALL_PASS: 1,
        GroupVerdict.ALL_FAIL: 7 - mixed,
    }
    return StepReport(
        step=step,
        reward_mean=solved / 64,
        solved=solved,
        scored=64,
        groups=groups,
        entropy=entropy,
        sampling_tokens_per_second=1012.0,
        training_tokens_per_second=2311.0,
        seconds={"sampling": 6.2, "grading": 0.4, "training": 5.5},
        tokens_sampled=3200,
        heldout_mean=0.125,
        paid_mean=0.25,
        heldout_scored=60,
        reward_interval=(0.125, 0.45),
        calls=160,
        call_errors=8,
        cut=3,
    )


def tell(listener: Listener, clock: Clock) -> None:
    listener.phase("base model", 108)
    by_kind = {"or": (0, 54), "key": (0, 54)}
    listener.evaluation(EvaluationReport("base", "test", 0, 108, by_kind, (0.0, 0.1)))
    listener.phase("reinforcement learning", 4)
    listener.step(report(1, 16, 5))
    by_kind = {"or": (16, 27), "key": (0, 27)}
    listener.evaluation(EvaluationReport("step-1", "dev", 16, 54, by_kind, (0.105, 0.55)))
    listener.advance(1)
    clock.now += 30
    listener.alarm(Raised("reward_truth_divergence", 1, "the gap\nhas\x1b[2J grown"))
    listener.note("checkpoint\nwritten\x1b[2J")


def drawn(panel: TrainPanel, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(panel)
    return console.export_text()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def panel(clock: Clock) -> TrainPanel:
    console = Console(width=100, file=io.StringIO())
    return TrainPanel(console, run=Path("runs/demo"), model="tiny", clock=clock, live=False)


def test_panel_says_what_happened(panel: TrainPanel, clock: Clock) -> None:
    tell(panel, clock)
    text = drawn(panel, 100)
    for part in (
        "reinforcement learning",
        "1 of 4",
        "about 1:30 left",  # 30 s for one step, three to go
        "0.25  12–45%  n=64",
        "30%  10–55%  n=54",
        "base 0%",
        "5/8 with signal, 5/8 so far",
        "5 mixed",
        "2 all-fail",
        "0.25  nats a token",
        "sampling 1,012   training 2,311",
        "or ▅  key 0",
        "checkpoint written\ufffd[2J",
        "0.12  gap 0.12  n=60",
        "50 tokens, 2.5 calls, 3 cut",
        # 3,200 tokens at 1,012 a second are 3.2 of the 11.7 s; the learner works for 5.5 s.
        "engine 73%   learner 53%",
        "1  reward truth divergence at step 1: the gap has",
        "runs/demo",
    ):
        assert part in text, f"{part!r} is missing in\n{text}"


@pytest.mark.parametrize("width", [80, 100, 120, 140])
def test_panel_fits_and_keeps_its_height(panel: TrainPanel, clock: Clock, width: int) -> None:
    before = drawn(panel, width).splitlines()
    tell(panel, clock)
    panel.note("a note that is far too long for one line " * 10)
    after = drawn(panel, width).splitlines()
    assert len(before) == len(after) == 22
    assert {len(line) for line in after} == {min(width, 120)}
    assert after[0].startswith("╭─ Steelyard · demo · tiny")


def test_panel_with_many_kinds_still_fits_a_small_terminal(panel: TrainPanel, clock: Clock) -> None:
    tell(panel, clock)
    by_kind = {f"kind{i}": (i % 2, 1) for i in range(10)}
    panel.evaluation(EvaluationReport("step-2", "dev", 6, 12, by_kind))
    text = drawn(panel, 80)
    assert len(text.splitlines()) < 24
    assert "kind9 ▅" not in text
    assert "kind9 █" in text


def test_panel_without_alarms_or_heldout_checks_says_so(panel: TrainPanel) -> None:
    panel.step(StepReport(step=1, reward_mean=0.5, solved=32, scored=64, groups={}))
    text = drawn(panel, 80)
    assert "alarms           none" in text
    assert "no held-out checks yet" in text
    assert "waiting          –" in text


def test_panel_names_a_step_without_a_gradient(panel: TrainPanel) -> None:
    panel.step(report(1, 8, 0))
    assert "0/8 mixed: no gradient, 0/8 so far" in drawn(panel, 100)


def test_panel_counts_what_carries_no_reward_by_its_cause(panel: TrainPanel) -> None:
    step = StepReport(1, 0.5, 16, 60, {}, {"verifier_timeout": 3, "sandbox_failure": 1})
    panel.step(step)
    drawn_step = "3 verifier timeout, 1 sandbox failure of 64 episodes, 4 so far"
    assert drawn_step in drawn(panel, 100)
    assert step.metrics()["unscored"] == 4
    panel.step(StepReport(2, 0.5, 32, 64, {}))
    assert "none of 64 episodes, 4 so far" in drawn(panel, 100)


def test_where_there_is_no_interval_none_is_drawn(panel: TrainPanel) -> None:
    panel.step(StepReport(step=1, reward_mean=0.5, solved=16, scored=64, groups={}))
    assert "n=64" not in drawn(panel, 100)


def test_live_panel_draws_on_a_terminal_and_stops() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=100)
    listener = open_listener(Path("runs/demo"), "tiny", console=console)
    assert isinstance(listener, TrainPanel)
    listener.note("hello")
    listener.close()
    length = len(screen.getvalue())
    assert "hello" in screen.getvalue()
    listener.close()
    assert len(screen.getvalue()) == length


def test_lines_where_there_is_no_terminal(clock: Clock) -> None:
    stream = io.StringIO()
    listener = open_listener(console=Console(file=stream))
    assert isinstance(listener, LineListener)
    tell(listener, clock)
    lines = stream.getvalue().splitlines()
    assert lines[3] == (
        "step 1 reward=0.250 heldout=0.125 gap=0.125"
        " mixed=5 all_pass=1 all_fail=2 unscored=0 calls=160 call_errors=8 cut=3 entropy=0.250"
        " sampling=6.2s grading=0.4s training=5.5s sampling=1012tok/s training=2311tok/s"
    )
    assert lines[1] == "evaluation base on test: pass@1=0.000 (0/108) or=0/54 key=0/54"
    assert lines[-2] == "alarm step=1 reward_truth_divergence: the gap has\ufffd[2J grown"
    assert lines[-1] == "note checkpoint written\ufffd[2J"
    assert isinstance(open_listener(quiet=True), NullListener)


def test_drawing_pieces() -> None:
    assert sparkline([0.0, 0.5, 1.0], 3) == "▁▅█"
    assert sparkline([0.0, None, 1.0], 6) == "▁▁  ██"
    assert sparkline([0.1] * 5 + [1.0], 2) == "▁█"
    assert sparkline([], 4) == "    "
    bar = verdict_bar({GroupVerdict.MIXED: 2, GroupVerdict.UNSCORED: 2}, 8)
    assert bar.plain == "████░░░░"
    assert verdict_bar({}, 3).plain == "···"
    assert [duration(s) for s in (7, 760.4, 3723)] == ["0:07", "12:40", "1:02:03"]
    assert printable("a\tb\x1b[31m\r\n") == "a   b\ufffd[31m\ufffd"


def test_the_conductors_report_has_the_names_that_the_summary_reads(tmp_path: Path) -> None:
    made = StepReport(
        step=1, reward_mean=0.5, solved=2, scored=4, groups={GroupVerdict.MIXED: 1}, entropy=0.25,
        sampling_tokens_per_second=10.0, training_tokens_per_second=20.0,
        seconds={"sampling": 1.0, "training": 2.0}, staleness=1.5, tokens_trained=7,
        peak_memory_bytes=99,
    )  # fmt: skip
    with RunStore.start(tmp_path / "r", {}) as store:
        store.add_metrics(1, "rl", made.metrics())
    with RunReader(tmp_path / "r") as reader:
        summary = view(reader, "summary")
    (step,) = summary["steps"]
    assert step["entropy"] == 0.25
    assert step["staleness"] == 1.5
    assert step["tokens_per_second"] == {"sampling": 10.0, "training": 20.0}
    assert step["seconds"] == {"sampling": 1.0, "training": 2.0}
    assert summary["cost"]["tokens_trained"]["rl"] == 7
    assert summary["cost"]["peak_memory_bytes"] == 99
