"""What a live run says of an evaluation is what its record says later, interval included."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "monitor"))
from made_run import episode, failed, lost, passed

from steelyard.conductor.evaluation import evaluation_report
from steelyard.conductor.listener import LineListener
from steelyard.monitor import view, wilson_interval
from steelyard.store import RunReader, RunStore


def test_the_interval_is_clustered_by_task_as_the_signals_have_it(tmp_path: Path) -> None:
    members = [
        episode(f"{task}/{i}", task, passed() if task in ("a-or", "b-key") else failed())
        for task in ("a-or", "b-key", "c-or", "d-key", "e-or")
        for i in range(8)
    ]
    members.append(episode("e-or/8", "e-or", lost()))
    report = evaluation_report("step-1", "dev", members)
    assert (report.solved, report.n, report.rate) == (16, 40, 0.4)
    assert report.by_kind == {"key": (8, 16), "or": (8, 24)}
    with RunStore.start(tmp_path / "run", {}) as store:
        store.add_evaluation("step-1", 1, "dev", members)
    with RunReader(tmp_path / "run") as reader:
        (shown,) = view(reader, "signals")["evaluations"]
    assert report.interval == (shown["low"], shown["high"])
    low, high = wilson_interval(16, 40)
    assert report.interval is not None
    assert report.interval[0] < low - 0.1, "five tasks that agree within are not forty samples"
    assert report.interval[1] > high + 0.1


def test_of_errors_alone_there_is_no_rate_and_no_interval() -> None:
    report = evaluation_report("base", "test", [episode("a-or/0", "a-or", lost())])
    assert (report.solved, report.n, report.rate, report.interval) == (0, 0, None, None)


def test_tasks_without_a_kind_are_no_kind_of_their_own() -> None:
    plain = [episode("plain-/0", "plain-", passed()), episode("other-/0", "other-", failed())]
    assert plain[0].kind == ""
    stream = io.StringIO()
    LineListener(stream).evaluation(evaluation_report("base", "test", plain))
    LineListener(stream).evaluation(
        evaluation_report("base", "test", [*plain, episode("a-or/0", "a-or", passed())])
    )
    assert stream.getvalue().splitlines() == [
        "evaluation base on test: pass@1=0.500 (1/2)",
        "evaluation base on test: pass@1=0.667 (2/3) (none)=1/2 or=1/1",
    ]


def test_a_rate_without_spread_is_bounded_by_the_number_of_tasks() -> None:
    members = [episode(f"t{t}/{i}", f"t{t}", passed()) for t in range(4) for i in range(10)]
    report = evaluation_report("final", "test", members)
    assert report.interval == pytest.approx(wilson_interval(4, 4))
