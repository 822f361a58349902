"""The engine's parts: sampling, two-part attention, packed products, fingerprints, memory."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.engines import EngineSettings, fingerprint
from steelyard.engines.arena import Arena
from steelyard.engines.attention import attend, attend_plainly, merge
from steelyard.engines.linear import Head, Linear
from steelyard.engines.sampling import UniformStream, draw

torch.set_num_threads(1)


@pytest.mark.parametrize("vocabulary", [5, 64, 130])
def test_draws_follow_the_softmax(vocabulary: int) -> None:
    """χ² over the tokens, against its 99.9 % quantile (Wilson–Hilferty)."""
    torch.manual_seed(vocabulary)
    n, temperature = 40_000, 0.7
    logits = torch.randn(vocabulary)
    expected = (logits / temperature).double().softmax(-1)
    shown = [UniformStream(s).upcoming(1)[0] for s in range(n)]
    uniforms = torch.tensor(shown, dtype=torch.float64)
    tokens, logp = draw(logits.repeat(n, 1), uniforms, temperature)
    counts = torch.bincount(tokens, minlength=vocabulary).double()
    chi2 = float(((counts - n * expected) ** 2 / (n * expected)).sum())
    k = vocabulary - 1
    assert chi2 < k * (1 - 2 / (9 * k) + 3.09 * math.sqrt(2 / (9 * k))) ** 3
    torch.testing.assert_close(logp, expected[tokens].log(), atol=1e-6, rtol=0)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    vocabulary=st.integers(2, 200),
    uniform=st.one_of(st.just(0.0), st.just(1 - 2**-53), st.floats(0, 1, exclude_max=True)),
)
def test_a_draw_is_the_inverse_of_the_cumulative_distribution(
    seed: int, vocabulary: int, uniform: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, vocabulary, generator=generator) * 8
    logits[0, torch.rand(vocabulary, generator=generator) < 0.5] = -math.inf
    logits[0, seed % vocabulary] = 0.0
    p = logits[0].double().softmax(-1)
    tokens, logp = draw(logits.clone(), torch.tensor([uniform], dtype=torch.float64), 1.0)
    token = int(tokens)
    upto = p.cumsum(-1)
    assert p[token] > 0
    assert upto[token] >= uniform - 1e-6
    assert upto[token] - p[token] <= uniform + 1e-6
    assert float(logp) == pytest.approx(float(p[token].log()), abs=1e-5)


def test_greedy_takes_the_most_probable_token_with_certainty() -> None:
    tokens, logp = draw(
        torch.tensor([[0.0, 3.0, 1.0]]), torch.tensor([0.99], dtype=torch.float64), 0.0
    )
    assert tokens.tolist() == [1]
    assert logp.tolist() == [0.0]


def test_diverged_logits_are_an_error_not_a_token() -> None:
    with pytest.raises(FloatingPointError, match="diverged"):
        draw(torch.full((2, 70), math.nan), torch.tensor([0.5, 0.5], dtype=torch.float64), 1.0)


def test_streams_depend_on_the_seed_alone() -> None:
    first = UniformStream(1).upcoming(5)
    assert UniformStream(1).upcoming(5) == first
    assert UniformStream(2).upcoming(5) != first


def test_numbers_that_were_shown_and_not_used_come_again() -> None:
    stream = UniformStream(1)
    first = stream.upcoming(5)
    stream.use(2)
    assert stream.upcoming(2) == first[2:4]
    assert stream.upcoming(3) == first[2:5]
    stream.use(3)
    assert stream.upcoming(1) not in (first[:1], first[-1:])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_two_part_attention_is_attention_over_both(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    query = torch.randn(3, 2, 4, 16, dtype=dtype)
    keys_values = torch.randn(3, 4, 9, 16, dtype=dtype)
    mask = torch.zeros(3, 1, 1, 9)
    mask[1, ..., 6:] = -math.inf
    key, value = (keys_values[:, i : i + 2].float() for i in (0, 2))
    whole = torch.nn.functional.scaled_dot_product_attention(
        query.float(), key, value, attn_mask=mask
    )
    left = attend(query, keys_values[:, :, :4], mask[..., :4])
    right = attend(query, keys_values[:, :, 4:], mask[..., 4:])
    tolerance = 1e-5 if dtype == torch.float32 else 0.03
    torch.testing.assert_close(merge(*left, *right).float(), whole, atol=tolerance, rtol=0)
    key, value = (keys_values[:, i : i + 2] for i in (0, 2))
    plain, lse = attend_plainly(query, key, value, mask)
    torch.testing.assert_close(plain.float(), whole, atol=tolerance, rtol=0)
    torch.testing.assert_close(lse, attend(query, keys_values, mask)[1], atol=tolerance, rtol=0)


@pytest.mark.parametrize("pack", [True, False])
def test_bfloat16_logits_are_good_to_16_bits(pack: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not pack:
        monkeypatch.setattr("steelyard.engines.linear.can_pack", lambda device: False)
    torch.manual_seed(0)
    weight = torch.randn(9000, 96).bfloat16()
    head = Head(weight)
    assert head.weight.equal(weight)
    for n in (7, 3):
        x = torch.randn(n, 96).bfloat16()
        exact = x.double() @ weight.double().t()
        coarse = float((Linear(weight, None)(x).double() - exact).abs().max())
        fine = float((head(x).double() - exact).abs().max())
        assert coarse > 0.05  # otherwise the next line shows nothing
        assert fine < 0.001


@pytest.mark.parametrize("pack", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_linear_layer_is_one(
    pack: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pack:
        monkeypatch.setattr("steelyard.engines.linear.can_pack", lambda device: False)
    torch.manual_seed(0)
    weight, bias = torch.randn(33, 20).to(dtype), torch.randn(33).to(dtype)
    layer = Linear(weight, bias)
    assert layer.weight.equal(weight)
    for n in (1, 5, 200):
        x = torch.randn(n, 20).to(dtype)
        expected = x.double() @ weight.double().t() + bias.double()
        tolerance = 1e-4 if dtype == torch.float32 else 0.1
        torch.testing.assert_close(layer(x).double(), expected, atol=tolerance, rtol=0)


def test_a_fingerprint_notices_what_may_go_wrong() -> None:
    torch.manual_seed(0)
    base = {"a": torch.randn(4, 6), "b": torch.randn(5), "c": torch.tensor(2.0)}
    same = {name: base[name].clone() for name in ("c", "b", "a")}
    assert fingerprint(same) == fingerprint(base)
    flipped = base["a"].clone()
    flipped[2, 3] += 1e-6
    changed = [
        {**base, "a": flipped},
        {**base, "a": base["a"][[1, 0, 2, 3]]},
        {**base, "a": base["a"].view(6, 4)},
        {"a": base["a"], "d": base["b"], "c": base["c"]},
        {**base, "b": base["b"].bfloat16()},
    ]
    assert len({fingerprint(base), *(fingerprint(c) for c in changed)}) == 1 + len(changed)


@dataclass(eq=False)
class _Tenant:
    mark: float
    length: int
    slot: int = -1


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_the_arena_keeps_what_its_tenants_hold(data: st.DataObject) -> None:
    arena: Arena[_Tenant] = Arena(2, 1, 3, torch.float32, torch.device("cpu"))
    for step in range(data.draw(st.integers(1, 25))):
        what = data.draw(st.sampled_from(["add", "add", "remove", "forward", "grow"]))
        if what == "add":
            tenant = _Tenant(mark=step + 1.0, length=data.draw(st.integers(0, 70)))
            arena.add(tenant)
            arena.kv[:, tenant.slot, :, : tenant.length] = tenant.mark
        elif what == "remove" and arena.tenants:
            arena.remove(data.draw(st.sampled_from(arena.tenants)))
        elif what == "forward" and arena.tenants:
            some = data.draw(st.lists(st.sampled_from(arena.tenants), unique_by=id))
            cut = data.draw(st.integers(0, len(some)))
            arena.bring_forward(some[:cut], some[cut:])
            assert set(arena.tenants[:cut]) == set(some[:cut])
            assert set(arena.tenants[cut : len(some)]) == set(some[cut:])
        elif what == "grow":
            arena.reserve(len(arena.tenants) + 2, data.draw(st.integers(1, 150)))
        for slot, tenant in enumerate(arena.tenants):
            assert tenant.slot == slot
            assert bool((arena.kv[:, slot, :, : tenant.length] == tenant.mark).all())


def test_settings_refuse_what_cannot_work() -> None:
    with pytest.raises(ValueError, match="float32"):
        EngineSettings(deterministic=True)
    with pytest.raises(ValueError, match="max_row"):
        EngineSettings(max_row=3)  # type: ignore[call-arg]
