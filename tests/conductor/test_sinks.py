"""Sinks have the numbers of the record, read back from what the real packages wrote."""

from __future__ import annotations

import glob
import json
import os
import sqlite3
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from run_folder import RunFolder

sys.path.append(str(Path(__file__).parents[1] / "monitor"))
from made_run import evaluated

from steelyard import conductor
from steelyard.conductor import sinks
from steelyard.conductor.listener import EvaluationReport, NullListener, StepReport
from steelyard.conductor.sinks import (
    SinkListener,
    SinksSection,
    TrackioSection,
    WandbSection,
    require_sinks,
)
from steelyard.store import BASE_STEP, RunReader, RunStore

WRITTEN = {
    ("warm_start/loss", 1): 2.0,
    ("warm_start/loss", 2): 1.5,
    ("evaluation/dev/pass_at_1", 0): 0.25,
    ("evaluation/dev/pass_at_1/or", 0): 0.5,
    ("evaluation/dev/pass_at_1/(none)", 0): 0.0,
    ("evaluation/dev/unscored", 0): 0.0,
    ("rl/reward_mean", 1): 0.5,
    ("rl/grad_norm", 1): 0.75,
    ("rl/reward_mean", 2): 0.625,
    ("rl/grad_norm", 2): 1.25,
    ("alarms/divergence", 2): 1.0,
}
"""What `tell` makes of a run; the metric that is not known (NaN) is in no sink."""


class Raised(NamedTuple):
    name: str
    step: int
    text: str


class Remembering(NullListener):
    def __init__(self) -> None:
        self.notes: list[str] = []
        self.steps: list[int] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def step(self, metrics: StepReport) -> None:
        self.steps.append(metrics.step)


def environment(**more: str) -> dict[str, str]:
    """That of a process which finds this file and what this process imports."""
    return {**os.environ, "PYTHONPATH": ":".join([str(Path(__file__).parent), *sys.path]), **more}


def tell(run: Path, section: SinksSection) -> Remembering:
    """Records a run and tells its listener of it, as the conductor does."""
    heard = Remembering()
    with RunStore.start(run, {"rl": {"steps": 2}}) as store:
        listener = SinkListener(heard, section, run, {"rl": {"steps": 2}})
        listener.phase("warm start", 2)
        store.add_metrics(1, "warm_start", {"loss": 2.0})
        store.add_metrics(2, "warm_start", {"loss": 1.5})
        episodes = evaluated("dev", {"a-or": (1, 2), "without-": (0, 2)})  # no kind
        store.add_evaluation("step-0", 0, "dev", episodes)
        listener.evaluation(EvaluationReport("step-0", "dev", 1, 4))
        for step, reward, norm in ((1, 0.5, 0.75), (2, 0.625, 1.25)):
            metrics = {"reward_mean": reward, "grad_norm": norm, "unknown": float("nan")}
            store.add_metrics(step, "rl", metrics)
            listener.step(StepReport(step, reward, 0, 8, {}))
        listener.alarm(Raised("divergence", 2, "the gap has grown"))
        listener.stop()
        listener.stop()  # a second time does nothing
        listener.note("the run goes on")
    return heard


def scalars(directory: Path) -> dict[tuple[str, int], float]:
    accumulator = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator"
    ).EventAccumulator(str(directory), size_guidance={"tensors": 0, "scalars": 0})
    accumulator.Reload()
    make = pytest.importorskip("tensorboard.util.tensor_util").make_ndarray
    return {
        (tag, event.step): float(make(event.tensor_proto))
        for tag in accumulator.Tags()["tensors"]
        for event in accumulator.Tensors(tag)
    }


def test_tensorboard_has_the_numbers(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    assert tell(tmp_path / "r", SinksSection(tensorboard=True)).notes == ["the run goes on"]
    assert scalars(tmp_path / "r" / "logs" / "tensorboard") == WRITTEN
    tell(tmp_path / "s", SinksSection(tensorboard=tmp_path / "elsewhere" / "s"))
    assert scalars(tmp_path / "elsewhere" / "s") == WRITTEN


def log_records(data: bytes) -> Iterator[bytes]:
    """The records of a .wandb file: LevelDB's log format after seven bytes of header."""
    at, block, found = 7, 32768, b""
    while at + 7 <= len(data):
        if block - at % block < 7:  # no room for another header: the block's end is padding
            at += block - at % block
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        found += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last part
            yield found
            found = b""


def test_wandb_has_the_numbers_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    from wandb.proto.wandb_internal_pb2 import Record

    monkeypatch.setenv("WANDB_MODE", "online")  # the run file decides, not the environment
    section = SinksSection(wandb=WandbSection(project="steel"))
    assert tell(tmp_path / "r", section).notes == ["the run goes on"]
    (file,) = glob.glob(str(tmp_path / "r/logs/wandb/offline-run-*/run-*.wandb"))
    written: dict[tuple[str, int], float] = {}
    names = set()
    for data in log_records(Path(file).read_bytes()):
        record = Record.FromString(data)
        if record.WhichOneof("record_type") == "run":
            names.add((record.run.project, record.run.display_name))
        row = {
            item.key or ".".join(item.nested_key): json.loads(item.value_json)
            for item in record.history.item
        }
        for name, value in row.items():
            part = name.partition("/")[0]
            if "/" in name and name != f"{part}/step":
                written[name, row[f"{part}/step"]] = value
    assert written == WRITTEN
    assert names == {("steel", "r")}


def test_trackio_has_the_numbers_in_its_local_database(tmp_path: Path) -> None:
    pytest.importorskip("trackio")
    # trackio reads TRACKIO_DIR when it is imported: hence a process of its own.
    program = (
        "from pathlib import Path; from test_sinks import *\n"
        "section = SinksSection(trackio=TrackioSection(project='steel'))\n"
        f"assert tell(Path({str(tmp_path / 'r')!r}), section).notes == ['the run goes on']\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(TRACKIO_DIR=str(tmp_path / "db")),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    (database,) = (tmp_path / "db").glob("steel*.db")
    with sqlite3.connect(database) as connection:
        rows = connection.execute("SELECT run_name, step, metrics FROM metrics").fetchall()
    assert {name for name, _, _ in rows} == {"r"}
    written = {(k, step): v for _, step, text in rows for k, v in json.loads(text).items()}
    assert written == WRITTEN


def test_a_real_run_logs_every_metric_of_its_record(folder: RunFolder) -> None:
    pytest.importorskip("tensorboard")
    changes = ["sinks.tensorboard=true", "rl.steps=2"]
    settings = conductor.read_run_file(folder.run_file("logged"), changes)
    conductor.train(settings, NullListener())
    with RunReader(settings.path) as reader:
        recorded = {
            (f"rl/{name}", record.step): value
            for record in reader.steps("rl")
            for name, value in record.values.items()
            if value == value
        }
        evaluations = {(f"evaluation/{e.split}/pass_at_1", e.step) for e in reader.evaluations()}
    logged = scalars(settings.path / "logs" / "tensorboard")
    assert {key for key in logged if key[0].startswith("rl/")} == recorded.keys()
    for key, value in recorded.items():
        assert logged[key] == pytest.approx(value, rel=1e-6), key
    assert evaluations <= logged.keys()
    assert ("evaluation/test/pass_at_1", BASE_STEP) in evaluations


class Full:
    """A sink on a disk that is full from the second number on."""

    def __init__(self, *_: object) -> None:
        self.logged = 0

    def log(self, values: object, step: int) -> None:
        self.logged += 1
        if self.logged > 1:
            raise OSError("No space left on device")

    def close(self) -> None:
        raise AssertionError("a sink that failed is left alone")


def test_a_sink_that_fails_is_noted_once_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sinks._OPENERS, "tensorboard", Full)
    heard = tell(tmp_path / "r", SinksSection(tensorboard=True))
    assert heard.notes == [
        "sinks.tensorboard failed and gets nothing more: OSError: No space left on device",
        "the run goes on",
    ]
    assert heard.steps == [1, 2]


def test_a_sink_that_hangs_does_not_hold_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    forever = threading.Event()

    class Stuck(Full):
        def log(self, values: object, step: int) -> None:
            forever.wait()

        def close(self) -> None: ...

    monkeypatch.setitem(sinks._OPENERS, "tensorboard", Stuck)
    monkeypatch.setattr(sinks, "_SECONDS_TO_FINISH", 0.2)
    heard = tell(tmp_path / "r", SinksSection(tensorboard=True))
    forever.set()
    assert heard.steps == [1, 2]
    assert "the sinks (tensorboard) did not finish within 0 s" in heard.notes[0]


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio"])
def test_a_missing_package_is_one_sentence_before_anything_begins(
    name: str, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    value = "true" if name == "tensorboard" else '{project = "p"}'
    settings = conductor.read_run_file(folder.run_file("none"), [f"sinks.{name}={value}"])
    with pytest.raises(ValueError, match=rf"sinks\.{name}: .* pip install 'steelyard\[sinks\]'"):
        conductor.train(settings, NullListener())
    assert not settings.path.exists()


def test_nothing_is_imported_unless_asked_for(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from steelyard.conductor.listener import NullListener\n"
        "from steelyard.conductor.sinks import SinkListener, SinksSection, require_sinks\n"
        "require_sinks(SinksSection())\n"
        f"SinkListener(NullListener(), SinksSection(), Path({str(tmp_path)!r}), {{}}).stop()\n"
        "print([m for m in ('tensorboard', 'wandb', 'trackio') if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.stdout == "[]\n", done.stderr


def test_the_run_file_holds_no_secret_and_wandb_stays_offline(folder: RunFolder) -> None:
    changes = ['sinks.wandb={project = "p"}']
    settings = conductor.read_run_file(folder.run_file("w"), changes)
    assert settings.sinks.wandb == WandbSection(project="p", mode="offline")
    with pytest.raises(ValueError, match=r"sinks\.wandb\.api_key: unknown key"):
        conductor.read_run_file(
            folder.run_file("w"), ['sinks.wandb={project = "p", api_key = "s"}']
        )
    with pytest.raises(ValueError, match=r"sinks\.tensorbord: unknown key"):
        conductor.read_run_file(folder.run_file("w"), ["sinks.tensorbord=true"])


def test_trackio_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACKIO_SPACE_ID", "someone/else")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    with pytest.raises(ValueError, match="TRACKIO_SPACE_ID would send this run to another"):
        require_sinks(SinksSection(trackio=TrackioSection(project="p")))
