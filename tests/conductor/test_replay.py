"""A batch that went wrong is named, and any update can be computed again from the record."""

import dataclasses
import json
import math
import shutil

import pytest
import torch
from run_folder import RunFolder
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard.conductor import episode_shares, read_run_file, replay, train
from steelyard.conductor.batches import GradientWatch
from steelyard.conductor.listener import NullListener
from steelyard.conductor.recording import token_fields
from steelyard.conductor.replaying import recorded_batch
from steelyard.conductor.update import Update
from steelyard.learner import StepMetrics
from steelyard.learner.trained import TrainedWeights
from steelyard.store import RunDirectory, RunReader


@pytest.fixture(scope="module")
def kept(tmp_path_factory, tiny_model):
    """A run of which every checkpoint is left."""
    folder = RunFolder(tmp_path_factory.mktemp("kept"), tiny_model)
    changes = ["checkpoint.keep=9", "rl.steps=3", "evaluation.every_steps=0"]
    settings = read_run_file(folder.run_file("kept"), changes)
    train(settings, NullListener())
    return settings.path


def test_an_update_is_replayed_to_the_last_bit(kept):
    with RunReader(kept) as reader:
        norms = dict(reader.metric("grad_norm"))
        done = replay(kept, 3)
        assert done.checkpoint == 2
        assert done.update.metrics.loss == done.recorded_loss
        assert done.update.metrics.grad_norm == done.recorded_grad_norm == norms[3]
        for fields in token_fields(done.update):
            recorded = reader.token_fields(fields.episode, fields.segment)
            assert set(recorded) == set(fields.given())
            for name, values in fields.given().items():
                assert values.tobytes() == recorded[name].tobytes(), name
        batch = recorded_batch(reader, 3)
        assert torch.equal(batch.target_T, done.update.batch.target_T)


def test_the_updates_between_the_checkpoint_and_the_step_are_made_again(kept, tmp_path):
    run = shutil.copytree(kept, tmp_path / "copy")
    for step in RunDirectory(run).checkpoint_steps()[1:]:
        shutil.rmtree(RunDirectory(run).checkpoint(step))
    done = replay(run, 3)
    assert done.checkpoint == 0
    assert done.update.metrics.grad_norm == done.recorded_grad_norm
    with pytest.raises(ValueError, match="RL step 9 is not recorded; choose 1 to 3"):
        replay(run, 9)
    shutil.rmtree(RunDirectory(run).checkpoint(0))
    with pytest.raises(ValueError, match="no checkpoint before step 3 is left"):
        replay(run, 3)


def test_the_command_shows_both_losses_and_what_each_episode_had_in_it(kept):
    def command(*arguments):
        return CliRunner().invoke(app, ["replay", str(kept), *arguments])

    shown = json.loads(command("2", "--json").stdout)
    assert shown["checkpoint"] == 1
    assert shown["replayed"] == shown["recorded"]
    with RunReader(kept) as reader:
        entropy = dict(reader.metric("entropy"))[2]
        for share in shown["episodes"]:
            (fields,) = [reader.token_fields(share["episode"], 0)]
            assert share["tokens"] == len(fields["prox_logp"])
            assert share["lowest_logp"] == fields["prox_logp"].min()
            assert share["advantage"] == pytest.approx(fields["advantage"].mean(), abs=1e-6)
    lowest = [share["lowest_logp"] for share in shown["episodes"]]
    assert lowest == sorted(lowest)
    tokens = [share["tokens"] for share in shown["episodes"]]
    means = [share["entropy"] for share in shown["episodes"]]
    assert sum(map(math.prod, zip(tokens, means, strict=True))) / sum(tokens) == pytest.approx(
        entropy, rel=1e-4
    )
    text = command("2").stdout
    assert "step 2, replayed from checkpoint 1" in text
    assert shown["episodes"][0]["episode"] in text
    refused = command("9")
    assert refused.exit_code == 2
    assert "RL step 9 is not recorded; choose 1 to 3" in refused.stderr


def test_what_is_no_number_is_shown_first(kept):
    done = replay(kept, 2)
    last = done.update.batch.episode_T.max()
    done.update.prox_logp_T[done.update.batch.episode_T == last] = math.nan
    assert episode_shares(done.update)[0].episode == done.update.episodes[int(last)].id


def test_a_non_finite_batch_is_named_and_its_checkpoint_outlives_the_others(folder, monkeypatch):
    move = TrainedWeights.move
    calls = []

    def poisoned(self, loss, learning_rate):
        calls.append(learning_rate)
        if len(calls) == 2:
            next(p.master.grad for p in self._pairs.values()).fill_(math.nan)
        return move(self, loss, learning_rate)

    monkeypatch.setattr(TrainedWeights, "move", poisoned)
    settings = read_run_file(
        folder.run_file("poisoned"), ["checkpoint.keep=1", "evaluation.every_steps=0"]
    )
    train(settings, NullListener())
    assert RunDirectory(settings.path).checkpoint_steps() == [1, 4]
    with RunReader(settings.path) as reader:
        (event,) = reader.events("bad_batch")
        assert event.step == 2
        assert "gradient norm nan" in event.text
        assert event.data["grad_norm"] is None
        assert not event.data["moved"]
        assert event.data["plan"]["learning_rate"] == calls[1]
        used = [
            record.id
            for group in reader.groups(step=2)
            if group.used
            for record in reader.episode_records(group=group.id)
        ]
        assert [name for name, _ in event.data["episodes"]] == used
        assert sum(n for _, n in event.data["episodes"]) == len(recorded_batch(reader, 2).token_ids)
        loss = dict(reader.metric("loss"))[2]
    done = replay(settings.path, 2)  # without the poison, which was ours
    assert done.checkpoint == 1
    assert done.update.metrics.loss == loss
    assert math.isnan(done.recorded_grad_norm)
    assert math.isfinite(done.update.metrics.grad_norm)


def test_a_spike_is_ten_times_the_median_before_it():
    plain = StepMetrics(0.1, 1.0, 0.5, 10, 10, 10, 1, 1.0)
    empty = torch.zeros(0)

    def judged(watch, norm, loss=0.1):
        metrics = dataclasses.replace(plain, grad_norm=norm, loss=loss)
        update = Update([], None, empty, empty, empty, empty, empty, empty, 0, metrics, {})
        return watch.complaint(update)

    watch = GradientWatch([1.0, 1.2, 0.9])
    assert not judged(watch, 50.0), "too few steps to know what is usual"
    assert not judged(watch, 1.1)
    assert not judged(watch, 10.0)
    assert judged(watch, 12.0) == "gradient norm 12, 10 times the median before"
    assert judged(watch, math.inf).startswith("loss 0.1, gradient norm inf")
    assert judged(watch, 1.0, loss=math.nan).startswith("loss nan")
    assert not judged(watch, 0.0)
