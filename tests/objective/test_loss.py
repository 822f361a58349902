"""The whole loss: the same whatever the batch is split into, packed with, or missing."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from heart_batches import EPISODES, SEEDS, brief, close, floats, noise, one_episode, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import (
    ALGORITHMS,
    KL,
    Aggregate,
    Algorithm,
    ClipCov,
    Correction,
    Distillation,
    Fixed,
    GroupComparison,
    KLCov,
    Mask,
    Totals,
    Versions,
    algorithm,
    correction_weight,
    covariance_choice,
    divergence,
    entropy,
    kl_value,
    limit,
    log_ratio,
    token_coefficients,
    token_loss,
    vocabulary_loss,
)

EPISODE_IS = Correction("mask", 4.0, 0.25, "sequence", "recomputed")
ROWS = [
    *ALGORITHMS.values(),
    algorithm("ppo", correction=Correction(prox="recomputed")),
    algorithm("gspo", kl=KL(0.1, "k3_ratio"), correction=EPISODE_IS),
    algorithm(
        "dapo", limit=Mask(), correction=replace(EPISODE_IS, scope="token", prox="interpolated")
    ),
    algorithm("ctpo", correction=Correction(scope="full", prox="recomputed"), kl=KL(0.1)),
    algorithm("reinforce", correction=Correction(), kl=KL(0.2, "k3_k2")),
    algorithm("cispo", anchor="behaviour", covariance=KLCov(0.2)),
    algorithm("grpo", covariance=ClipCov(0.2, 0.0, 9.0)),
]
by_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.name}-{ROWS.index(row)}")


def batch(tokens, seed, row, spread=0.2):
    """Log-probs of the policy, and all that is fixed, at distances of `spread` from it."""
    n = len(tokens)
    logp_T = -noise(seed, n).abs()
    prox_T = logp_T + noise(seed + 1, n, spread)
    advantage_T = noise(seed + 2, n)
    chosen_T = None
    if row.covariance is not None:
        chosen_T = covariance_choice(prox_T, advantage_T, row.covariance)
    fixed = Fixed(
        tokens,
        advantage_T,
        behaviour_logp_T=prox_T + noise(seed + 3, n, spread),
        prox_logp_T=prox_T,
        reference_logp_T=logp_T + noise(seed + 4, n),
        chosen_T=chosen_T,
        versions=Versions(torch.arange(n) % 5, prox=4, policy=6),
    )
    return logp_T, fixed


def total_and_gradient(logp_T, fixed, coefficient_T, row, parts):
    """Σ c · value, each part evaluated by itself, with one gradient for all of them."""
    leaf_T = logp_T.clone().requires_grad_()
    total = 0.0
    for index_T in parts:
        loss = token_loss(leaf_T[index_T], fixed.take(index_T), row)
        part = (coefficient_T[index_T] * loss.value_T).sum()
        part.backward()
        total += float(part.detach())
    return total, leaf_T.grad


def coefficients(tokens, row, totals=None):
    rule = replace(row.aggregate, length=row.aggregate.length or 8)
    return token_coefficients(tokens, rule, totals, dtype=torch.float64)


def random_parts(owner_T, seed, n=3):
    """Owners to parts at random; each part ascending, some perhaps empty."""
    home_O = torch.randint(
        n, (int(owner_T.max()) + 1,), generator=torch.Generator().manual_seed(seed)
    )
    parts = [(home_O[owner_T] == p).nonzero()[:, 0] for p in range(n)]
    return [p for p in parts if len(p)]


@by_row
@given(episodes=EPISODES, seed=SEEDS)
@brief
def test_on_policy_every_row_has_the_policy_gradient(row, episodes, seed):
    """θ = prox = μ: −A_t ∇ log π_t, KL and the covariance rules apart."""
    row = replace(row, kl=None, covariance=None)
    tokens = tokens_of(episodes)
    leaf_T = (-noise(seed, len(tokens)).abs()).requires_grad_()
    same_T, advantage_T = leaf_T.detach(), noise(seed + 1, len(tokens))
    for prox_T in (None, same_T):
        fixed = Fixed(
            tokens,
            advantage_T,
            behaviour_logp_T=same_T,
            prox_logp_T=prox_T,
            versions=Versions(torch.zeros(len(tokens)).long(), prox=0, policy=0),
        )
        leaf_T.grad = None
        loss = token_loss(leaf_T, fixed, row)
        loss.value_T.sum().backward()
        close(leaf_T.grad, -advantage_T, 1e-12)
        assert not (loss.limited_T | loss.corrected_T | loss.dropped_T).any()


@by_row
@given(episodes=EPISODES, seed=SEEDS)
@brief
def test_the_gradient_is_the_product_of_its_parts(row, episodes, seed):
    """−w c A + β ∂KL: correction and limit from their own functions, put together here."""
    tokens = tokens_of(episodes)
    logp_T, fixed = batch(tokens, seed, row)
    leaf_T = logp_T.clone().requires_grad_()
    loss = token_loss(leaf_T, fixed, row)
    loss.value_T.sum().backward()

    plain_T = logp_T.clone().requires_grad_()
    prox_T = fixed.prox_logp_T
    if row.correction is not None and row.correction.prox == "interpolated":
        age_T = 6 - fixed.versions.token_T
        alpha_T = (4 - fixed.versions.token_T).double() / age_T
        prox_T = (1 - alpha_T) * fixed.behaviour_logp_T + alpha_T * logp_T
    anchor_T = fixed.behaviour_logp_T if row.anchor == "behaviour" else prox_T
    scope = "token" if row.ratio == "none" else row.ratio
    ratio_T = log_ratio(plain_T, anchor_T, tokens, scope).value_T
    objective_T = limit(ratio_T, fixed.advantage_T, tokens, row.limit).objective_T
    if row.ratio == "none":
        objective_T = fixed.advantage_T * plain_T
    if row.correction is not None:
        weight_T, corrected_T = correction_weight(
            prox_T, fixed.behaviour_logp_T, tokens, row.correction
        )
        objective_T = weight_T * objective_T
        assert loss.corrected_T.tolist() == corrected_T.tolist()
    if isinstance(row.covariance, ClipCov):
        objective_T = objective_T[~fixed.chosen_T]
    expected = -objective_T.sum()
    if isinstance(row.covariance, KLCov):
        expected = expected + (plain_T - prox_T).abs()[fixed.chosen_T].sum()
    if row.kl is not None and row.kl.estimator != "k1_reward":
        kl_T = kl_value(plain_T, fixed.reference_logp_T, row.kl.estimator, ratio_T)
        expected = expected + row.kl.coefficient * kl_T.sum()
    expected.backward()
    close(leaf_T.grad, plain_T.grad, 1e-10)
    assert not loss.dropped_T.any()


@by_row
@given(episodes=EPISODES, seed=SEEDS)
@brief
def test_a_split_between_episodes_changes_nothing(row, episodes, seed):
    tokens = tokens_of(episodes)
    logp_T, fixed = batch(tokens, seed, row)
    coefficient_T = coefficients(tokens, row)
    whole, gradient = total_and_gradient(
        logp_T, fixed, coefficient_T, row, [torch.arange(len(tokens))]
    )
    parts = random_parts(tokens.episode_T, seed)
    total, split = total_and_gradient(logp_T, fixed, coefficient_T, row, parts)
    assert total == pytest.approx(whole, abs=1e-10)
    close(split, gradient, 1e-12)


def is_wide(row):
    return row.correction is not None and row.correction.scope != "token"


@by_row
@given(episodes=EPISODES, seed=SEEDS)
@brief
def test_a_split_inside_episodes_changes_nothing_with_the_wide_numbers_given(row, episodes, seed):
    """Any token to any part: log ρ and the correction were computed over whole episodes."""
    if row.correction is not None and row.correction.prox == "interpolated":
        row = replace(row, correction=replace(row.correction, prox="recomputed"))
    tokens = tokens_of(episodes)
    logp_T, fixed = batch(tokens, seed, row)
    if row.ratio != "none":
        anchor_T = fixed.behaviour_logp_T if row.anchor == "behaviour" else fixed.prox_logp_T
        fixed = replace(fixed, wide_T=log_ratio(logp_T, anchor_T, tokens, row.ratio).value_T)
    if is_wide(row):
        weight = correction_weight(
            fixed.prox_logp_T, fixed.behaviour_logp_T, tokens, row.correction
        )
        fixed = replace(fixed, correction=weight)
    coefficient_T = coefficients(tokens, row)
    whole, gradient = total_and_gradient(
        logp_T, replace(fixed, wide_T=None), coefficient_T, row, [torch.arange(len(tokens))]
    )
    parts = random_parts(torch.arange(len(tokens)), seed)
    total, split = total_and_gradient(logp_T, fixed, coefficient_T, row, parts)
    assert total == pytest.approx(whole, abs=1e-10)
    close(split, gradient, 1e-12)


@pytest.mark.parametrize("kind", ["token_mean", "sequence_mean", "prompt_mean", "constant"])
@given(episodes=EPISODES, seed=SEEDS)
@brief
def test_simulated_ranks_have_the_gradient_of_one_process(kind, episodes, seed):
    """Whole groups per rank, in another order of episodes; only `Totals` are exchanged."""
    row = algorithm("ctpo", aggregate=Aggregate(kind, 7), kl=KL(0.1))
    tokens = tokens_of(episodes)
    logp_T, fixed = batch(tokens, seed, row)
    _, gradient = total_and_gradient(
        logp_T, fixed, coefficients(tokens, row), row, [torch.arange(len(tokens))]
    )
    ranks = random_parts(tokens.group_T, seed)
    totals = sum((Totals.of(tokens.take(r)) for r in ranks), Totals(0, 0, 0))
    for rank in ranks:
        own = tokens.take(rank)
        here = [torch.arange(len(own))]
        _, part = total_and_gradient(
            logp_T[rank], fixed.take(rank), coefficients(own, row, totals), row, here
        )
        close(part, gradient[rank], 1e-12)


@by_row
def test_the_order_and_the_company_of_episodes_do_not_matter(row):
    """Packing: an episode's values are the same alone, between others, and after them."""
    episodes = [(0, [2, 1]), (1, [3]), (0, [1, 1, 2])]
    tokens = tokens_of(episodes)
    logp_T, fixed = batch(tokens, 3, row)
    together = token_loss(logp_T, fixed, row).value_T
    starts = [0, 3, 6, 10]
    pieces = [torch.arange(a, b) for a, b in itertools.pairwise(starts)]
    for piece in pieces:
        close(token_loss(logp_T[piece], fixed.take(piece), row).value_T, together[piece], 1e-12)
    order = torch.cat([pieces[2], pieces[0], pieces[1]])
    close(token_loss(logp_T[order], fixed.take(order), row).value_T, together[order], 1e-12)


@pytest.mark.parametrize("name", ["ppo", "dr_grpo", "gspo", "ctpo", "cispo", "full_ratio"])
@given(episodes=EPISODES, seed=SEEDS)
@brief
def test_the_whole_loss_equals_a_padded_one(name, episodes, seed):
    """[E, L] with a mask, as trainers with padding write it, in one mean per aggregation."""
    row = algorithm(name)
    tokens = tokens_of(episodes)
    logp_T, fixed = batch(tokens, seed, row)
    lengths = torch.tensor([sum(turns) for _, turns in episodes])
    mask = torch.arange(int(lengths.max())) < lengths[:, None]

    def padded(value_T):
        return torch.zeros(mask.shape, dtype=torch.float64).masked_scatter(mask, value_T)

    x, advantage, n = (
        padded(logp_T - fixed.prox_logp_T),
        padded(fixed.advantage_T),
        lengths[:, None],
    )
    total = x.sum(1, keepdim=True).expand_as(x)
    t = mask.cumsum(1).double()
    low, high, value = floats(0.8), floats(1.2), None
    match name:
        case "gspo":
            x, low, high = total / n, floats(1 - 3e-4), floats(1 + 4e-4)
        case "ctpo":
            x, low, high = x.cumsum(1), (-0.025 * t**0.5).exp(), (0.05 * t**0.5).exp()
        case "cispo":
            value = x.exp().clamp(max=5) * advantage * x
        case "full_ratio":
            value = total.exp().clamp(max=5) * advantage * total
    if value is None:
        rho = x.exp()
        value = torch.minimum(rho * advantage, rho.clamp(low, high) * advantage)
    value = -value * mask
    expected = {
        "token_mean": value.sum() / mask.sum(),
        "sequence_mean": (value.sum(1) / lengths).mean(),
        "constant": value.sum() / (len(episodes) * (row.aggregate.length or 8)),
    }[row.aggregate.kind]
    found, _ = total_and_gradient(
        logp_T, fixed, coefficients(tokens, row), row, [torch.arange(len(tokens))]
    )
    assert found == pytest.approx(expected.item(), abs=1e-10)


@by_row
@pytest.mark.parametrize("field", ["policy", "prox", "behaviour", "reference"])
@pytest.mark.parametrize("bad", [-math.inf, math.nan])
def test_a_number_that_is_not_finite_takes_only_its_own_with_it(row, field, bad):
    """Dropped and marked or weighed 0; the gradient is finite; the other episode is untouched."""
    tokens = tokens_of([(0, [2, 2]), (0, [3])])
    logp_T, fixed = batch(tokens, 5, row)
    clean = token_loss(logp_T, fixed, row)
    if field == "policy":
        logp_T = logp_T.index_fill(0, torch.tensor([1]), bad)
    else:
        name = f"{field}_logp_T"
        broken_T = getattr(fixed, name).index_fill(0, torch.tensor([1]), bad)
        fixed = replace(fixed, **{name: broken_T})
    leaf_T = logp_T.clone().requires_grad_()
    loss = token_loss(leaf_T, fixed, row)
    loss.value_T.sum().backward()
    assert torch.isfinite(loss.value_T).all()
    assert torch.isfinite(leaf_T.grad).all()
    close(loss.value_T[4:].detach(), clean.value_T[4:], 1e-12)
    assert not loss.dropped_T[4:].any()
    assert loss.value_T[loss.dropped_T].tolist() == [0.0] * int(loss.dropped_T.sum())
    assert leaf_T.grad[loss.dropped_T].tolist() == [0.0] * int(loss.dropped_T.sum())
    if field == "policy":
        assert loss.dropped_T[1]
        close(coefficients(tokens, row).sum(), coefficients(fixed.tokens, row).sum(), 0.0)


@pytest.mark.parametrize("field", ["prox", "reference"])
def test_what_one_token_lost_does_not_change_its_episodes_correction(field):
    """Token 1 has no reference (or no prox): the product over the episode is still the product
    of the true numbers, or it does not exist."""
    row = algorithm("ppo", kl=KL(0.1), correction=Correction(scope="full", highest_ratio=100.0))
    tokens = one_episode(4)
    logp_T, fixed = batch(tokens, 5, row)
    name = f"{field}_logp_T"
    broken_T = getattr(fixed, name).index_fill(0, torch.tensor([1]), -math.inf)
    broken = replace(fixed, **{name: broken_T})
    clean, found = token_loss(logp_T, fixed, row), token_loss(logp_T, broken, row)
    assert found.dropped_T.tolist() == [False, True, False, False]
    keep = torch.tensor([0, 2, 3])
    if field == "reference":
        close(found.value_T[keep], clean.value_T[keep], 1e-12)
    else:
        assert found.corrected_T.all()
        kl_T = 0.1 * kl_value(logp_T, fixed.reference_logp_T, "k2")
        close(found.value_T[keep], kl_T[keep], 1e-12)


@pytest.mark.parametrize(
    ("row", "advantage"),
    [
        (algorithm("full_ratio", limit=None), 1.0),
        (algorithm("ppo"), -1.0),
        (algorithm("ctpo"), -1.0),
        (algorithm("grpo", limit=None), 1.0),
        (algorithm("opd"), 1.0),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_a_ratio_that_overflows_is_dropped_and_marked(row, advantage):
    """In float32 e^100 is infinite: the episode of one token is dropped, the other kept."""
    tokens = tokens_of([(0, [1]), (0, [1])])
    leaf_T = torch.tensor([-1.0, -1.0], requires_grad=True)
    far_T = torch.tensor([-101.0, -1.0])
    fixed = Fixed(
        tokens,
        torch.full((2,), advantage),
        behaviour_logp_T=far_T,
        prox_logp_T=far_T,
        reference_logp_T=leaf_T.detach(),
    )
    loss = token_loss(leaf_T, fixed, row)
    loss.value_T.sum().backward()
    assert loss.dropped_T.tolist() == [True, False]
    assert loss.value_T.tolist() == [0.0, pytest.approx(-advantage)]
    assert leaf_T.grad.tolist() == [0.0, pytest.approx(-advantage)]


@pytest.mark.parametrize("estimator", ["k3", "k3_k2"])
def test_a_kl_that_overflows_is_dropped_and_marked(estimator):
    leaf_T = torch.tensor([-100.0, -1.0], requires_grad=True)
    fixed = Fixed(one_episode(2), torch.ones(2), reference_logp_T=torch.tensor([-1.0, -1.0]))
    loss = token_loss(leaf_T, fixed, algorithm("grpo", kl=KL(0.1, estimator)))
    loss.value_T.sum().backward()
    assert loss.dropped_T.tolist() == [True, False]
    close(leaf_T.grad, floats([0.0, -1.0]), 1e-6)


def test_a_correction_that_overflows_is_dropped_and_marked():
    """Decoupled PPO without a bound, over whole episodes: log k = 300 in float32."""
    row = algorithm("ppo", correction=Correction(highest_ratio=math.inf, scope="full"))
    tokens = tokens_of([(0, [3]), (0, [1])])
    leaf_T = torch.full((4,), -1.0, requires_grad=True)
    behaviour_T = torch.tensor([-101.0, -101.0, -101.0, -1.0])
    loss = token_loss(leaf_T, Fixed(tokens, torch.ones(4), behaviour_logp_T=behaviour_T), row)
    loss.value_T.sum().backward()
    assert loss.dropped_T.tolist() == [True, True, True, False]
    close(leaf_T.grad, floats([0, 0, 0, -1]), 1e-6)


def test_clip_cov_takes_the_gradient_and_kl_cov_adds_one():
    tokens, chosen_T = one_episode(3), torch.tensor([False, True, False])
    fixed = Fixed(tokens, floats([1, 2, 3]), prox_logp_T=floats([-1.1] * 3), chosen_T=chosen_T)
    gradients = {}
    for rule in (None, ClipCov(), KLCov(coefficient=0.5)):
        leaf_T = floats([-1.0] * 3).requires_grad_()
        row = algorithm("dapo", limit=None, covariance=rule)
        token_loss(leaf_T, fixed, row).value_T.sum().backward()
        gradients[type(rule)] = leaf_T.grad
    close(gradients[ClipCov], torch.where(chosen_T, 0.0, gradients[type(None)]), 1e-12)
    close(gradients[KLCov], gradients[type(None)] + 0.5 * chosen_T, 1e-12)


def test_parts_with_versions_and_corrections_keep_every_column():
    row = algorithm("grpo", covariance=KLCov(0.5), correction=EPISODE_IS)
    _, fixed = batch(one_episode(5), 0, row)
    weight = correction_weight(fixed.prox_logp_T, fixed.behaviour_logp_T, fixed.tokens, EPISODE_IS)
    fixed = replace(fixed, wide_T=noise(9, 5), correction=weight)
    index_T = torch.tensor([1, 4])
    part = fixed.take(index_T)
    names = ("advantage_T", "behaviour_logp_T", "prox_logp_T", "reference_logp_T", "wide_T")
    for name in (*names, "chosen_T"):
        assert getattr(part, name).tolist() == getattr(fixed, name)[index_T].tolist()
    assert part.versions == (part.versions.token_T, 4, 6)
    assert part.versions.token_T.tolist() == [1, 4]
    assert part.correction.weight_T.tolist() == weight.weight_T[index_T].tolist()
    assert part.tokens.ordinals().tolist() == [2, 5]


# The second signature: terms over the vocabulary.

TEACH = Distillation("jsd", beta=0.3, top_k=3, coefficient=0.7)
EVERYTHING = algorithm("dapo", entropy=0.2, kl=KL(0.5, "full"), distillation=TEACH)


def logits(seed):
    return noise(seed, 12).reshape(2, 6)


def test_vocabulary_terms_are_added():
    student, reference, teacher = logits(0), logits(1), logits(2)
    found = vocabulary_loss(
        student, EVERYTHING, reference_logit_CV=reference, teacher_logit_CV=teacher
    )
    p, q = student.softmax(-1), reference.softmax(-1)
    kl_C = (p * (p / q).log()).sum(-1)
    expected = -0.2 * entropy(student) + 0.5 * kl_C + divergence(student, teacher, TEACH)
    close(found, expected, 1e-12)
    nothing = Algorithm(name="none", credit=GroupComparison())
    close(vocabulary_loss(student, nothing), torch.zeros(2), 0.0)


def test_finite_differences_of_the_vocabulary_terms():
    reference, teacher = logits(1), logits(2)
    assert torch.autograd.gradcheck(
        lambda student: vocabulary_loss(
            student, EVERYTHING, reference_logit_CV=reference, teacher_logit_CV=teacher
        ),
        logits(0).requires_grad_(),
    )


def test_chunks_of_the_vocabulary_terms_change_nothing():
    student, reference, teacher = logits(0), logits(1), logits(2)
    whole = vocabulary_loss(
        student, EVERYTHING, reference_logit_CV=reference, teacher_logit_CV=teacher
    )
    for c in range(2):
        at = slice(c, c + 1)
        part = vocabulary_loss(
            student[at], EVERYTHING, reference_logit_CV=reference[at], teacher_logit_CV=teacher[at]
        )
        close(part, whole[at], 1e-12)


@pytest.mark.parametrize("name", ["reinforce", "ppo", "ctpo", "sft"])
@given(seed=SEEDS, sign=st.sampled_from([1.0, -1.0]))
@brief
def test_finite_differences_where_the_value_is_an_objective(name, seed, sign):
    """Inside every window, tokens alone in their episode, so that no stop-gradient acts."""
    row, tokens = algorithm(name), tokens_of([(0, [1])] * 4)
    logp_T, fixed = batch(tokens, seed, row, spread=0.0)
    fixed = replace(
        fixed,
        advantage_T=sign * floats([1, 2, 0.5, 1]),
        prox_logp_T=logp_T + floats([0.01, -0.015, 0.002, -0.02]),
    )
    assert torch.autograd.gradcheck(
        lambda x_T: token_loss(x_T, fixed, row).value_T, logp_T.clone().requires_grad_()
    )


@by_row
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_values_have_the_type_of_the_log_probs(row, dtype):
    tokens = one_episode(3)
    logp_T, fixed = batch(tokens, 0, row)
    columns = ("advantage_T", "behaviour_logp_T", "prox_logp_T", "reference_logp_T")
    fixed = replace(fixed, **{c: getattr(fixed, c).to(dtype) for c in columns})
    assert token_loss(logp_T.to(dtype), fixed, row).value_T.dtype == dtype
