"""Our own Llama against the Hugging Face model: log-probs, gradients, and when it steps back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_models import bins_of, branching_batch, llama_config, save_model
from transformers import AutoModelForCausalLM, Qwen2Config

from steelyard.learner import forward as forward_module
from steelyard.learner.forward import BinForward
from steelyard.learner.llama import LlamaDecoder, unsupported
from steelyard.models.loading import LoadedModel, load_weights

CONFIGS = {
    "tied": llama_config(),
    "untied": llama_config(tie_word_embeddings=False),
    "no grouped queries": llama_config(num_key_value_heads=4),
    "heads wider than hidden": llama_config(head_dim=16),
    "a padding token that gets no gradient": llama_config(pad_token_id=1),
    "biases (Qwen2)": Qwen2Config(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=97,
        initializer_range=0.2,
    ),
}


def _save(directory: Path, config: Any) -> LoadedModel:
    """A model whose norms and biases are not at their trivial start."""
    loaded = save_model(directory, config)
    model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(torch.randn_like(parameter), alpha=0.3)
    model.save_pretrained(directory)
    return loaded


def _logp_and_gradients(forward: BinForward, batch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    forward.model.zero_grad()
    logp_T = torch.zeros(len(batch))
    for bin_ in bins_of(forward, batch, 40):
        bin_logp_T, _ = forward.logprobs(forward.run(bin_), bin_)
        logp_T[bin_.index_T] = bin_logp_T.detach()
        (bin_logp_T * (0.3 + bin_.index_T % 5)).sum().backward()
    return logp_T, {n: p.grad.clone() for n, p in forward.model.named_parameters()}


def _transformers_logp_and_gradients(loaded: LoadedModel, batch):
    """The same through nothing of ours: whole sequences, the model's own attention and logits."""
    model = load_weights(loaded, torch.float32)
    logp_T = torch.zeros(len(batch))
    for segment, ids in enumerate(batch.token_ids):
        (index,) = torch.nonzero(batch.segment_T == segment, as_tuple=True)
        all_logp = model(torch.from_numpy(ids)[None]).logits[0].log_softmax(-1)
        logp = all_logp[batch.position_T[index] - 1, batch.target_T[index]]
        logp_T[index] = logp.detach()
        (logp * (0.3 + index % 5)).sum().backward()
    return logp_T, {n: p.grad.clone() for n, p in model.named_parameters()}


@pytest.mark.parametrize("share_prefixes", [True, False], ids=["packed", "unpacked"])
@pytest.mark.parametrize("name", list(CONFIGS))
def test_equals_transformers(name, share_prefixes, tmp_path):
    loaded = _save(tmp_path / "model", CONFIGS[name])
    forward = BinForward(load_weights(loaded, torch.float32), share_prefixes=share_prefixes)
    assert (forward.path, forward.note) == ("llama", "")
    assert forward.share_prefixes == share_prefixes
    batch = branching_batch(n=4)
    assert any(not b.is_chain for b in bins_of(forward, batch, 40)) == share_prefixes
    got_logp, got = _logp_and_gradients(forward, batch)
    want_logp, want = _transformers_logp_and_gradients(loaded, batch)
    torch.testing.assert_close(got_logp, want_logp, atol=1e-5, rtol=1e-5)
    assert got.keys() == want.keys()
    for parameter, gradient in got.items():
        gap = (gradient - want[parameter]).norm() / want[parameter].norm()
        assert gap <= 1e-4, f"{parameter}: {gap:.2g}"


@pytest.mark.parametrize(
    "parameter",
    [
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.1.mlp.gate_proj.weight",
    ],
)
def test_gradient_is_the_slope_of_the_loss(parameter, tmp_path):
    loaded = _save(tmp_path / "model", llama_config())
    forward = BinForward(load_weights(loaded, torch.float32), share_prefixes=True)
    assert forward.path == "llama"
    batch = branching_batch(n=2)
    _, gradients = _logp_and_gradients(forward, batch)
    weight = forward.model.get_parameter(parameter)
    # Along the gradient itself, where the slope is its norm and rounding matters least.
    direction = gradients[parameter] / gradients[parameter].norm()
    losses = []
    for step in (1e-2, -1e-2):
        with torch.no_grad():
            weight.add_(direction, alpha=step)
            total = 0.0
            for bin_ in bins_of(forward, batch, 40):
                logp_T, _ = forward.logprobs(forward.run(bin_), bin_)
                total += float((logp_T.double() * (0.3 + bin_.index_T % 5)).sum())
            weight.sub_(direction, alpha=step)
        losses.append(total)
    slope = (losses[0] - losses[1]) / 2e-2
    assert slope == pytest.approx(float(gradients[parameter].norm()), rel=1e-2)


def test_bfloat16_is_as_close_to_float32_as_transformers(tmp_path):
    loaded = _save(tmp_path / "model", llama_config(initializer_range=0.1))
    batch = branching_batch(n=8, prompt=30, action=30)
    exact, _ = _transformers_logp_and_gradients(loaded, batch)
    forward = BinForward(load_weights(loaded, torch.bfloat16), share_prefixes=True)
    assert forward.path == "llama"
    ours, gradients = _logp_and_gradients(forward, batch)
    assert {g.dtype for g in gradients.values()} == {torch.bfloat16}
    forward._llama = None
    theirs, _ = _logp_and_gradients(forward, batch)
    gaps = [float((logp - exact).abs().mean()) for logp in (ours, theirs)]
    assert gaps[0] < 1.1 * gaps[1]


def test_a_path_that_differs_is_not_used_and_says_so(tmp_path, monkeypatch):
    class Wrong(LlamaDecoder):
        def __call__(self, bin_, node_P):
            return super().__call__(bin_, node_P) * 1.1

    monkeypatch.setattr(forward_module, "LlamaDecoder", Wrong)
    loaded = _save(tmp_path / "model", llama_config())
    forward = BinForward(load_weights(loaded, torch.float32), share_prefixes=True)
    assert forward.path == "transformers"
    assert forward.share_prefixes
    assert "fast Llama path differs" in forward.note
    assert "\n" not in forward.note
    batch = branching_batch(n=3)
    got, _ = _logp_and_gradients(forward, batch)
    want, _ = _transformers_logp_and_gradients(loaded, batch)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-5)


def test_a_frozen_model_takes_the_fast_path_too(tmp_path):
    model = load_weights(_save(tmp_path / "model", llama_config()), torch.float32)
    model.requires_grad_(False)
    forward = BinForward(model, share_prefixes=True)
    assert (forward.path, forward.note, forward.share_prefixes) == ("llama", "", True)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        pytest.param({"hidden_act": "gelu"}, "activation", id="activation"),
        pytest.param({"attention_bias": True}, "bias outside", id="output bias"),
        pytest.param({"mlp_bias": True}, "bias outside", id="mlp bias"),
    ],
)
def test_other_models_keep_their_own_code(changes, reason, tmp_path):
    loaded = save_model(tmp_path / "model", llama_config(**changes))
    model = load_weights(loaded, torch.float32)
    assert reason in unsupported(model)
    forward = BinForward(model, share_prefixes=True)
    assert (forward.path, forward.note) == ("transformers", "")


def test_adapters_keep_the_models_own_code(tmp_path):
    from peft import LoraConfig, get_peft_model

    model = load_weights(save_model(tmp_path / "model", llama_config()), torch.float32)
    get_peft_model(model, LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM"))
    assert unsupported(model) == "an adapted linear layer"
