from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_models import batch_of, branching_batch, llama_config, save_model
from torch import Tensor
from transformers import AutoModelForCausalLM

from steelyard.learner import Batch, Learner, LearnerSettings, LearningRate
from steelyard.learner.checkpoint import write_directory
from steelyard.models.loading import LoadedModel

EXACT = LearnerSettings(dtype="float32", threads=1)
LORA = LearnerSettings(dtype="float32", threads=1, method="lora", lora_rank=4, lora_alpha=8)


def nll(logp_T: Tensor, index_T: Tensor) -> Tensor:
    return -logp_T


def _mean_weight(batch: Batch) -> Tensor:
    return torch.full((len(batch),), 1.0 / len(batch))


def _credit(batch: Batch) -> Tensor:
    """Unequal weights of both signs, per token."""
    draw = torch.Generator().manual_seed(1)
    return torch.randn(len(batch), generator=draw) / len(batch)


def _step(learner: Learner, batch: Batch, weight_T: Tensor | None = None, rate: float = 1e-2):
    weight_T = _mean_weight(batch) if weight_T is None else weight_T
    return learner.step(batch, nll, weight_T, learning_rate=rate)


def _same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[k], b[k]) for k in a)


def _copy(learner: Learner) -> dict[str, Tensor]:
    return {k: v.clone() for k, v in learner.weights().items()}


@pytest.mark.parametrize("settings", [EXACT, LORA, LearnerSettings()], ids=["f32", "lora", "bf16"])
def test_supervised_steps_learn(tiny_llama: LoadedModel, settings: LearnerSettings):
    learner = Learner(tiny_llama, settings)
    batch = branching_batch(n=2)
    first = _step(learner, batch)
    assert first.loss == pytest.approx(float(-first_logp(tiny_llama, settings, batch)), rel=1e-3)
    for _ in range(30):
        last = _step(learner, batch, rate=2e-2)
    assert last.loss < 0.6 * first.loss
    assert learner.steps_taken == 31
    assert not last.skipped
    assert 0 < last.nodes < last.raw_tokens
    assert last.action_tokens == len(batch)


def first_logp(model: LoadedModel, settings: LearnerSettings, batch: Batch) -> Tensor:
    return Learner(model, settings).score(batch).logp_T.mean()


def test_the_gradient_is_that_of_the_loss(tiny_llama: LoadedModel):
    """Central differences of Σ weight · value on single weights, against one SGD-like move.

    AdamW's first step hides the gradient's size, so the gradient is read where it is clipped.
    """
    batch = branching_batch(n=3, prompt=4, action=4)
    weight_T = _credit(batch)
    learner = Learner(tiny_llama, EXACT)
    gradients: dict[str, Tensor] = {}
    for name, parameter in learner._model.named_parameters():
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: gradients.__setitem__(name, p.grad.clone())
        )
    metrics = _step(learner, batch, weight_T)
    total = sum(float(g.pow(2).sum()) for g in gradients.values()) ** 0.5
    assert metrics.grad_norm == pytest.approx(total, rel=1e-5)

    probe = Learner(tiny_llama, EXACT)
    parameters = dict(probe._model.named_parameters())

    def loss() -> float:
        return float((weight_T.double() * -probe.score(batch).logp_T.double()).sum())

    checked = 0
    for name in (
        "model.embed_tokens.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.1.self_attn.q_proj.weight",
        "model.layers.1.mlp.down_proj.weight",
        "model.norm.weight",
    ):
        flat = parameters[name].data.view(-1)
        gradient = gradients[name].view(-1)
        for i in gradient.abs().topk(3).indices.tolist():
            original, h = float(flat[i]), 4e-3
            flat[i] = original + h
            up = loss()
            flat[i] = original - h
            down = loss()
            flat[i] = original
            assert (up - down) / (2 * h) == pytest.approx(float(gradient[i]), rel=2e-2, abs=1e-5)
            checked += 1
    assert checked == 15


@pytest.mark.parametrize("max_bin_tokens", [1, 16, 60])
def test_how_a_batch_is_cut_changes_nothing(tiny_llama: LoadedModel, max_bin_tokens: int):
    batch = branching_batch(n=5)
    whole = Learner(tiny_llama, EXACT)
    cut = Learner(tiny_llama, EXACT.model_copy(update={"max_bin_tokens": max_bin_tokens}))
    a, b = (_step(x, batch, _credit(batch)) for x in (whole, cut))
    assert b.bins > a.bins
    assert b.loss == pytest.approx(a.loss, abs=1e-6)
    assert b.grad_norm == pytest.approx(a.grad_norm, rel=1e-5)
    assert b.entropy_mean == pytest.approx(a.entropy_mean, rel=1e-5)
    cut_T, whole_T = (learner.score(batch).logp_T for learner in (cut, whole))
    torch.testing.assert_close(cut_T, whole_T, atol=2e-3, rtol=1e-3)


def test_bfloat16_gradients_add_up_over_bins(tiny_llama: LoadedModel):
    batch = branching_batch(n=5)
    norms = []
    for limit in (16, 1000):
        settings = LearnerSettings(threads=1, max_bin_tokens=limit)
        norms.append(_step(Learner(tiny_llama, settings), batch).grad_norm)
    exact = _step(Learner(tiny_llama, EXACT), batch).grad_norm
    assert norms == pytest.approx([exact, exact], rel=0.02)


def test_the_loss_sees_each_token_once_with_its_own_index(tiny_llama: LoadedModel):
    batch = branching_batch(n=4)
    learner = Learner(tiny_llama, EXACT)
    scored = learner.score(batch).logp_T
    seen: list[int] = []

    def loss(logp_T: Tensor, index_T: Tensor) -> Tensor:
        seen.extend(index_T.tolist())
        torch.testing.assert_close(logp_T.detach(), scored[index_T], atol=1e-5, rtol=1e-5)
        return -logp_T

    learner.step(batch, loss, _mean_weight(batch), learning_rate=0.0)
    assert sorted(seen) == list(range(len(batch)))


def test_episodes_without_weight_are_not_run(tiny_llama: LoadedModel):
    batch = batch_of([([1, 2, 3], [4, 5]), ([9, 8, 7], [6, 5, 4]), ([1, 2, 3], [4, 6])])
    weight_T = torch.where(batch.episode_T == 1, 0.0, 0.5)
    weight_T[0] = 0.0  # its episode still has weight on another token, so it stays
    learner = Learner(tiny_llama, EXACT)
    metrics = _step(learner, batch, weight_T)
    assert metrics.action_tokens == 4
    assert metrics.raw_tokens == 8
    assert metrics.nodes == 4


@pytest.mark.parametrize("settings", [EXACT, LearnerSettings()], ids=["f32", "bf16"])
def test_a_step_tells_the_entropy_of_each_token_that_it_runs(tiny_llama, settings):
    batch = branching_batch(n=4)
    weight_T = torch.where(batch.episode_T == 1, 0.0, 1.0)
    entropy_T = torch.full((len(batch),), torch.nan)

    def note(value_T: Tensor, index_T: Tensor) -> None:
        assert entropy_T[index_T].isnan().all(), "each token once"
        entropy_T[index_T] = value_T

    learner = Learner(tiny_llama, settings)
    metrics = learner.step(batch, nll, weight_T, learning_rate=0.0, on_entropy=note)
    ran_T = batch.episode_T != 1
    assert torch.equal(entropy_T.isnan(), ~ran_T)
    assert float(entropy_T[ran_T].mean()) == pytest.approx(metrics.entropy_mean, rel=1e-5)
    model = AutoModelForCausalLM.from_pretrained(tiny_llama.path, dtype=torch.float32)
    for index in ran_T.nonzero()[:, 0][::7].tolist():
        ids = torch.tensor(batch.token_ids[int(batch.segment_T[index])])
        with torch.no_grad():
            logits = model(ids[None]).logits[0, int(batch.position_T[index]) - 1]
        wanted = torch.distributions.Categorical(logits=logits).entropy()
        assert float(entropy_T[index]) == pytest.approx(float(wanted), abs=0.05)


def test_no_signal_moves_nothing(tiny_llama: LoadedModel):
    learner = Learner(tiny_llama, EXACT)
    batch = branching_batch()
    _step(learner, batch)
    before = _copy(learner)
    metrics = _step(learner, batch, torch.zeros(len(batch)))
    assert metrics.skipped == "no signal"
    assert metrics.nodes == 0
    assert _same(before, learner.weights())
    assert learner.steps_taken == 1


@pytest.mark.parametrize("settings", [EXACT, LearnerSettings()], ids=["f32", "bf16"])
def test_a_non_finite_gradient_is_skipped_and_counted(tiny_llama, settings):
    learner = Learner(tiny_llama, settings)
    batch = branching_batch()
    before = _copy(learner)
    broken = learner.step(
        batch, lambda logp, _: logp * torch.inf, _mean_weight(batch), learning_rate=1e-2
    )
    assert broken.skipped == "non-finite loss or gradient"
    assert (learner.steps_taken, learner.steps_skipped) == (0, 1)
    assert _same(before, learner.weights())
    after = _step(learner, batch)
    assert not after.skipped
    assert not _same(before, learner.weights())


def test_clipping_reports_the_norm_before_it(tiny_llama: LoadedModel):
    batch = branching_batch()
    norms = []
    for limit in (0.5, 1e6):
        learner = Learner(tiny_llama, EXACT.model_copy(update={"max_grad_norm": limit}))
        metrics = _step(learner, batch)
        norms.append(metrics.grad_norm)
        # AdamW's move hides the gradient's size; its first moment, (1 − β₁) · gradient, shows it.
        state = learner._trained.optimiser_tensors()
        moments = [v for k, v in state.items() if k.startswith("exp_avg:")]
        used = float(torch.nn.utils.get_total_norm(moments)) / (1 - EXACT.adam_beta1)
        assert used == pytest.approx(min(limit, metrics.grad_norm), rel=1e-4)
    assert norms[0] == norms[1] > 0.5


def test_temperature_is_that_of_the_sampler(tiny_llama: LoadedModel):
    batch = branching_batch(n=2)
    learner = Learner(tiny_llama, EXACT)
    model = AutoModelForCausalLM.from_pretrained(tiny_llama.path, dtype=torch.float32)
    got = learner.score(batch, temperature=0.5).logp_T
    for segment, ids in enumerate(batch.token_ids):
        with torch.no_grad():
            logp = (model(torch.from_numpy(ids)[None]).logits[0] / 0.5).log_softmax(-1)
        rows = batch.segment_T == segment
        want = logp[batch.position_T[rows] - 1, batch.target_T[rows]]
        torch.testing.assert_close(got[rows], want, atol=1e-5, rtol=1e-5)


def test_entropy_is_the_mean_over_trained_tokens(tiny_llama: LoadedModel):
    batch = branching_batch(n=2)
    model = AutoModelForCausalLM.from_pretrained(tiny_llama.path, dtype=torch.float32)
    want = []
    for segment, ids in enumerate(batch.token_ids):
        with torch.no_grad():
            logp = model(torch.from_numpy(ids)[None]).logits[0].log_softmax(-1)
        at = batch.position_T[batch.segment_T == segment] - 1
        want.append(-(logp[at].exp() * logp[at]).sum(-1))
    metrics = _step(Learner(tiny_llama, EXACT), batch)
    assert metrics.entropy_mean == pytest.approx(float(torch.cat(want).mean()), rel=1e-5)


def test_the_same_steps_give_the_same_bits(tiny_llama: LoadedModel):
    runs = []
    for _ in range(2):
        learner = Learner(tiny_llama, EXACT)
        for seed in range(3):
            batch = branching_batch(seed=seed)
            _step(learner, batch, _credit(batch))
        runs.append(_copy(learner))
    assert _same(*runs)


@pytest.mark.parametrize("settings", [EXACT, LORA, LearnerSettings()], ids=["f32", "lora", "bf16"])
@pytest.mark.parametrize("steps_before", [0, 2])
def test_saved_and_loaded_goes_on_to_the_same_bits(tiny_llama, tmp_path, settings, steps_before):
    batches = [branching_batch(seed=s) for s in range(4)]
    learner = Learner(tiny_llama, settings)
    for batch in batches[:steps_before]:
        _step(learner, batch, _credit(batch))
    learner.save_checkpoint(tmp_path / "step-000002")
    resumed = Learner(tiny_llama, settings)
    _step(resumed, batches[3])  # whatever it did before must be gone
    resumed.load_checkpoint(tmp_path / "step-000002")
    assert resumed.steps_taken == steps_before
    assert _same(_copy(learner), _copy(resumed))
    for x in (learner, resumed):
        for batch in batches[2:]:
            _step(x, batch, _credit(batch))
    assert _same(_copy(learner), _copy(resumed))
    # The masters too: bf16 copies could hide a difference.
    assert _same(learner._trained.masters(), resumed._trained.masters())


@pytest.mark.parametrize("settings", [EXACT, LearnerSettings()], ids=["f32", "bf16"])
@pytest.mark.parametrize("tied", [True, False])
def test_a_checkpoint_is_a_plain_model_directory(tmp_path, settings, tied):
    loaded = save_model(tmp_path / "model", llama_config(tie_word_embeddings=tied))
    learner = Learner(loaded, settings)
    batch = branching_batch()
    _step(learner, batch)
    learner.save_checkpoint(tmp_path / "saved")
    learner.export(tmp_path / "exported")
    ids = torch.arange(20)[None]
    with torch.no_grad():
        want = learner._model(ids).logits
        for name in ("saved", "exported"):
            model = AutoModelForCausalLM.from_pretrained(tmp_path / name)
            assert model.dtype == want.dtype
            assert torch.equal(model(ids).logits, want)
    again = Learner(
        LoadedModel("x", tmp_path / "saved", loaded.config, None, frozenset()), settings
    )
    assert _same(_copy(again), _copy(learner))


def test_weights_are_under_the_names_transformers_uses(tiny_llama, tmp_path):
    reference = AutoModelForCausalLM.from_pretrained(tiny_llama.path, dtype=torch.float32)
    for settings in (EXACT, LORA):
        learner = Learner(tiny_llama, settings)
        assert _same(learner.weights(), reference.state_dict())
        half = learner.weights(torch.bfloat16)
        assert {v.dtype for v in half.values()} == {torch.bfloat16}


def test_merged_adapters_equal_peft_s_own_merge(tiny_llama: LoadedModel, tmp_path: Path):
    from peft import PeftModel

    learner = Learner(tiny_llama, LORA)
    base = _copy(learner)
    batch = branching_batch()
    for _ in range(3):
        _step(learner, batch)
    merged = _copy(learner)
    assert not _same(base, merged)
    assert torch.equal(base["model.embed_tokens.weight"], merged["model.embed_tokens.weight"])
    scored = learner.score(batch).logp_T

    learner.save_checkpoint(tmp_path / "adapter")
    reference = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(tiny_llama.path, dtype=torch.float32),
        tmp_path / "adapter",
    ).merge_and_unload()
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(merged[name], value, atol=1e-6, rtol=1e-6)

    learner.export(tmp_path / "exported")
    exported = LoadedModel("x", tmp_path / "exported", None, None, frozenset())
    read_T = Learner(exported, EXACT).score(batch).logp_T
    torch.testing.assert_close(read_T, scored, atol=1e-4, rtol=1e-4)
    # Merging for the engine must leave the trained adapters as they were.
    assert _same(_copy(learner), merged)
    torch.testing.assert_close(learner.score(batch).logp_T, scored, atol=0, rtol=0)


def test_lora_trains_float32_adapters_beside_a_bfloat16_base(tiny_llama, tmp_path):
    learner = Learner(tiny_llama, LORA.model_copy(update={"dtype": "bfloat16"}))
    assert {m.dtype for m in learner._trained.masters().values()} == {torch.float32}
    assert learner._model.get_input_embeddings().weight.dtype == torch.bfloat16
    batch = branching_batch()
    first = _step(learner, batch)
    for _ in range(20):
        last = _step(learner, batch)
    assert last.loss < first.loss
    learner.export(tmp_path / "exported")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "exported")
    assert _same(dict(model.state_dict()), learner.weights())


def test_small_updates_are_not_lost_in_bfloat16(tiny_llama: LoadedModel):
    """A step far below bfloat16's spacing moves the masters, and many of them the model."""
    learner = Learner(tiny_llama, LearnerSettings(threads=1))
    before = _copy(learner)
    batch = branching_batch()
    for _ in range(40):
        _step(learner, batch, rate=3e-5)
    moved = {k: v for k, v in learner.weights().items() if not torch.equal(v, before[k])}
    assert "model.layers.0.mlp.up_proj.weight" in moved


def test_a_replaced_checkpoint_leaves_nothing_behind(tiny_llama, tmp_path):
    learner = Learner(tiny_llama, EXACT)
    learner.save_checkpoint(tmp_path / "last")
    _step(learner, branching_batch())
    learner.save_checkpoint(tmp_path / "last")
    assert [p.name for p in tmp_path.iterdir()] == ["last"]
    other = Learner(tiny_llama, EXACT)
    other.load_checkpoint(tmp_path / "last")
    assert other.steps_taken == 1


def test_a_disk_that_fills_leaves_the_old_checkpoint(tiny_llama, tmp_path):
    learner = Learner(tiny_llama, EXACT)
    learner.save_checkpoint(tmp_path / "last")
    before = {p.name: p.read_bytes() for p in (tmp_path / "last").iterdir()}
    _step(learner, branching_batch())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A real failing write: the model file is larger than this process may write.
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        with pytest.raises(OSError, match="earlier checkpoints are intact") as caught:
            learner.save_checkpoint(tmp_path / "last")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert "\n" not in str(caught.value)
    assert {p.name: p.read_bytes() for p in (tmp_path / "last").iterdir()} == before
    assert [p.name for p in tmp_path.iterdir()] == ["last"]


def test_an_error_that_is_not_the_disk_s_comes_through_unchanged(tmp_path):
    def fill(folder: Path) -> None:
        (folder / "a").write_text("half")
        raise RuntimeError("a bug of ours")

    with pytest.raises(RuntimeError, match="a bug of ours"):
        write_directory(tmp_path / "last", fill, 1)
    assert not list(tmp_path.iterdir())


def test_too_little_room_is_said_before_anything_is_written(tmp_path):
    def fill(folder: Path) -> None:
        pytest.fail("wrote anyway")

    with pytest.raises(OSError, match="it needs about 1000000000 MB"):
        write_directory(tmp_path / "last", fill, 10**15)


def test_a_kill_while_writing_leaves_the_old_checkpoint(tmp_path):
    """A process killed inside the write: the name holds what it held."""
    script = """
import os, sys
from pathlib import Path
from steelyard.learner.checkpoint import write_directory

target = Path(sys.argv[1])
write_directory(target, lambda folder: (folder / "a").write_text("old"), 1)

def killed(folder):
    (folder / "a").write_text("new")
    os.kill(os.getpid(), 9)

write_directory(target, killed, 1)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "last")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == -9
    assert (tmp_path / "last" / "a").read_text() == "old"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda d: (d / "learner.json").unlink(), "learner.json or optimizer.safetensors"),
        (lambda d: (d / "learner.json").write_text('{"format": 99}'), "format 99 is not 1"),
    ],
)
def test_a_damaged_checkpoint_is_named(tiny_llama, tmp_path, damage, message):
    learner = Learner(tiny_llama, EXACT)
    learner.save_checkpoint(tmp_path / "last")
    damage(tmp_path / "last")
    with pytest.raises(ValueError, match=message):
        learner.load_checkpoint(tmp_path / "last")


def test_a_checkpoint_of_another_model_or_method_is_refused(tiny_llama, tmp_path):
    Learner(tiny_llama, LORA).save_checkpoint(tmp_path / "adapter")
    with pytest.raises(ValueError, match="method is 'lora' but the run says 'full'"):
        Learner(tiny_llama, EXACT).load_checkpoint(tmp_path / "adapter")
    wide = save_model(tmp_path / "wide", llama_config(intermediate_size=64))
    Learner(wide, EXACT).save_checkpoint(tmp_path / "other")
    learner = Learner(tiny_llama, EXACT)
    before = _copy(learner)
    with pytest.raises(ValueError, match="belongs to another model"):
        learner.load_checkpoint(tmp_path / "other")
    assert _same(before, learner.weights())


def test_learning_rate_schedule():
    constant = LearningRate(peak=1.0, warmup_steps=4)
    assert [constant.at(s) for s in range(6)] == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]
    decayed = LearningRate(peak=1.0, warmup_steps=2, decay_steps=7, final_fraction=0.2)
    assert [decayed.at(s) for s in range(9)] == pytest.approx(
        [0.5, 1.0, 1.0, 0.8, 0.6, 0.4, 0.2, 0.2, 0.2]
    )
    assert LearningRate(peak=2.0).at(0) == 2.0


def test_unknown_settings_fail():
    with pytest.raises(ValueError, match="max_bin_token"):
        LearnerSettings.model_validate({"max_bin_token": 3})
