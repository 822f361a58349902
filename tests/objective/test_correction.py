"""Corrections. "algorithms" names the page that the vectors come from."""

import math

import pytest
import torch
from heart_batches import EPISODES, SEEDS, close, floats, noise, one_episode, quick, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import (
    ClipMin,
    Correction,
    Fixed,
    algorithm,
    correction_weight,
    interpolated_prox,
    log_ratio,
    token_loss,
)

TIS, MIS = Correction(highest_ratio=2.0), Correction("mask", 2.0, 0.5)
ICEPOP, DECOUPLED = Correction("mask", 5.0, 0.5), Correction(highest_ratio=math.inf)


@pytest.mark.parametrize(
    ("k", "rule", "weight"),
    [
        (3.0, TIS, 2.0),
        (3.0, MIS, 0.0),
        (3.0, ICEPOP, 3.0),
        (0.4, TIS, 0.4),
        (0.4, MIS, 0.0),
        (0.4, ICEPOP, 0.0),
        (6.0, TIS, 2.0),
        (6.0, MIS, 0.0),
        (6.0, ICEPOP, 0.0),
        (1.5, TIS, 1.5),
        (1.5, MIS, 1.5),
        (1.5, ICEPOP, 1.5),
        (6.0, DECOUPLED, 6.0),
    ],
)
def test_algorithms_4_mismatch_vectors(k, rule, weight):
    prox_T = floats([math.log(k) - 1]).requires_grad_()
    result = correction_weight(prox_T, floats([-1.0]), one_episode(1), rule)
    close(result.weight_T, floats([weight]))
    assert result.limited_T.tolist() == [weight != k]
    assert not result.weight_T.requires_grad


@pytest.mark.parametrize(
    ("policy", "changes", "objective", "gradient"),
    [
        (0.22, {"correction": DECOUPLED}, 2.2, 2.2),
        (0.30, {"correction": DECOUPLED}, 2.4, 0.0),
        (0.22, {"anchor": "behaviour"}, 1.2, 0.0),
    ],
    ids=["decoupled", "decoupled and clipped", "naive"],
)
def test_algorithms_4_decoupled_ppo(policy, changes, objective, gradient):
    """μ = .1, prox = .2: the clip is around prox, the weight prox / μ = 2 outside it."""
    logp_T = floats([policy]).log().requires_grad_()
    fixed = Fixed(
        one_episode(1),
        floats([1.0]),
        behaviour_logp_T=floats([0.1]).log(),
        prox_logp_T=floats([0.2]).log(),
    )
    loss = token_loss(logp_T, fixed, algorithm("ppo", limit=ClipMin(), **changes))
    loss.value_T.sum().backward()
    close(-loss.value_T.detach(), floats([objective]))
    close(-logp_T.grad, floats([gradient]))


@quick
@given(
    EPISODES,
    SEEDS,
    st.sampled_from(["token", "sequence", "full"]),
    st.sampled_from(["truncate", "mask"]),
)
def test_the_weight_is_the_bounded_product_of_its_scope(episodes, seed, scope, kind):
    tokens = tokens_of(episodes)
    prox_T, behaviour_T = noise(seed, len(tokens)), noise(seed + 1, len(tokens))
    rule = Correction(kind, 2.0, 0.5 if kind == "mask" else 0.0, scope)
    result = correction_weight(prox_T, behaviour_T, tokens, rule)
    k_T = log_ratio(prox_T, behaviour_T, tokens, scope).value_T.exp()
    outside_T = (k_T > 2.0) | (k_T < rule.lowest_ratio)
    bounded_T = k_T.clamp(max=2.0) if kind == "truncate" else torch.where(outside_T, 0.0, k_T)
    close(result.weight_T, bounded_T, 1e-12)
    assert result.limited_T.tolist() == outside_T.tolist()


@pytest.mark.parametrize("rule", [TIS, ICEPOP, DECOUPLED], ids=repr)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_log_prob_that_is_not_finite_has_weight_zero(rule, bad):
    result = correction_weight(floats([-1, bad]), floats([-1, -1]), one_episode(2), rule)
    assert result.weight_T.tolist() == [1.0, 0.0]
    assert result.limited_T.tolist() == [False, True]


@pytest.mark.parametrize(
    ("sampled_by", "alpha"), [(0, 0.75), (2, 0.5), (3, 0.0), (4, 1.0)], ids=str
)
def test_algorithms_4_a3po_interpolates_by_version(sampled_by, alpha):
    """prox is version 3, θ is 4; α = (3 − v) / (4 − v), and 1 for θ's own samples."""
    logp_T = floats([-1.0]).requires_grad_()
    version_T = torch.tensor([sampled_by])
    prox_T = interpolated_prox(
        logp_T, floats([-3.0]), version_T=version_T, prox_version=3, version=4
    )
    close(prox_T, floats([-3.0 + 2.0 * alpha]))
    assert not prox_T.requires_grad


@pytest.mark.parametrize("version_T", [torch.tensor([0, 3, 7])])
def test_before_the_first_update_of_a_batch_prox_is_the_policy(version_T):
    logp_T = noise(0, 3)
    prox_T = interpolated_prox(logp_T, noise(1, 3), version_T=version_T, prox_version=7, version=7)
    close(prox_T, logp_T, 1e-12)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: Correction("mask", 2.0, 3.0), "lowest_ratio < highest_ratio"),
        (lambda: Correction("truncate", 2.0, 0.5), "truncation has no lower bound"),
        (lambda: Correction(highest_ratio=0.5), "at least 1"),
    ],
)
def test_bounds_that_cannot_be_are_refused(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", [TIS, ICEPOP], ids=repr)
def test_weights_have_the_type_of_the_log_probs(rule, dtype):
    logp_T = noise(0, 2).to(dtype)
    assert correction_weight(logp_T, logp_T, one_episode(2), rule).weight_T.dtype == dtype
