from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tiny_models import batch_of, bins_of, branching_batch, llama_config, save_model

from steelyard.learner.attention import NAME, TreeMask
from steelyard.learner.forward import BinForward
from steelyard.learner.packing import attention_mask, pack
from steelyard.models.loading import LoadedModel, load_weights

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=6)
SEQUENCES = st.lists(st.tuples(TOKENS, TOKENS), min_size=1, max_size=7)


@given(sequences=SEQUENCES, limit=st.integers(1, 30))
@settings(max_examples=100, deadline=None)
def test_a_bin_is_the_tree_of_its_segments(sequences, limit):
    batch = batch_of(sequences)
    bins = pack(batch, max_bin_tokens=limit)
    seen = torch.cat([b.index_T for b in bins])
    assert sorted(seen.tolist()) == list(range(len(batch)))
    assert sum(b.raw_tokens for b in bins) == sum(len(c) + len(a) - 1 for c, a in sequences)
    for bin_ in bins:
        visible = attention_mask(bin_, torch.float32)[0, 0] == 0
        paths = set()
        for index, prediction in zip(
            bin_.index_T.tolist(), bin_.prediction_T.tolist(), strict=True
        ):
            node = int(bin_.node_P[prediction])
            assert bin_.target_P[prediction] == batch.target_T[index]
            # What the predicting node sees is the token's own prefix, in order, at its positions.
            path = torch.nonzero(visible[node])[:, 0]
            prefix = batch.token_ids[batch.segment_T[index]][: batch.position_T[index]]
            assert bin_.token_N[path].tolist() == prefix.tolist()
            assert bin_.depth_N[path].tolist() == list(range(len(path)))
            paths.update(tuple(prefix[: k + 1].tolist()) for k in range(len(prefix)))
        assert len(bin_) == len(paths), "one node per distinct prefix"
        assert len(bin_) <= limit or len({int(batch.segment_T[i]) for i in bin_.index_T}) == 1


@pytest.mark.parametrize(
    ("sequences", "nodes"),
    [
        pytest.param([([1], [2, 3]), ([1], [4, 5])], 3, id="one shared token"),
        pytest.param([([1, 2], [3, 4])] * 4, 3, id="identical"),
        pytest.param([([1, 2], [3, 4]), ([1, 2], [3, 4, 5, 6])], 5, id="prefix of another"),
        pytest.param([([1, 2], [3]), ([4, 5], [6])], 4, id="nothing shared"),
    ],
)
def test_counts(sequences, nodes):
    (bin_,) = pack(batch_of(sequences))
    assert len(bin_) == nodes


def test_only_wanted_tokens_and_their_prefixes_are_packed():
    batch = batch_of([([1, 2], [3, 4, 5]), ([7, 8], [9])])
    wanted = torch.tensor([True, False, False, False])
    (bin_,) = pack(batch, wanted)
    assert bin_.index_T.tolist() == [0]
    assert bin_.token_N.tolist() == [1, 2]


def test_segments_beyond_the_window_go_alone():
    batch = batch_of([([1] * 3, [2, 3]), ([1] * 9, [2, 3]), ([1] * 3, [4, 3])])
    shared, alone = pack(batch, longest_shared=5)
    assert sorted(shared.index_T.tolist()) == [0, 1, 4, 5]
    assert alone.index_T.tolist() == [2, 3]
    assert alone.is_chain


def _logp_and_gradients(
    forward: BinForward, batch, max_bin_tokens: int
) -> tuple[torch.Tensor, list[torch.Tensor]]:
    forward.model.zero_grad()
    logp_T = torch.zeros(len(batch))
    for bin_ in bins_of(forward, batch, max_bin_tokens):
        bin_logp_T, _ = forward.logprobs(forward.run(bin_), bin_)
        logp_T[bin_.index_T] = bin_logp_T.detach()
        (bin_logp_T * (0.3 + bin_.index_T % 5)).sum().backward()
    return logp_T, [p.grad.clone() for p in forward.model.parameters() if p.grad is not None]


@pytest.fixture(scope="module")
def forwards(tiny_llama: LoadedModel) -> tuple[BinForward, BinForward]:
    packed, plain = (
        BinForward(load_weights(tiny_llama, torch.float32), share_prefixes=share)
        for share in (True, False)
    )
    assert packed.share_prefixes
    assert packed.model.config._attn_implementation == NAME
    return packed, plain


@given(sequences=SEQUENCES, limit=st.sampled_from([5, 12, 100]))
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_packed_equals_unpacked(forwards, sequences, limit):
    packed, plain = forwards
    batch = batch_of(sequences)
    got_logp, got = _logp_and_gradients(packed, batch, limit)
    want_logp, want = _logp_and_gradients(plain, batch, limit)
    torch.testing.assert_close(got_logp, want_logp, atol=1e-5, rtol=1e-5)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def test_unpacked_equals_transformers_own_logits(forwards, tiny_llama):
    batch = branching_batch(n=3)
    reference = load_weights(tiny_llama, torch.float32)
    want = []
    with torch.no_grad():
        for segment, ids in enumerate(batch.token_ids):
            logp = reference(torch.from_numpy(ids)[None]).logits[0].log_softmax(-1)
            rows = batch.segment_T == segment
            want.append(logp[batch.position_T[rows] - 1, batch.target_T[rows]])
    got, _ = _logp_and_gradients(forwards[0], batch, 1000)
    torch.testing.assert_close(got, torch.cat(want), atol=1e-5, rtol=1e-5)


def test_trees_of_many_tiles_equal_unpacked(forwards):
    packed, plain = forwards
    batch = branching_batch(n=14, prompt=120, action=150, groups=3)
    (bin_,) = bins_of(packed, batch, 10**6)
    assert len(bin_) > 1000
    assert len(TreeMask.of(bin_, torch.float32, torch.device("cpu")).tiles) > 7
    got_logp, got = _logp_and_gradients(packed, batch, 10**6)
    want_logp, want = _logp_and_gradients(plain, batch, 10**6)
    torch.testing.assert_close(got_logp, want_logp, atol=2e-5, rtol=1e-5)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=1e-3)


def test_the_dense_mask_gives_the_same_as_the_tiles(tiny_llama, forwards):
    model = load_weights(tiny_llama, torch.float32)
    dense = BinForward(model, share_prefixes=True)
    model.set_attn_implementation("sdpa")
    batch = branching_batch()
    got_logp, got = _logp_and_gradients(dense, batch, 1000)
    want_logp, want = _logp_and_gradients(forwards[0], batch, 1000)
    torch.testing.assert_close(got_logp, want_logp, atol=1e-5, rtol=1e-5)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, atol=1e-4, rtol=1e-4)


def _others() -> dict[str, tuple[Any, bool]]:
    """Config and whether a tree-shaped mask can be honoured."""
    from transformers import (
        CohereConfig,
        Gemma2Config,
        GPT2Config,
        GPTNeoXConfig,
        MambaConfig,
        Qwen3Config,
    )

    small: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 97,
        "initializer_range": 0.2,
        "pad_token_id": None,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    grouped = {**small, "num_key_value_heads": 2, "head_dim": 8}
    return {
        "gpt2": (GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=64, vocab_size=97), True),
        "neox": (GPTNeoXConfig(**small, rotary_pct=0.5), True),
        "qwen3": (Qwen3Config(**grouped, tie_word_embeddings=False), True),
        "gemma2 with soft caps and window": (
            Gemma2Config(**grouped, final_logit_softcapping=2.0, sliding_window=7),
            True,
        ),
        "cohere with logit scale": (CohereConfig(**small, logit_scale=0.25), True),
        "mamba": (
            MambaConfig(
                hidden_size=16, state_size=4, num_hidden_layers=2, vocab_size=97, use_mambapy=True
            ),
            False,
        ),
    }


@pytest.mark.parametrize("name", list(_others()))
def test_any_causal_model_is_exact_packed_or_falls_back(name, tmp_path):
    config, packable = _others()[name]
    loaded = save_model(tmp_path / "model", config)
    forward = BinForward(load_weights(loaded, torch.float32), share_prefixes=True)
    assert forward.share_prefixes == packable, forward.note
    assert bool(forward.note) != packable
    if not packable:
        assert "training unpacked" in forward.note
        assert "\n" not in forward.note
    batch = branching_batch(n=3, prompt=6, action=6)
    reference = load_weights(loaded, torch.float32)
    got, _ = _logp_and_gradients(forward, batch, 1000)
    for segment, ids in enumerate(batch.token_ids):
        with torch.no_grad():
            logp = reference(torch.from_numpy(ids)[None]).logits[0].log_softmax(-1)
        rows = batch.segment_T == segment
        want = logp[batch.position_T[rows] - 1, batch.target_T[rows]]
        torch.testing.assert_close(got[rows], want, atol=1e-4, rtol=1e-4)


def test_a_sliding_window_sends_longer_segments_alone(tmp_path):
    from transformers import MistralConfig

    config = MistralConfig(
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=97,
        sliding_window=20,
        initializer_range=0.2,
    )
    loaded = save_model(tmp_path / "model", config)
    forward = BinForward(load_weights(loaded, torch.float32), share_prefixes=True)
    assert forward.longest_shared == 20
    batch = branching_batch(n=4, prompt=8, action=20)
    bins = bins_of(forward, batch, 1000)
    assert any(not b.is_chain for b in bins)
    assert sum(b.is_chain for b in bins) > 2
    reference = load_weights(loaded, torch.float32)
    got, _ = _logp_and_gradients(forward, batch, 1000)
    for segment, ids in enumerate(batch.token_ids):
        with torch.no_grad():
            logp = reference(torch.from_numpy(ids)[None]).logits[0].log_softmax(-1)
        rows = batch.segment_T == segment
        want = logp[batch.position_T[rows] - 1, batch.target_T[rows]]
        torch.testing.assert_close(got[rows], want, atol=1e-4, rtol=1e-4)


def test_bfloat16_packed_is_as_close_to_float32_as_unpacked(tmp_path):
    loaded = save_model(tmp_path / "model", llama_config(initializer_range=0.1))
    batch = branching_batch(n=8, prompt=30, action=30)
    exact, _ = _logp_and_gradients(
        BinForward(load_weights(loaded, torch.float32), share_prefixes=False), batch, 1000
    )
    gaps = []
    for share in (True, False):
        forward = BinForward(load_weights(loaded, torch.bfloat16), share_prefixes=share)
        assert forward.share_prefixes == share
        logp, _ = _logp_and_gradients(forward, batch, 1000)
        gaps.append(float((logp - exact).abs().mean()))
    assert gaps[0] < 0.02
    assert gaps[0] < 1.5 * gaps[1] + 1e-3
