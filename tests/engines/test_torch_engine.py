"""The engine with its thread: sessions, versions, lockstep, failures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import transformers

from steelyard.engines import EngineError, EngineSettings, Sample, TorchEngine
from steelyard.engines import torch_engine as module

torch.set_num_threads(1)

VOCABULARY = 300
STOPS = frozenset({3, 4})


def tiny(seed: int = 0, scale: float = 1.0) -> Any:
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=1,
        eos_token_id=3,
    )
    model = transformers.LlamaForCausalLM(config).float().eval()
    with torch.no_grad():  # sharper than at initialisation, so that choices mean something
        model.lm_head.weight.mul_(10 * scale)
    return model


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny()


@contextmanager
def engine(model: Any, **changes: Any) -> Iterator[TorchEngine]:
    stops = changes.pop("stop_ids", STOPS)
    options = {"dtype": "float32", "threads": 1, **changes}
    made = TorchEngine(model, EngineSettings(**options), stop_ids=stops)
    try:
        yield made
    finally:
        made.close()


def reference_logp(model: Any, tokens: list[int], temperature: float = 1.0) -> torch.Tensor:
    """log π(token t | before) for t ≥ 1, recomputed by Hugging Face in one pass."""
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([tokens])).logits[0, :-1]
        table = (logits / temperature).log_softmax(-1)
        return table.gather(-1, torch.tensor(tokens[1:])[:, None])[:, 0]


def prompt(seed: int, length: int) -> list[int]:
    rng = random.Random(seed)
    return [rng.randrange(5, VOCABULARY) for _ in range(length)]


async def episode(
    made: TorchEngine, seed: int, first: list[int], *, turns: int, pause_seconds: float = 0.0
) -> tuple[list[int], list[tuple[int, Sample]]]:
    """Several turns with observations in between; all tokens, and (position, sample) per turn."""
    session = made.open(seed)
    return await play(session, seed, first, turns=turns, pause_seconds=pause_seconds)


async def play(
    session: Any, seed: int, first: list[int], *, turns: int, pause_seconds: float = 0.0
) -> tuple[list[int], list[tuple[int, Sample]]]:
    rng = random.Random(seed)
    tokens, samples = list(first), []
    for turn in range(turns):
        sample = await session.sample(tokens, max_new_tokens=rng.randrange(3, 15))
        samples.append((len(tokens), sample))
        tokens += sample.token_ids
        if pause_seconds:
            await asyncio.sleep(random.uniform(0, pause_seconds))
        if turn + 1 < turns:
            tokens += prompt(seed * 100 + turn, rng.randrange(1, 9))
    session.close()
    return tokens, samples


@pytest.mark.parametrize("backend", ["llama", "generic"])
def test_greedy_is_hugging_faces_generate(model: Any, backend: str) -> None:
    first = prompt(1, 20)
    with engine(model, temperature=0.0, backend=backend) as made:
        sample = asyncio.run(made.open(0).sample(first, max_new_tokens=40))
        assert made.backend == backend
    expected = model.generate(
        torch.tensor([first]),
        do_sample=False,
        max_new_tokens=40,
        eos_token_id=sorted(STOPS),
        pad_token_id=0,
    )[0, len(first) :].tolist()
    assert sample.token_ids == expected
    assert sample.logp == [0.0] * len(expected)


@pytest.mark.parametrize("backend", ["llama", "generic"])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_unsynchronised_turns_are_what_they_are_one_by_one(
    model: Any, backend: str, temperature: float
) -> None:
    shared = prompt(99, 40)
    firsts = [shared + prompt(i // 3, 3 + i // 3) for i in range(9)]

    async def together(made: TorchEngine) -> Any:
        return await asyncio.gather(
            *(
                episode(made, i, firsts[i], turns=1 + i % 4, pause_seconds=0.01)
                for i in range(len(firsts))
            )
        )

    async def one_by_one(made: TorchEngine) -> Any:
        return [await episode(made, i, firsts[i], turns=1 + i % 4) for i in range(len(firsts))]

    changes = {"backend": backend, "temperature": temperature}
    with engine(model, **changes, max_rows=5, prefill_tokens=32) as made:
        batched = asyncio.run(together(made))
        assert made.stats.sampled_tokens == sum(len(s.token_ids) for _, e in batched for _, s in e)
    with engine(model, **changes) as made:
        single = asyncio.run(one_by_one(made))
    assert [tokens for tokens, _ in batched] == [tokens for tokens, _ in single]
    for tokens, samples in batched:
        expected = reference_logp(model, tokens, temperature)
        for start, sample in samples:
            found = torch.tensor(sample.logp)
            torch.testing.assert_close(
                found, expected[start - 1 : start - 1 + len(found)], atol=1e-4, rtol=0
            )


@pytest.mark.parametrize("n_rows", [1, 7])
@pytest.mark.parametrize("stop_ids", [frozenset(), frozenset({0})])
def test_guesses_save_steps_and_change_no_token(n_rows: int, stop_ids: frozenset[int]) -> None:
    """A sharp model says the same again and again, in one sequence and across them."""
    sharp = tiny(seed=4, scale=30.0)

    async def turns(made: TorchEngine, i: int) -> tuple[list[int], list[tuple[int, Sample]]]:
        session = made.open(i)
        tokens, samples = prompt(5, 24) + prompt(i // 2, 4), []
        for turn in range(2):
            samples.append((len(tokens), await session.sample(tokens, max_new_tokens=60 + i)))
            tokens = tokens + samples[-1][1].token_ids + prompt(turn, 5)
        session.close()
        return tokens, samples

    async def together(made: TorchEngine) -> Any:
        return await asyncio.gather(*(turns(made, i) for i in range(n_rows)))

    told, steps = [], []
    for longest in (0, 1, 8):
        changes = {"draft_tokens": longest, "temperature": 0.7, "prefill_tokens": 64}
        with engine(sharp, **changes, stop_ids=stop_ids) as made:
            told.append(asyncio.run(together(made)))
            stats = made.stats
        steps.append(stats.steps)
        assert (stats.held_guesses > 0) == (longest > 0)
        assert stats.held_guesses <= stats.guessed_tokens
    assert steps[0] > steps[1] > steps[2]
    assert [tokens for tokens, _ in told[0]] == [tokens for tokens, _ in told[1]]
    assert [tokens for tokens, _ in told[0]] == [tokens for tokens, _ in told[2]]
    for tokens, samples in told[2]:
        expected = reference_logp(sharp, tokens, 0.7)
        for start, sample in samples:
            assert not stop_ids & set(sample.token_ids[:-1])
            found = torch.tensor(sample.logp)
            torch.testing.assert_close(
                found, expected[start - 1 : start - 1 + len(found)], atol=1e-4, rtol=0
            )


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_sequence_cut_into_its_first_prompt_may_be_guessed_on(temperature: float) -> None:
    told = []
    for longest in (0, 8):
        changes = {"draft_tokens": longest, "temperature": temperature, "stop_ids": frozenset()}
        with engine(tiny(), **changes) as made:
            session = made.open(0)
            asyncio.run(session.sample(prompt(1, 40), max_new_tokens=5))
            told.append(asyncio.run(session.sample(prompt(1, 40)[:30], max_new_tokens=5)))
            assert (made.stats.guessed_tokens > 0) == (longest > 0)
    assert told[0].token_ids == told[1].token_ids


def test_nothing_is_guessed_in_lockstep_or_by_other_models() -> None:
    guessed = []
    for changes in ({}, {"deterministic": True}, {"backend": "generic"}):
        with engine(tiny(seed=4, scale=30.0), **changes, stop_ids=frozenset()) as made:
            asyncio.run(made.open(0).sample(prompt(5, 24), max_new_tokens=60))
            guessed.append(made.stats.guessed_tokens)
    assert guessed[0] > 0
    assert guessed[1:] == [0, 0]


def test_a_turn_ends_at_a_stop_token_or_at_its_limit(model: Any) -> None:
    first = prompt(2, 10)
    with engine(model, stop_ids=frozenset()) as made:
        cut = asyncio.run(made.open(7).sample(first, max_new_tokens=30))
    assert len(cut.token_ids) == 30
    assert not cut.stopped
    stop = cut.token_ids[12]
    with engine(model, stop_ids={stop}) as made:
        ended = asyncio.run(made.open(7).sample(first, max_new_tokens=30))
    where = cut.token_ids.index(stop)
    assert ended.stopped
    assert ended.token_ids == cut.token_ids[: where + 1]
    assert ended.version == [0] * (where + 1)


def test_a_turn_is_cut_where_the_context_ends(model: Any) -> None:
    with engine(model, stop_ids=frozenset(), max_context_tokens=24) as made:
        session = made.open(0)
        sample = asyncio.run(session.sample(prompt(1, 20), max_new_tokens=30))
        assert len(sample.token_ids) == 4
        assert not sample.stopped
        with pytest.raises(ValueError, match="max_context_tokens = 24"):
            asyncio.run(session.sample(prompt(1, 24), max_new_tokens=1))


def test_impossible_requests_are_refused(model: Any) -> None:
    with engine(model) as made:
        session = made.open(0)
        with pytest.raises(ValueError, match="zero tokens"):
            asyncio.run(session.sample([], max_new_tokens=1))
        with pytest.raises(ValueError, match="max_new_tokens = 0"):
            asyncio.run(session.sample([5], max_new_tokens=0))
        session.close()
        session.close()
        with pytest.raises(EngineError, match="closed"):
            asyncio.run(session.sample([5], max_new_tokens=1))
    with pytest.raises(ValueError, match="stop_ids"):
        TorchEngine(model, EngineSettings(dtype="float32"))


@pytest.mark.parametrize("backend", ["llama", "generic"])
def test_weights_change_in_mid_episode(model: Any, backend: str) -> None:
    other = tiny(seed=1)
    first = prompt(3, 30)

    async def run(made: TorchEngine) -> list[Sample]:
        turns = [
            asyncio.ensure_future(made.open(i).sample(first, max_new_tokens=120)) for i in range(3)
        ]
        while made.stats.steps < 10:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(made.load, other.state_dict(), 7)
        assert made.version == 7
        return await asyncio.gather(*turns)

    with engine(model, stop_ids=frozenset(), backend=backend) as made:
        before = made.fingerprint()
        samples = asyncio.run(run(made))
        after = made.fingerprint()
        assert after != before
        made.load(model.state_dict(), 8)
        assert made.fingerprint() == before
    for sample in samples:
        swap = sample.version.index(7)
        assert swap > 0
        assert sample.version == [0] * swap + [7] * (120 - swap)
        tokens = first + sample.token_ids
        old = reference_logp(model, tokens)[len(first) - 1 :]
        new = reference_logp(other, tokens)[len(first) - 1 :]
        expected = torch.cat((old[:swap], new[swap:]))
        torch.testing.assert_close(torch.tensor(sample.logp), expected, atol=1e-4, rtol=0)
        assert (old - new).abs().mean() > 0.1


def test_the_engine_owns_its_weights(model: Any) -> None:
    mine = tiny()
    for backend in ("llama", "generic"):
        with engine(mine, backend=backend) as made:
            before = made.fingerprint()
            with torch.no_grad():
                mine.model.embed_tokens.weight.add_(1.0)
            assert made.fingerprint() == before


def test_weights_that_do_not_fit_are_refused_and_change_nothing(model: Any) -> None:
    state = model.state_dict()
    name = "model.layers.0.mlp.up_proj.weight"
    with engine(model) as made:
        before = made.fingerprint()
        with pytest.raises(ValueError, match=f"lack 1 tensors, '{name}'"):
            made.load({k: v for k, v in state.items() if k != name}, 1)
        with pytest.raises(ValueError, match="lora_A"):
            made.load({**state, "lora_A": torch.zeros(2)}, 1)
        with pytest.raises(ValueError, match=r"shape \(2, 2\)"):
            made.load({**state, name: torch.zeros(2, 2)}, 1)
        assert (made.version, made.fingerprint()) == (0, before)


def test_weights_that_arrive_wrong_stop_the_engine(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with engine(model) as made:
        load = made._backend.load

        def damaged(weights: Any) -> None:
            bad = dict(weights)
            bad["model.norm.weight"] = bad["model.norm.weight"] + 1
            load(bad)

        monkeypatch.setattr(made._backend, "load", damaged)
        with pytest.raises(EngineError, match="not those given"):
            made.load(model.state_dict(), 1)
        with pytest.raises(EngineError, match="not those given"):
            asyncio.run(made.open(0).sample([5], max_new_tokens=1))


def test_observations_and_group_prompts_are_not_computed_again(model: Any) -> None:
    first = prompt(5, 50)

    async def run(made: TorchEngine) -> None:
        session = made.open(0)
        one = await session.sample(first, max_new_tokens=6)
        await session.sample(first + one.token_ids + [9, 9, 9], max_new_tokens=2)

    with engine(model, stop_ids=frozenset()) as made:
        asyncio.run(run(made))
        # The last sampled token was never run; with the three new ones that makes four.
        assert made.stats.prefilled_tokens == 50 + 4
        assert made.stats.reused_tokens == 55


@pytest.mark.parametrize("max_rows", [4, 64])
def test_lockstep_makes_timing_irrelevant(model: Any, max_rows: int) -> None:
    shared = prompt(42, 30)

    async def run(made: TorchEngine, jitter: int) -> Any:
        random.seed(jitter)
        runs = []
        for batch in range(2):
            sessions = [made.open(10 * batch + i) for i in range(10)]

            async def late(i: int, session: Any) -> Any:
                await asyncio.sleep(random.uniform(0, 0.01))
                return await play(
                    session, i, shared + prompt(i // 4, 6), turns=1 + i % 3, pause_seconds=0.01
                )

            runs += await asyncio.gather(*(late(i, s) for i, s in enumerate(sessions)))
        return runs

    found = []
    for jitter in range(3):
        with engine(model, deterministic=True, max_rows=max_rows) as made:
            found.append(asyncio.run(run(made, jitter)))
    assert found[0] == found[1] == found[2]  # tokens and log-probs, bit for bit


def test_a_lockstep_batch_does_not_depend_on_what_ran_before(model: Any) -> None:
    """What a resumed run needs: a fresh engine continues as the old one would have."""
    shared = prompt(42, 30)

    async def batch(made: TorchEngine, number: int) -> Any:
        sessions = [made.open(10 * number + i) for i in range(6)]
        return await asyncio.gather(
            *(play(s, i, shared + prompt(i % 2, 5), turns=2) for i, s in enumerate(sessions))
        )

    async def both(made: TorchEngine) -> Any:
        await batch(made, 0)
        return await batch(made, 1)

    with engine(model, deterministic=True) as made:
        later = asyncio.run(both(made))
    with engine(model, deterministic=True) as made:
        fresh = asyncio.run(batch(made, 1))
    assert later == fresh


@pytest.mark.parametrize("deterministic", [False, True])
def test_closing_a_session_in_mid_sample_is_safe(model: Any, deterministic: bool) -> None:
    async def run(made: TorchEngine) -> tuple[Any, Sample]:
        doomed, other = made.open(0), made.open(1)
        turns = [
            asyncio.ensure_future(doomed.sample(prompt(1, 10), max_new_tokens=200)),
            asyncio.ensure_future(other.sample(prompt(2, 10), max_new_tokens=30)),
        ]
        while made.stats.steps < 3:
            await asyncio.sleep(0.001)
        doomed.close()
        ended, sample = await asyncio.gather(*turns, return_exceptions=True)
        again = await other.sample(prompt(2, 10) + sample.token_ids, max_new_tokens=4)
        assert len(again.token_ids) == 4
        return ended, sample

    with engine(model, stop_ids=frozenset(), deterministic=deterministic) as made:
        ended, sample = asyncio.run(run(made))
    assert len(sample.token_ids) == 30
    if deterministic:  # a wave always finishes
        assert len(ended.token_ids) == 200
    else:
        assert isinstance(ended, EngineError)
        assert "closed" in str(ended)


def test_a_cancelled_sample_gives_its_row_back(model: Any) -> None:
    async def run(made: TorchEngine) -> Sample:
        session = made.open(0)
        turn = asyncio.ensure_future(session.sample(prompt(1, 10), max_new_tokens=200))
        while made.stats.steps < 3:
            await asyncio.sleep(0.001)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        again = await session.sample(prompt(1, 10), max_new_tokens=3)
        assert len(again.token_ids) == 3
        return await made.open(1).sample(prompt(2, 5), max_new_tokens=3)

    with engine(model, stop_ids=frozenset(), max_rows=1) as made:
        assert len(asyncio.run(run(made)).token_ids) == 3


def test_a_failure_reaches_everyone_who_waits(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.draw
    calls = 0

    def breaks(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 5:
            raise MemoryError("no room for logits")
        return real(*args)

    monkeypatch.setattr(module, "draw", breaks)

    async def run(made: TorchEngine) -> list[Any]:
        turns = (made.open(i).sample(prompt(i, 8), max_new_tokens=50) for i in range(6))
        return await asyncio.wait_for(asyncio.gather(*turns, return_exceptions=True), 20)

    with engine(model, stop_ids=frozenset(), max_rows=2) as made:
        for error in asyncio.run(run(made)):
            assert isinstance(error, EngineError)
            assert "no room for logits" in str(error)
        with pytest.raises(EngineError, match="no room for logits"):
            made.open(9)
        with pytest.raises(EngineError, match="no room for logits"):
            made.load(model.state_dict(), 1)


def test_closing_the_engine_ends_what_waits(model: Any) -> None:
    async def run(made: TorchEngine) -> Any:
        turn = asyncio.ensure_future(made.open(0).sample(prompt(0, 8), max_new_tokens=240))
        while made.stats.steps < 2:
            await asyncio.sleep(0.001)
        await asyncio.to_thread(made.close)
        return await asyncio.wait_for(asyncio.gather(turn, return_exceptions=True), 20)

    with engine(model, stop_ids=frozenset()) as made:
        (error,) = asyncio.run(run(made))
    assert isinstance(error, EngineError)
    assert "closed" in str(error)


def test_diverged_weights_are_named(model: Any) -> None:
    state = {k: torch.full_like(v, float("nan")) for k, v in model.state_dict().items()}
    with engine(model) as made:
        made.load(state, 1)
        with pytest.raises(EngineError, match="diverged"):
            asyncio.run(made.open(0).sample([5, 6], max_new_tokens=1))
