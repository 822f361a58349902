import contextlib
import math
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from safetensors.numpy import load_file

from steelyard.conductor import estimate, read_run_file, train
from steelyard.conductor.listener import NullListener
from steelyard.conductor.settings import as_table
from steelyard.conductor.starting import open_store
from steelyard.conductor.training import _try_to_record
from steelyard.monitor import view
from steelyard.store import RunDirectory, RunExists, RunNotFound, RunReader, RunStore, UnknownSchema


def run(path, *, resume=False, changes=()):
    settings = read_run_file(path, changes)
    train(settings, NullListener(), resume=resume)
    return settings.path


def weights(directory):
    """The bytes of the last checkpoint's weights and optimiser state."""
    run_directory = RunDirectory(directory)
    last = run_directory.checkpoint(run_directory.checkpoint_steps()[-1])
    return {
        f"{file}:{name}": tensor.tobytes()
        for file in ("model.safetensors", "optimizer.safetensors")
        for name, tensor in load_file(last / file).items()
    }


def tokens(directory):
    """Every training episode's ids, in order."""
    with RunReader(directory) as reader:
        return [
            (record.id, [s.token_ids for s in reader.episode(record.id).trajectory.segments])
            for record in reader.episode_records(purpose="train")
        ]


def test_a_run_records_what_it_did(finished):
    with RunReader(finished) as reader:
        summary = view(reader, "summary")
        assert summary["state"] == "finished"
        assert "warm_start" not in summary, "there was none"
        for stage in ("base", "final"):
            assert summary[stage]["n"] == 4
            assert set(summary[stage]["by_kind"]) == {"k0", "k1"}
            assert (
                0 <= summary[stage]["low"] <= summary[stage]["pass_at_1"] <= summary[stage]["high"]
            )
        assert [e.name for e in reader.evaluations("dev")] == ["step-0", "step-2", "step-4"]
        steps = reader.steps("rl")
        assert [s.step for s in steps] == [1, 2, 3, 4]
        assert all(s.values["mismatch"] < 1e-4 for s in steps), "float32 engine and learner agree"
        assert all(s.values["updated"] == 1 for s in steps)
        groups = reader.groups()
        assert {g.verdict for g in groups if g.used} == {"mixed"}
        used = next(g for g in groups if g.used)
        record = next(r for r in reader.episode_records(purpose="train") if r.group == used.id)
        assert record.seed is not None
        fields = reader.token_fields(record.id, 0)
        assert {len(values) for values in fields.values()} == {record.n_action_tokens}
        assert set(fields) == {"prox_logp", "advantage", "entropy", "log_ratio", "limited"}
        assert 0 < fields["entropy"].min() <= fields["entropy"].max() <= math.log(49_152)
        assert not fields["log_ratio"].any(), "one optimiser step a batch starts at ratio 1"
        for step in steps:
            assert step.values["staleness"] == step.values["staleness_max"] == 0
            assert 1 - 1e-6 < step.values["ess_episodes"] <= 1
            assert step.values["behaviour_log_ratio_std_q4"] < 1e-4
            assert 1 <= step.values["distinct_workspaces_per_group"] <= 4
            assert (
                step.values["engine_waiting_seconds"] > 0 < step.values["learner_waiting_seconds"]
            )


def test_a_warm_start_imitates_the_reference_solutions(folder):
    tasks = Path(__file__).parents[2] / "examples" / "falsy-defaults" / "tasks"
    changes = [
        f"tasks.demonstrations={tasks / 'demonstrations'}",
        "warm_start.epochs=1",
        "warm_start.learning_rate=1e-2",
        "agent.max_turn_tokens=96",
        "rl.steps=0",
    ]
    directory = run(folder.run_file("imitating"), changes=changes)
    with RunReader(directory) as reader:
        loss = [step.values["loss"] for step in reader.steps("warm_start")]
        assert len(loss) == 8, "60 demonstrations in batches of 8"
        assert loss[-1] < 0.8 * loss[0]
        summary = view(reader, "summary")
        assert summary["warm_start"]["n"] == summary["base"]["n"] == 4
        assert not reader.groups()


def test_a_run_continues_only_with_its_own_settings(finished):
    with pytest.raises(ValueError, match=r"rl\.steps = 4, now it is 9"):
        run(finished.parents[1] / "first.toml", changes=["rl.steps=9"], resume=True)


@pytest.mark.parametrize(("changes", "kept"), [((), 1), (("alarms.on_alarm=rollback",), 2)])
def test_the_disk_holds_every_checkpoint_that_may_be_there_at_once(folder, changes, kept):
    settings = read_run_file(folder.run_file("estimated"), ["checkpoint.keep=1", *changes])
    found = estimate(settings)
    # Besides the latest: the best, those before two bad batches, and one that is being written.
    assert found.disk_gb == pytest.approx((kept + 4) * 12 * found.parameters / 1e9)


def test_a_run_continues_without_its_sinks(folder):
    path = folder.run_file("unplugged")
    began = read_run_file(path, ["sinks.tensorboard=true", 'sinks.trackio={project="p"}'])
    RunStore.start(began.path, as_table(began)).close()
    settings = read_run_file(path)
    assert as_table(settings) != as_table(began)
    open_store(settings, None, resume=True).close()
    with pytest.raises(ValueError, match=r"rl\.steps = 4, now it is 9"):
        open_store(read_run_file(path, ["rl.steps=9"]), None, resume=True)


def test_a_record_that_broke_does_not_hide_the_failure(tmp_path, capsys):
    with RunStore.start(tmp_path / "run", {}) as store:
        with contextlib.closing(sqlite3.connect(store.directory.database)) as connection:
            connection.execute("DROP TABLE events")
        _try_to_record(store, ValueError("what went wrong"))
    assert "could not be recorded" in capsys.readouterr().err


def test_training_moves_the_weights_and_the_checkpoint_loads(finished, tiny_model):
    from transformers import AutoModelForCausalLM

    before = load_file(tiny_model / "model.safetensors")
    directory = RunDirectory(finished)
    with RunReader(finished) as reader:
        dev = {e.step: e.tally.solved for e in reader.evaluations("dev")}
    best = max(dev, key=lambda step: (dev[step], step))
    kept = sorted({best, 3, 4})
    assert directory.checkpoint_steps() == kept, "the two latest are kept, and the best on dev"
    after = load_file(directory.checkpoint(4) / "model.safetensors")
    assert any((before[name] != after[name]).any() for name in before)
    AutoModelForCausalLM.from_pretrained(directory.checkpoint(4))


def test_the_same_seed_gives_the_same_episodes_and_weights_and_another_does_not(finished, folder):
    second = run(folder.run_file("second"))
    assert tokens(finished) == tokens(second)
    assert weights(finished) == weights(second)
    other = run(folder.run_file("third"), changes=["run.seed=1"])
    assert tokens(finished) != tokens(other)


@pytest.mark.slow
def test_killed_and_resumed_it_ends_in_the_same_weights(finished, folder):
    path = folder.run_file("killed")
    moments = random.Random(0)
    kills = 0
    while kills < 3:
        process = subprocess.Popen(
            [
                Path(sys.executable).with_name("steelyard"),
                "train",
                path,
                *["--resume"][: min(kills, 1)],
            ],
            stdout=subprocess.DEVNULL,
        )
        wait_for_work(folder.path / "runs" / "killed", process)
        time.sleep(moments.uniform(0, 0.4))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
    assert kills >= 2
    run(path, resume=True)
    assert weights(folder.path / "runs" / "killed") == weights(finished)
    assert tokens(folder.path / "runs" / "killed") == tokens(finished)


def wait_for_work(directory: Path, process: subprocess.Popen[bytes]) -> None:
    """Until the process has the run's record open, so that the kill hits its work."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(RunNotFound, UnknownSchema), RunReader(directory) as reader:
            if reader.is_live() and reader.evaluations():
                return
        time.sleep(0.02)


def test_resuming_a_finished_run_changes_nothing(folder):
    directory = run(folder.run_file("again"), changes=["rl.steps=1"])
    before = weights(directory), tokens(directory)
    run(folder.run_file("again"), changes=["rl.steps=1"], resume=True)
    assert (weights(directory), tokens(directory)) == before
    with RunReader(directory) as reader:
        assert view(reader, "summary")["state"] == "finished"


def test_a_run_is_never_overwritten(finished):
    with pytest.raises(RunExists, match="--resume"):
        run(finished.parents[1] / "first.toml")


def test_resuming_needs_a_run(folder):
    with pytest.raises(RunNotFound, match="no run to continue"):
        run(folder.run_file("nothing"), resume=True)


def test_a_run_killed_before_its_record_began_is_started(folder):
    directory = folder.path / "runs" / "early"
    directory.mkdir(parents=True)
    (directory / "run.db").touch()
    assert run(folder.run_file("early"), changes=["rl.steps=1"], resume=True) == directory


def test_a_verifier_that_always_fails_stops_the_run_with_its_cause(folder):
    path = folder.run_file("broken")
    folder.reward("raise KeyError('expected')")
    with pytest.raises(
        ValueError, match=r"no episode of this step could be scored: verifier_error"
    ):
        run(path)
    with RunReader(folder.path / "runs" / "broken") as reader:
        assert view(reader, "summary")["state"] == "failed"
        evaluation = reader.evaluations()[0]
        assert (evaluation.tally.n, evaluation.tally.unscored) == (0, 4)


def test_an_unscored_episode_never_enters_a_baseline(folder):
    """Half the answers break the verifier: their episodes are recorded, and trained on never."""
    path = folder.run_file("half")
    folder.reward(
        "if len(answer) % 4 == 2:",
        "    raise RuntimeError('broken')",
        "return float(len(answer) % 2)",
    )
    directory = run(path)
    with RunReader(directory) as reader:
        records = reader.episode_records(purpose="train")
        broken = [r for r in records if r.cause == "verifier_error"]
        assert broken
        for record in broken:
            assert record.reward is None
            assert not {"prox_logp", "advantage"} & set(reader.token_fields(record.id, 0))


def test_without_signal_the_weights_stay_and_the_record_says_so(folder):
    path = folder.run_file("hopeless")
    folder.reward("return 0")
    directory = run(path)
    with RunReader(directory) as reader:
        assert all(s.values["updated"] == 0 for s in reader.steps("rl"))
        assert {g.verdict for g in reader.groups()} == {"all_fail"}
        assert len(reader.groups()) == 4 * 4, "each step tried twice groups_per_step"
