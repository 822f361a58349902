"""Penalties and shaping. "mission" and "algorithms" name the pages of the vectors."""

import itertools
import math

import pytest
import torch
from heart_batches import SEEDS, close, floats, noise, quick
from hypothesis import given

from steelyard.objective import (
    GAE,
    KL,
    ClipCov,
    Filter,
    GroupComparison,
    KLCov,
    RewardToGo,
    Runs,
    covariance_choice,
    entropy,
    kl_value,
    overlong_penalty,
    potential_reward,
    shaping_warning,
)
from steelyard.objective.penalty import covariance

POLICY, REFERENCE = floats([0.5, 0.5]), floats([0.8, 0.2])
SURROGATES = ["k2", "k3", "k3_k2", "k3_ratio"]


def one_run(n):
    return Runs.of(torch.zeros(n, dtype=torch.long))


def value(estimator, logp_T, reference_logp_T, anchor_T=None):
    anchor_T = logp_T.detach() if anchor_T is None else anchor_T
    return kl_value(logp_T, reference_logp_T, estimator, logp_T - anchor_T)


def kl(p, q):
    return (p * (p / q).log()).sum()


def gradient(logits, loss):
    leaf = logits.detach().clone().requires_grad_()
    loss(leaf.softmax(-1)).backward()
    return leaf.grad


X1, X2 = math.log(0.5 / 0.8), math.log(0.5 / 0.2)


@pytest.mark.parametrize(
    ("estimator", "values"),
    [
        ("k1_reward", [X1, X2]),
        ("k2", [X1**2 / 2, X2**2 / 2]),
        ("k3", [1.6 - 1 + X1, 0.4 - 1 + X2]),
        ("k3_k2", [1.6 - 1 + X1, 0.4 - 1 + X2]),
        ("k3_ratio", [1.6 - 1 + X1, 0.4 - 1 + X2]),
    ],
)
def test_algorithms_5_kl_values(estimator, values):
    close(value(estimator, POLICY.log(), REFERENCE.log()), floats(values))


def test_algorithms_5_means_are_the_kl():
    """k1 and k3 are unbiased (.2231), k2 is not (.2651)."""
    means = [value(e, POLICY.log(), REFERENCE.log()).mean() for e in ("k1_reward", "k3", "k2")]
    close(torch.stack(means), floats([0.22314355131, 0.22314355131, 0.26512302921]))


@pytest.mark.parametrize(
    ("estimator", "z1"),
    [("k2", -0.3465735903), ("k3", -0.3), ("k3_k2", -0.3465735903), ("k3_ratio", -0.3465735903)],
)
def test_algorithms_5_gradients(estimator, z1):
    close(expected_gradient(estimator, POLICY.log(), POLICY, REFERENCE)[0], floats(z1))


def expected_gradient(estimator, logits, sampler, reference):
    """E over the vocabulary, sampled by `sampler`, of the gradient of the loss."""
    total = torch.zeros_like(logits)
    for v, probability in enumerate(sampler.tolist()):
        leaf = logits.clone().requires_grad_()
        logp_T = leaf.log_softmax(-1)[v : v + 1]
        anchor_T = sampler.log()[v : v + 1]
        value(estimator, logp_T, reference.log()[v : v + 1], anchor_T).sum().backward()
        total += probability * leaf.grad
    return total


@pytest.mark.parametrize("estimator", SURROGATES)
@given(SEEDS)
@quick
def test_the_expected_gradient_is_that_of_the_stated_direction(estimator, seed):
    """By enumeration of a vocabulary of five: KL(π ‖ ref), and KL(ref ‖ π) for plain k3."""
    logits, reference = noise(seed, 5), noise(seed + 1, 5).softmax(-1)
    found = expected_gradient(estimator, logits, logits.softmax(-1), reference)
    reverse = gradient(logits, lambda p: kl(p, reference))
    forward = gradient(logits, lambda p: kl(reference, p))
    close(found, forward if estimator == "k3" else reverse, 1e-9)
    assert (reverse - forward).abs().max() > 1e-6


@given(SEEDS)
@quick
def test_k3_times_the_ratio_is_right_for_stale_samples_and_k2_is_not(seed):
    logits, reference = noise(seed, 4), noise(seed + 1, 4).softmax(-1)
    sampler = noise(seed + 2, 4).softmax(-1)
    expected = gradient(logits, lambda p: kl(p, reference))
    close(expected_gradient("k3_ratio", logits, sampler, reference), expected, 1e-9)
    assert (expected_gradient("k2", logits, sampler, reference) - expected).abs().max() > 1e-5


def test_k1_off_the_reward_gives_the_gradient_and_as_a_loss_would_give_none():
    logits, reference = noise(0, 5), noise(1, 5).softmax(-1)
    p = logits.softmax(-1)
    score = torch.eye(5) - p
    penalty = value("k1_reward", p.log(), reference.log())
    found = (p * penalty) @ score
    close(found, gradient(logits, lambda p: kl(p, reference)), 1e-12)
    leaf = p.log().requires_grad_()
    assert not value("k1_reward", leaf, reference.log()).requires_grad
    close(p @ score, torch.zeros(5), 1e-12)


@pytest.mark.parametrize("estimator", ["k2", "k3", "k3_ratio"])
def test_finite_differences_of_the_estimators(estimator):
    reference_T, anchor_T = noise(1, 4), noise(2, 4)
    assert torch.autograd.gradcheck(
        lambda logp_T: value(estimator, logp_T, reference_T, anchor_T),
        noise(0, 4).requires_grad_(),
    )


@pytest.mark.parametrize("estimator", SURROGATES)
def test_the_reference_does_not_learn(estimator):
    reference_T = noise(1, 3).requires_grad_()
    value(estimator, noise(0, 3).requires_grad_(), reference_T).sum().backward()
    assert reference_T.grad is None


def test_the_full_kl_is_not_taken_from_samples():
    with pytest.raises(AssertionError, match="needs the vocabulary"):
        kl_value(noise(0, 1), noise(1, 1), "full")
    with pytest.raises(ValueError, match="coefficient must be above 0"):
        KL(0.0)


@pytest.mark.parametrize(
    ("probabilities", "nats"),
    [
        ([0.2, 0.6, 0.2], 0.9502705392),
        ([0.01, 0.98, 0.01], 0.1119020569),
        ([0.25] * 4, math.log(4)),
    ],
)
def test_R12_and_algorithms_5_entropy(probabilities, nats):
    """Logits are determined up to a constant."""
    close(entropy(floats([probabilities]).log() + 7), floats([nats]))


def test_finite_differences_of_the_entropy():
    assert torch.autograd.gradcheck(entropy, noise(0, 6).reshape(2, 3).requires_grad_())


def test_the_entropy_of_a_masked_vocabulary():
    logit_CV = floats([[0.0, 1.0, -math.inf]]).requires_grad_()
    value_C = entropy(logit_CV)
    close(value_C.detach(), entropy(floats([[0.0, 1.0]])))
    value_C.sum().backward()
    assert torch.isfinite(logit_CV.grad).all()


def test_the_covariance_is_the_centred_product():
    logp_T, advantage_T = noise(0, 50), noise(1, 50)
    both = torch.stack([logp_T, advantage_T])
    expected = torch.cov(both, correction=0)[0, 1]
    close(covariance(logp_T, advantage_T).mean(), expected, 1e-12)


def test_algorithms_5_entropy_falls_by_the_covariance():
    """One natural-gradient step of 1e-6: ΔH = −η Cov(log π, A), which is −.5273."""
    p, eta = floats([0.2, 0.6, 0.2]), 1e-6
    centred = floats([-1, 1, -1]) - (p * floats([-1, 1, -1])).sum()
    moved = (entropy((p.log() + eta * centred)[None]) - entropy(p.log()[None])) / eta
    # Each token as often as its probability says.
    index = torch.tensor([0, 1, 1, 1, 2])
    close(moved, -covariance(p.log()[index], centred[index]).mean()[None], 1e-5)
    close(moved, floats([-0.5273339]), 1e-5)


def test_kl_cov_takes_the_largest():
    logp_T, advantage_T = noise(0, 1000), noise(1, 1000)
    chosen_T = covariance_choice(logp_T, advantage_T, KLCov(fraction=0.01))
    product_T = covariance(logp_T, advantage_T)
    assert int(chosen_T.sum()) == 10
    assert product_T[chosen_T].min() > product_T[~chosen_T].max()


def test_clip_cov_takes_some_inside_its_window_by_its_seed():
    logp_T, advantage_T = noise(0, 1000), noise(1, 1000)
    rule = ClipCov(fraction=0.02, lowest=1.0, highest=2.0)
    product_T = covariance(logp_T, advantage_T)
    first, again, other = (covariance_choice(logp_T, advantage_T, rule, s) for s in (0, 0, 1))
    assert int(first.sum()) == int(other.sum()) == 20
    assert bool(((product_T[first] > 1.0) & (product_T[first] < 2.0)).all())
    assert first.tolist() == again.tolist() != other.tolist()


def test_nothing_is_chosen_where_nothing_is():
    nothing = torch.zeros(0)
    assert covariance_choice(nothing, nothing, KLCov()).tolist() == []
    flat = torch.ones(5)
    assert not covariance_choice(flat, flat, ClipCov()).any()


@pytest.mark.parametrize(
    ("length", "penalty"), [(16384, 0.0), (18432, -0.5), (20480, -1.0), (20481, -1.0), (7, 0.0)]
)
def test_algorithms_3_overlong(length, penalty):
    found = overlong_penalty(torch.tensor([length]), longest=20480, buffer=4096)
    close(found, floats([penalty]))


@pytest.mark.parametrize("buffer", [0, 11])
def test_a_buffer_longer_than_the_longest_is_refused(buffer):
    with pytest.raises(ValueError, match="overlong: buffer must lie in"):
        overlong_penalty(torch.tensor([1]), longest=10, buffer=buffer)


@pytest.mark.parametrize(
    ("gamma", "after", "shaped"),
    [
        (1.0, None, [0.3, -0.2, -0.4]),
        (0.9, None, [0.24, -0.24, -0.4]),
        (1.0, floats([0.5]), [0.3, -0.2, 0.1]),
    ],
)
def test_R10_and_algorithms_6_shaping(gamma, after, shaped):
    """Discounted, it sums to −Φ(h_0) = −.3, unless the end of the episode is paid for."""
    found = potential_reward(floats([0.3, 0.6, 0.4]), one_run(3), gamma, after)
    close(found, floats(shaped))
    discounted = sum(gamma**k * f for k, f in enumerate(found.tolist()))
    assert discounted == pytest.approx(-0.3 if after is None else 0.2)


def test_shaping_tells_episodes_apart():
    runs = Runs.of(torch.tensor([0, 0, 1]))
    close(potential_reward(floats([0.3, 0.6, 0.4]), runs), floats([0.3, -0.6, -0.4]))


@pytest.mark.parametrize(
    ("rule", "blind"),
    [
        (GroupComparison(), True),
        (Filter(), True),
        (GroupComparison(level="turn"), False),
        (GAE(), False),
        (RewardToGo(), False),
        (None, False),
    ],
    ids=repr,
)
def test_R10_shaping_that_no_comparison_of_episodes_can_see(rule, blind):
    assert ("telescopes" in shaping_warning(rule)) is blind
    assert shaping_warning(rule, gamma=0.9) == ""


@pytest.mark.parametrize(
    ("estimator", "dtype"), [*itertools.product(SURROGATES, [torch.float32, torch.float64])]
)
def test_penalties_have_the_type_of_the_log_probs(estimator, dtype):
    logp_T = noise(0, 2).to(dtype)
    assert value(estimator, logp_T, logp_T).dtype == dtype
    assert entropy(logp_T[None]).dtype == dtype
