"""Both back ends against Hugging Face's own forward pass, in float32 on tiny random models."""

from __future__ import annotations

import copy
import threading
import time
from typing import Any

import pytest
import torch
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.engines import EngineSettings
from steelyard.engines.backend import Backend, Row, common_prefix
from steelyard.engines.choosing import choose_backend, log_prob_gap
from steelyard.engines.fast import FastBackend
from steelyard.engines.generic import GenericBackend
from steelyard.engines.lanes import LaneBackend
from steelyard.engines.llama import Llama

torch.set_num_threads(1)

VOCABULARY = 300
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 512,
}
LLAMA3_ROPE = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}


def build(config: Any) -> Any:
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():  # biases start at zero, where a forgotten bias would not show
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.5)
    return model


FAST = {
    "llama": transformers.LlamaConfig(**SIZES),
    "llama-tied": transformers.LlamaConfig(**SIZES, tie_word_embeddings=True),
    "llama-biases": transformers.LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "llama-wide-heads": transformers.LlamaConfig(**SIZES, head_dim=32),
    "llama3-rope": transformers.LlamaConfig(**SIZES, rope_parameters=LLAMA3_ROPE),
    "one-head-each": transformers.LlamaConfig(**{**SIZES, "num_key_value_heads": 4}),
    "qwen2": transformers.Qwen2Config(**SIZES),
    "mistral": transformers.MistralConfig(**SIZES, sliding_window=None),
}
GENERIC = {
    "gpt2": transformers.GPT2Config(
        vocab_size=VOCABULARY, n_embd=64, n_layer=2, n_head=4, n_positions=512
    ),
    "qwen3": transformers.Qwen3Config(**SIZES, head_dim=16),
    "gemma2": transformers.Gemma2Config(**SIZES, head_dim=16, sliding_window=8),
    "mistral-sliding": transformers.MistralConfig(**SIZES, sliding_window=8),
    "mamba": transformers.MambaConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, state_size=8
    ),
}


def fast(model: Any, prefill_tokens: int = 2048, idle_cache_bytes: int = 1 << 28) -> FastBackend:
    return FastBackend(
        model,
        prefill_tokens=prefill_tokens,
        idle_cache_bytes=idle_cache_bytes,
        retained_prefixes=4,
    )


def laned(model: Any, lanes: int = 2, **bounds: int) -> LaneBackend:
    llama = Llama(model)
    return LaneBackend([fast(llama, **bounds) for _ in range(lanes)], threads=1)


def reference(model: Any, tokens: list[int]) -> torch.Tensor:
    return model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0, -1].log_softmax(-1)


def assert_right(backend: Backend, model: Any, rows: list[Row]) -> None:
    logits, order = backend.next_logits(rows)
    assert set(order) == set(rows)
    first = 0
    for row in order:
        for n in range(len(row.tokens) - row.guesses, len(row.tokens) + 1):
            torch.testing.assert_close(
                logits[first].log_softmax(-1), reference(model, row.tokens[:n]), atol=1e-4, rtol=0
            )
            first += 1
        assert row.cached == len(row.tokens)
    assert first == len(logits)


def row(tokens: list[int]) -> Row:
    made = Row()
    made.set_tokens(tokens)
    return made


@pytest.mark.parametrize("name", FAST)
def test_the_fast_back_end_is_chosen_for_the_llama_family_and_agrees(name: str) -> None:
    model = build(FAST[name])
    backend, note = choose_backend(model, EngineSettings(dtype="float32"))
    assert isinstance(backend, FastBackend)
    assert note == ""
    with torch.inference_mode():
        assert log_prob_gap(backend, model) < 1e-4


def guess(r: Row, tokens: list[int], right: int) -> None:
    """After a pass: `right` of the row's guesses held; then one token more, and new guesses."""
    del r.tokens[len(r.tokens) - r.guesses + right :]
    r.cached = min(r.cached, len(r.tokens))
    r.tokens += [9, *tokens]
    r.guesses = len(tokens)


@pytest.mark.parametrize("name", FAST)
@torch.inference_mode()
def test_rows_may_end_in_guesses_beside_others(name: str) -> None:
    model = build(FAST[name])
    backend, shared = fast(model), list(range(40, 70))
    rows = [row([*shared, 5]), row([*shared, 5]), row([*shared, 7, 8]), row([3, 4])]
    assert_right(backend, model, rows)
    for r, tokens in zip(rows, ([11, 12, 13], [], [14], [15, 16]), strict=True):
        guess(r, tokens, 0)
    assert_right(backend, model, rows)
    for r, (tokens, right) in zip(
        rows, (([21], 3), ([22, 23, 24, 25], 0), ([26, 27], 0), ([], 1)), strict=True
    ):
        guess(r, tokens, right)
    rows.append(row([*shared, 5, 6, 7, 8, 9]))  # a newcomer, whose tokens are not guesses
    assert_right(backend, model, rows)


@pytest.mark.parametrize("name", GENERIC)
def test_other_models_run_on_the_generic_back_end_and_agree(name: str) -> None:
    model = build(GENERIC[name])
    backend, note = choose_backend(model, EngineSettings(dtype="float32"))
    assert isinstance(backend, GenericBackend)
    assert "generic back end" in note
    with torch.inference_mode():
        rows = [row([5, 9, 2]), row(list(range(3, 33))), row([7])]
        assert_right(backend, model, rows)
        for step in range(12):  # rows leave and grow; 12 exceeds the sliding windows
            for r in rows:
                r.tokens.append(11 + step)
            if step == 4:
                rows = [rows[2], rows[1]]
            assert_right(backend, model, rows)
        rows.append(row([50, 51, 52]))
        rows[0].set_tokens([*rows[0].tokens, 60, 61])
        assert_right(backend, model, rows)


def test_generic_uses_the_cache_where_it_may() -> None:
    backend = GenericBackend(build(GENERIC["qwen3"]))
    assert backend.pads
    assert backend.caches
    assert not GenericBackend(build(GENERIC["mamba"])).caches


def test_asking_for_llama_where_it_cannot_serve_is_refused() -> None:
    with pytest.raises(ValueError, match="gpt2"):
        choose_backend(build(GENERIC["gpt2"]), EngineSettings(dtype="float32", backend="llama"))


def test_a_fast_forward_that_disagrees_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build(FAST["llama"])
    wrong = copy.deepcopy(model)
    with torch.no_grad():
        wrong.model.layers[1].mlp.down_proj.weight.mul_(-1)
    backend = fast(wrong)
    monkeypatch.setattr("steelyard.engines.choosing.FastBackend", lambda *a, **k: backend)
    chosen, note = choose_backend(model, EngineSettings(dtype="float32"))
    assert isinstance(chosen, GenericBackend)
    assert "differ by" in note


def test_the_fast_forward_is_not_blamed_for_their_own_bfloat16(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A trained policy once ran on the generic back end: theirs was .08 nats off, ours .04."""
    model = build(FAST["llama"])
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    compared: list[torch.dtype] = []

    def gap(backend: Backend, model: Any) -> float:
        compared.append(model.dtype)
        assert backend.weights()["lm_head.weight"].dtype == torch.bfloat16
        return log_prob_gap(backend, model)

    monkeypatch.setattr("steelyard.engines.choosing.log_prob_gap", gap)
    backend, note = choose_backend(model, EngineSettings())
    assert (backend.name, note, compared) == ("llama", "", [torch.float32])
    assert model.dtype == torch.bfloat16
    assert not any(p.is_inference() for p in model.parameters())  # these could not be trained


token_lists = st.lists(st.integers(0, VOCABULARY - 1), min_size=1, max_size=24)


@pytest.fixture(scope="module")
def llama() -> Any:
    return build(FAST["llama"])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_history_of_rows_leaves_the_logits_right(llama: Any, data: st.DataObject) -> None:
    """Shared and unshared prompts, growth by one or many, rewrites, pauses, departures, resets."""
    stem = data.draw(st.lists(st.integers(0, VOCABULARY - 1), max_size=40))
    bounds = {"prefill_tokens": data.draw(st.sampled_from([16, 48, 2048]))}
    lanes = data.draw(st.integers(1, 3))
    backend = fast(llama, **bounds) if lanes == 1 else laned(llama, lanes, **bounds)
    rows: list[Row] = []
    with torch.inference_mode():
        for _ in range(data.draw(st.integers(2, 6))):
            for _ in range(data.draw(st.integers(0, 3))):
                prompt = stem + data.draw(token_lists)
                rows += [row(prompt) for _ in range(data.draw(st.integers(1, 3)))]
            if not rows:
                continue
            now = data.draw(st.lists(st.sampled_from(rows), min_size=1, unique_by=id))
            for r in now:
                change = data.draw(st.sampled_from(["none", "one", "many", "rewrite", "forget"]))
                if change in ("one", "many"):
                    more = data.draw(token_lists)
                    r.set_tokens(r.tokens + more[: 1 if change == "one" else None])
                elif change == "rewrite":
                    r.set_tokens([*r.tokens[: data.draw(st.integers(0, 30))], 1, 2, 3])
                elif change == "forget":
                    backend.forget(r)
                else:
                    r.set_tokens(r.tokens)
            if data.draw(st.integers(0, 5)) == 0:
                backend.reset()
            assert_right(backend, llama, now)


def test_a_group_computes_its_prompt_once_and_tasks_share_their_beginning(llama: Any) -> None:
    backend = fast(llama)
    seen: list[int] = []
    forward = backend._model.forward

    def counting(batch: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(len(batch.token_ids))
        return forward(batch, *args, **kwargs)

    backend._model.forward = counting  # type: ignore[method-assign]
    system = list(range(100))
    rows = [row([*system, *([task] * 20)]) for task in (1, 2, 3) for _ in range(4)]
    with torch.inference_mode():
        assert_right(backend, llama, rows)
    # The first prompt, then the other two beyond the shared system prompt, then one token a row.
    assert seen == [119, 2 * 19, 12]


def test_the_rows_of_a_prompt_stay_in_one_lane_and_prompts_spread(llama: Any) -> None:
    backend = laned(llama)
    rows = [row([*range(20), task]) for task in (1, 2, 3) for _ in range(4)]
    with torch.inference_mode():
        assert_right(backend, llama, rows)
        lane_of = backend._lane_of
        assert [[lane_of[r] for r in rows[i : i + 4]] for i in (0, 4, 8)] == [
            [0] * 4,
            [1] * 4,
            [0] * 4,
        ]
        late = row([*range(20), 4])
        at_work = [*rows[:3], *rows[4:6]]
        for r in at_work:
            r.tokens.append(7)
        assert_right(backend, llama, [*at_work, late])
        assert lane_of[late] == 1  # where fewer are at work
        backend.forget(late)
        assert late not in lane_of
        backend.reset()
        assert not lane_of


def test_lanes_have_their_share_of_the_threads_and_others_keep_theirs(llama: Any) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    found: list[int] = []
    try:
        backend = LaneBackend([fast(llama), fast(llama)], threads=2)
        with torch.inference_mode():
            backend.next_logits([row([1, 2]), row([3, 4])])
        shares = [worker.submit(torch.get_num_threads).result() for worker in backend._workers]
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert (shares, torch.get_num_threads(), found) == ([2, 2], 4, [4])
    finally:
        torch.set_num_threads(before)


@torch.inference_mode()
def test_a_lane_that_fails_is_heard_of_when_the_others_are_done(
    llama: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = laned(llama)
    healthy = backend._lanes[1].next_logits

    def broken(rows: list[Row]) -> Any:
        raise RuntimeError("out of memory")

    def slow(rows: list[Row]) -> Any:
        time.sleep(0.2)
        return healthy(rows)

    monkeypatch.setattr(backend._lanes[0], "next_logits", broken)
    monkeypatch.setattr(backend._lanes[1], "next_logits", slow)
    rows = [row([1, 2]), row([3, 4])]
    with pytest.raises(RuntimeError, match="out of memory"):
        backend.next_logits(rows)
    backend.reset()
    time.sleep(0.3)
    assert [r.cached for r in rows] == [0, 0]  # nobody wrote after that


def test_lanes_are_for_several_threads_of_a_cpu_that_need_not_repeat_itself(llama: Any) -> None:
    for threads, lanes, n in ((1, None, 1), (2, None, 2), (8, None, 2), (2, 1, 1), (3, 3, 3)):
        settings = EngineSettings(dtype="float32", threads=threads, lanes=lanes)
        backend, note = choose_backend(llama, settings)
        assert note == ""
        assert n == (len(backend._lanes) if isinstance(backend, LaneBackend) else 1)
    lockstep = EngineSettings(dtype="float32", threads=2, deterministic=True)
    assert isinstance(choose_backend(llama, lockstep)[0], FastBackend)
    with pytest.raises(ValueError, match="leave lanes out"):
        EngineSettings(dtype="float32", threads=2, deterministic=True, lanes=2)


def test_idle_rows_are_evicted_oldest_first_and_computed_again(llama: Any) -> None:
    backend = fast(llama, idle_cache_bytes=0)
    first, second = row([1, 2, 3, 4]), row([9, 8, 7])
    with torch.inference_mode():
        assert_right(backend, llama, [first])
        assert_right(backend, llama, [second])
        assert first.cached == 0
        first.tokens.append(5)
        assert_right(backend, llama, [first])


def test_new_weights_take_effect(llama: Any) -> None:
    for made in (fast(llama), laned(llama), GenericBackend(copy.deepcopy(llama))):
        other = build(FAST["llama"])
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.02)
        r = row([4, 5, 6, 7])
        s = row([8, 9])  # in another lane, where there are some
        with torch.inference_mode():
            assert_right(made, llama, [r, s])
            made.reset()
            assert r.cached == s.cached == 0
            made.load(other.state_dict())
            assert_right(made, other, [r, s])


@given(a=token_lists, b=token_lists)
def test_common_prefix(a: list[int], b: list[int]) -> None:
    n = common_prefix(a, b)
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]
