"""Ratios in their scopes. "mission" and "algorithms" name the pages of the vectors."""

import math

import pytest
import torch
from heart_batches import EPISODES, SEEDS, close, floats, noise, one_episode, quick, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import log_ratio

SCOPES = ["token", "prefix", "sequence", "full"]
BEHAVIOUR, POLICY = floats([0.4, 0.4, 0.2]), floats([0.7, 0.2, 0.1])


@pytest.mark.parametrize(
    ("scope", "ratios"),
    [
        ("token", [1.75, 0.5, 0.5]),
        ("prefix", [1.75, 0.875, 0.4375]),
        ("sequence", [0.4375 ** (1 / 3)] * 3),
        ("full", [0.4375] * 3),
    ],
)
def test_S1_and_algorithms_3_the_four_scopes(scope, ratios):
    result = log_ratio(POLICY.log(), BEHAVIOUR.log(), one_episode(3), scope)
    close(result.value_T.exp(), floats(ratios), 1e-12)
    assert result.usable_T.all()


def test_S1_importance_weights_recover_the_expectation():
    """E_μ w = 1, E_μ[w R] = .7, Var .375, effective sample size .727272."""
    each_alone = tokens_of([(0, [1])] * 3)
    w = log_ratio(POLICY.log(), BEHAVIOUR.log(), each_alone, "full").value_T.exp()
    assert (BEHAVIOUR * w).sum().item() == pytest.approx(1.0)
    assert (BEHAVIOUR * w * floats([1, 0, 0])).sum().item() == pytest.approx(0.7)
    assert (BEHAVIOUR * w * w).sum().item() - 1 == pytest.approx(0.375)
    assert 1 / (BEHAVIOUR * w * w).sum().item() == pytest.approx(0.7272727273)


def test_S1_a_hundred_ratios_of_1_05():
    logp_T = torch.full((100,), math.log(1.05), dtype=torch.float64)
    anchor_T = torch.zeros(100, dtype=torch.float64)
    last = {
        s: log_ratio(logp_T, anchor_T, one_episode(100), s).value_T.exp()[-1].item() for s in SCOPES
    }
    assert last["full"] == last["prefix"] == pytest.approx(131.50125784630401)
    assert last["token"] == pytest.approx(1.05)
    assert last["sequence"] == pytest.approx(1.05)


def test_S1_a_history_reached_with_10_instead_of_40_percent():
    logp_T, anchor_T = floats([0.1, 0.5]).log(), floats([0.4, 0.5]).log()
    step = log_ratio(logp_T, anchor_T, one_episode(2), "token").value_T.exp()[1].item()
    reached = log_ratio(logp_T, anchor_T, one_episode(2), "prefix").value_T.exp()[1].item()
    assert (step, reached) == (pytest.approx(1.0), pytest.approx(0.25))


@quick
@given(EPISODES, SEEDS, st.sampled_from(SCOPES))
def test_the_ragged_form_equals_the_padded_one_over_segments(episodes, seed, scope):
    """[E, L] with a mask: segments and turns do not interrupt an episode."""
    tokens = tokens_of(episodes)
    n = len(tokens)
    logp_T, anchor_T = noise(seed, n), noise(seed + 1, n)
    lengths = [sum(turns) for _, turns in episodes]
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    x = torch.zeros(mask.shape, dtype=torch.float64)
    x[mask] = logp_T - anchor_T
    total = x.sum(1, keepdim=True)
    padded = {
        "token": x,
        "prefix": x.cumsum(1),
        "sequence": (total / mask.sum(1, keepdim=True)).expand_as(x),
        "full": total.expand_as(x),
    }[scope]
    close(log_ratio(logp_T, anchor_T, tokens, scope).value_T, padded[mask], 1e-12)


@quick
@given(EPISODES, SEEDS, st.sampled_from(SCOPES))
def test_the_gradient_of_each_value_is_that_of_its_own_log_prob(episodes, seed, scope):
    tokens = tokens_of(episodes)
    logp_T = noise(seed, len(tokens)).requires_grad_()
    anchor_T = noise(seed + 1, len(tokens)).requires_grad_()
    weight_T = noise(seed + 2, len(tokens))
    (weight_T * log_ratio(logp_T, anchor_T, tokens, scope).value_T).sum().backward()
    close(logp_T.grad, weight_T, 0.0)
    assert anchor_T.grad is None


def test_the_token_ratio_is_differentiable_as_written():
    anchor_T, tokens = noise(1, 5), tokens_of([(0, [2, 1]), (1, [2])])
    assert torch.autograd.gradcheck(
        lambda logp_T: log_ratio(logp_T, anchor_T, tokens, "token").value_T,
        noise(0, 5).requires_grad_(),
    )


@pytest.mark.parametrize(("scope", "reduce"), [("full", torch.sum), ("sequence", torch.mean)])
def test_with_equal_credit_the_stop_gradient_form_has_the_gradient_of_the_ratio(scope, reduce):
    """GSPO eq. 7 and 13: of the mean over its tokens; the full ratio: of the sum."""
    logp_T, anchor_T, tokens = noise(0, 4).requires_grad_(), noise(1, 4), one_episode(4)
    reduce(log_ratio(logp_T, anchor_T, tokens, scope).value_T.exp()).backward()
    plain_T = logp_T.detach().clone().requires_grad_()
    reduce_inside = (plain_T - anchor_T).sum() / (4 if scope == "sequence" else 1)
    reduce_inside.exp().backward()
    close(logp_T.grad, plain_T.grad, 1e-12)


@pytest.mark.parametrize("bad", [-math.inf, math.inf, math.nan])
@pytest.mark.parametrize("side", ["policy", "anchor"])
@pytest.mark.parametrize(
    ("scope", "usable"),
    [
        ("token", [1, 0, 1, 1, 1]),
        ("prefix", [1, 0, 0, 1, 1]),
        ("sequence", [0, 0, 0, 1, 1]),
        ("full", [0, 0, 0, 1, 1]),
    ],
)
def test_what_a_log_prob_that_is_not_finite_takes_with_it(scope, usable, side, bad):
    """The second token of an episode of three, before an episode of two."""
    tokens = tokens_of([(0, [2, 1]), (0, [2])])
    logp_T, anchor_T = noise(0, 5), noise(1, 5)
    clean = log_ratio(logp_T, anchor_T, tokens, scope)
    (logp_T if side == "policy" else anchor_T)[1] = bad
    logp_T.requires_grad_()
    result = log_ratio(logp_T, anchor_T, tokens, scope)
    usable_T = torch.tensor(usable).bool()
    assert result.usable_T.tolist() == usable_T.tolist()
    close(result.value_T.detach(), torch.where(usable_T, clean.value_T, 0.0), 1e-12)
    result.value_T.sum().backward()
    close(logp_T.grad, usable_T, 0.0)


def test_a_large_product_stays_a_finite_logarithm():
    logp_T, anchor_T = torch.zeros(3000), torch.full((3000,), -1.0)
    result = log_ratio(logp_T, anchor_T, one_episode(3000), "full")
    assert result.usable_T.all()
    assert result.value_T[0].item() == pytest.approx(3000.0)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_ratios_have_the_type_of_the_log_probs(scope, dtype):
    logp_T = noise(0, 3).to(dtype)
    assert log_ratio(logp_T, logp_T, one_episode(3), scope).value_T.dtype == dtype
