"""Limits. "mission" and "algorithms" name the pages that the vectors come from."""

import math

import pytest
import torch
from heart_batches import EPISODES, SEEDS, brief, close, floats, noise, one_episode, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import (
    ClipMin,
    Mask,
    StopGradientClip,
    Truncate,
    WideningWindow,
    limit,
    log_ratio,
)

PPO, DUAL, HIGHER = ClipMin(), ClipMin(dual=3.0), ClipMin(0.2, 0.28)
CTPO = WideningWindow(0.025, 0.05, 0.5)
CTPO_CODE = WideningWindow(0.025, 0.05, 0.5, upper_for_negative=True)
RULES = [
    None,
    PPO,
    DUAL,
    HIGHER,
    ClipMin(3e-4, 4e-4),
    ClipMin(1.0, 1.0),
    StopGradientClip(),
    StopGradientClip(1.2, 0.8),
    CTPO,
    CTPO_CODE,
    WideningWindow(power=0.0),
    Mask(),
    Truncate(2.0),
]


def limited(ratios, advantages, rule):
    """Values, gradient with respect to log π, and the marks."""
    log_ratio_T = floats(ratios).log().requires_grad_()
    result = limit(log_ratio_T, floats(advantages), one_episode(len(ratios)), rule)
    result.objective_T.sum().backward()
    return result.objective_T.detach(), log_ratio_T.grad, result.limited_T.tolist()


def plain_coefficient(ratio, advantage, t, rule):
    """What multiplies A ∇ log π, one token at a time, from the papers' case distinctions."""
    if rule is None:
        return ratio
    if isinstance(rule, ClipMin | WideningWindow):
        if isinstance(rule, ClipMin):
            low, high = 1 - rule.low, 1 + rule.high
            top = rule.dual or math.inf
        else:
            low, high = math.exp(-rule.low * t**rule.power), math.exp(rule.high * t**rule.power)
            top = high if rule.upper_for_negative else math.inf
        bound = ratio > high if advantage > 0 else ratio < low or ratio > top
        return 0.0 if bound else ratio
    if isinstance(rule, Mask):
        return ratio if rule.lowest_ratio <= ratio <= rule.highest_ratio else 0.0
    if isinstance(rule, Truncate):
        return min(ratio, rule.highest_ratio)
    return min(max(ratio, rule.lowest_ratio), rule.highest_ratio)


@pytest.mark.parametrize(
    ("ratio", "advantage", "rule", "value", "gradient"),
    [
        (1.75, 1, PPO, 1.2, 0.0),
        (1.75, -1, PPO, -1.75, -1.75),
        (0.5, 1, PPO, 0.5, 0.5),
        (0.5, -1, PPO, -0.8, 0.0),
        (5.0, -1, PPO, -5.0, -5.0),
        (5.0, -1, DUAL, -3.0, 0.0),
        (1.75, -1, DUAL, -1.75, -1.75),
        (1.25, 1, PPO, 1.2, 0.0),
        (1.25, 1, HIGHER, 1.25, 1.25),
        (0.4375 ** (1 / 3), 1, ClipMin(3e-4, 4e-4), 0.7591472429689157, 0.7591472429689157),
        (0.4375 ** (1 / 3), -1, ClipMin(3e-4, 4e-4), -0.9997, 0.0),
    ],
)
def test_S2_and_algorithms_3_clip_vectors(ratio, advantage, rule, value, gradient):
    values, gradients, marks = limited([ratio], [advantage], rule)
    close(values, floats([value]))
    close(gradients, floats([gradient]))
    assert marks == [gradient == 0.0]


@pytest.mark.parametrize(
    ("rule", "coefficients"),
    [
        (StopGradientClip(1.2, 0.8), [1.2, 0.8, 0.8]),
        (StopGradientClip(1.2), [1.2, 0.5, 0.5]),
        (Truncate(1.5), [1.5, 0.5, 0.5]),
        (Mask(0.6, 2.0), [1.75, 0.0, 0.0]),
    ],
)
@pytest.mark.parametrize("advantage", [1.0, -2.0])
def test_S2_and_algorithms_3_coefficients(rule, coefficients, advantage):
    """μ = (.4, .4, .2) and π = (.7, .2, .1); no rule looks at the sign of A."""
    ratios = [1.75, 0.5, 0.5]
    _, gradients, marks = limited(ratios, [advantage] * 3, rule)
    close(gradients, advantage * floats(coefficients))
    assert marks == [c != r for c, r in zip(coefficients, ratios, strict=True)]


CUMULATIVE = [1.75, 0.875, 0.4375]


@pytest.mark.parametrize(
    ("rule", "advantage", "values"),
    [
        (CTPO, 1, [math.exp(0.05), 0.875, 0.4375]),
        (CTPO, -1, [-1.75, -math.exp(-0.025 * math.sqrt(2)), -math.exp(-0.025 * math.sqrt(3))]),
        (
            CTPO_CODE,
            -1,
            [-math.exp(0.05), -math.exp(-0.025 * math.sqrt(2)), -math.exp(-0.025 * math.sqrt(3))],
        ),
    ],
)
def test_algorithms_3_ctpo_vectors(rule, advantage, values):
    close(limited(CUMULATIVE, [advantage] * 3, rule)[0], floats(values))


def test_algorithms_3_ctpo_mean():
    assert limited(CUMULATIVE, [1] * 3, CTPO)[0].mean().item() == pytest.approx(0.7879236987920)


@pytest.mark.parametrize(
    ("t", "low", "high"),
    [
        (1, 0.975310, 1.051271),
        (2, 0.965262, 1.073271),
        (3, 0.957623, 1.090463),
        (100, 0.778801, 1.648721),
    ],
)
def test_algorithms_3_ctpo_window(t, low, high):
    tokens = one_episode(t)
    far = torch.full((t,), 9.0, dtype=torch.float64)
    assert limit(far, far, tokens, CTPO).objective_T[-1].item() / 9 == pytest.approx(high, abs=1e-6)
    bottom = limit(-far, -far, tokens, CTPO).objective_T[-1].item() / -9
    assert bottom == pytest.approx(low, abs=1e-6)


def test_the_window_widens_within_the_episode_and_begins_anew_in_the_next():
    tokens = tokens_of([(0, [1, 1, 1]), (0, [2])])
    ones = torch.ones(5, dtype=torch.float64)
    t = floats([1, 2, 3, 1, 2])
    close(limit(9 * ones, ones, tokens, CTPO).objective_T, (0.05 * t.sqrt()).exp())


@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(episodes=EPISODES, seed=SEEDS, wide=st.sampled_from([0.001, 0.1, 1.0, 3.0]))
@brief
def test_the_gradient_is_coefficient_times_advantage(rule, episodes, seed, wide):
    tokens = tokens_of(episodes)
    log_ratio_T = noise(seed, len(tokens), wide).requires_grad_()
    advantage_T = noise(seed + 1, len(tokens))
    result = limit(log_ratio_T, advantage_T, tokens, rule)
    result.objective_T.sum().backward()
    ratios = log_ratio_T.detach().exp().tolist()
    numbers = tokens.ordinals().tolist()
    coefficients = [
        plain_coefficient(r, a, t, rule)
        for r, a, t in zip(ratios, advantage_T.tolist(), numbers, strict=True)
    ]
    close(log_ratio_T.grad, floats(coefficients) * advantage_T, 1e-9)
    assert result.limited_T.tolist() == [
        c != pytest.approx(r, abs=1e-12) for c, r in zip(coefficients, ratios, strict=True)
    ]


@pytest.mark.parametrize("rule", [None, PPO, DUAL, HIGHER, CTPO, CTPO_CODE, Mask()], ids=repr)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_where_the_value_is_an_objective_its_gradient_is_the_finite_difference(rule, sign):
    """Ratios away from every edge. The stop-gradient rules have no such value."""
    log_ratio_T = floats([0.3, 0.9, 1.12, 1.7, 4.0, 0.6]).log().requires_grad_()
    advantage_T = sign * floats([1, 0.5, 2, 1, 0.3, 1])
    assert torch.autograd.gradcheck(
        lambda x_T: limit(x_T, advantage_T, one_episode(6), rule).objective_T, log_ratio_T
    )


@pytest.mark.parametrize("scope", ["token", "prefix", "sequence", "full"])
@pytest.mark.parametrize("rule", RULES, ids=repr)
@given(episodes=EPISODES, seed=SEEDS)
@brief
def test_at_theta_equal_mu_each_token_has_A_grad_log_pi(scope, rule, episodes, seed):
    tokens = tokens_of(episodes)
    logp_T = noise(seed, len(tokens)).requires_grad_()
    advantage_T = noise(seed + 1, len(tokens))
    ratio = log_ratio(logp_T, logp_T.detach(), tokens, scope)
    result = limit(ratio.value_T, advantage_T, tokens, rule)
    result.objective_T.sum().backward()
    close(logp_T.grad, advantage_T, 1e-12)
    assert not result.limited_T.any()


def test_credit_of_zero_is_never_limited_by_a_clip():
    _, gradients, marks = limited([5.0, 0.1, 1.0], [0, 0, 0], PPO)
    assert (gradients.tolist(), marks) == ([0.0] * 3, [False] * 3)


@pytest.mark.parametrize("rule", [DUAL, CTPO_CODE, StopGradientClip(), Mask(), Truncate()])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_a_product_too_large_for_a_float_is_bounded_without_nan(rule, advantage):
    log_ratio_T = torch.tensor([1000.0, -1000.0], requires_grad=True)
    advantage_T = torch.full((2,), advantage)
    result = limit(log_ratio_T, advantage_T, one_episode(2), rule)
    result.objective_T.sum().backward()
    assert torch.isfinite(result.objective_T).all()
    assert torch.isfinite(log_ratio_T.grad).all()


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: ClipMin(low=1.5), "distances from 1"),
        (lambda: ClipMin(high=-0.1), "distances from 1"),
        (lambda: ClipMin(dual=1.0), "absolute ratio above 1, got 1.0"),
        (lambda: ClipMin(low=-0.1), "distances from 1"),
        (lambda: StopGradientClip(0.2), r"for a distance ε from 1 write 1 − ε or 1 \+ ε"),
        (lambda: StopGradientClip(2.0, 1.5), "must lie on either side of 1"),
        (lambda: WideningWindow(low=-0.1), "log-distances ≥ 0"),
        (lambda: WideningWindow(high=float("nan")), "log-distances ≥ 0"),
        (lambda: Mask(2.0, 0.5), "lowest_ratio = 2.0 and highest_ratio = 0.5"),
        (lambda: Mask(1.0, 1.0), "must lie on either side of 1"),
        (lambda: Truncate(0.5), "must lie on either side of 1"),
    ],
)
def test_bounds_that_cannot_be_are_refused(build, sentence):
    with pytest.raises(ValueError, match=sentence):
        build()


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_objectives_have_the_type_of_the_log_ratio(rule):
    for dtype in (torch.float32, torch.float64):
        x_T = torch.tensor([1.0, -1.0], dtype=dtype)
        assert limit(x_T, x_T, one_episode(2), rule).objective_T.dtype == dtype
