"""Divergences. "mission" and "algorithms" name the pages that the vectors come from."""

import itertools
import math

import pytest
import torch
from heart_batches import SEEDS, close, floats, noise, quick
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import Distillation, divergence

TEACHER, STUDENT = floats([[0.8, 0.2]]).log(), floats([[0.5, 0.5]]).log()
FORWARD = 0.8 * math.log(1.6) + 0.2 * math.log(0.4)
REVERSE = 0.5 * math.log(0.625) + 0.5 * math.log(2.5)
RULES = [
    Distillation(kind, top_k=k, temperature=temperature)
    for kind in ("forward_kl", "reverse_kl", "jsd", "jsd_scaled")
    for k in (None, 2)
    for temperature in (1.0, 2.5)
]
by_rule = pytest.mark.parametrize("rule", RULES, ids=repr)


def logits(seed, rows=2, vocabulary=5):
    return noise(seed, rows * vocabulary).reshape(rows, vocabulary)


def plain_divergence(student, teacher, rule):
    """From probabilities, one token, as the papers write it."""
    s = (student / rule.temperature).softmax(-1)
    t = (teacher / rule.temperature).softmax(-1)
    if rule.top_k is not None:
        kept = sorted(range(len(t)), key=lambda v: -t[v])[: rule.top_k]
        s, t = (torch.stack([*(x[v] for v in kept), 1 - x[kept].sum()]) for x in (s, t))
    beta, kl = rule.beta, lambda p, q: (p * (p / q).log()).sum()
    middle = beta * t + (1 - beta) * s
    jsd = beta * kl(t, middle) + (1 - beta) * kl(s, middle)
    value = {
        "forward_kl": kl(t, s),
        "reverse_kl": kl(s, t),
        "jsd": jsd,
        "jsd_scaled": jsd / (beta * (1 - beta)),
    }[rule.divergence]
    return rule.coefficient * rule.temperature**2 * value


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (Distillation("forward_kl"), FORWARD),
        (Distillation("reverse_kl"), REVERSE),
        (Distillation("reverse_kl"), 0.2231435513),
        (Distillation("forward_kl"), 0.1927447570),
        (Distillation("jsd", beta=0.001), 0.0001925647570110),
        (Distillation("jsd", beta=0.1), 0.0174733941439696),
        (Distillation("jsd", beta=0.5), 0.0506718369855659),
        (Distillation("jsd", beta=0.9), 0.0195994422566868),
        (Distillation("jsd", beta=0.999), 0.0002228624066973),
        (Distillation("jsd_scaled", beta=0.0), FORWARD),
        (Distillation("jsd_scaled", beta=1.0), REVERSE),
        (Distillation("jsd_scaled", beta=0.5), 4 * 0.0506718369855659),
        (Distillation("forward_kl", coefficient=3.0), 3 * FORWARD),
    ],
    ids=repr,
)
def test_T5_and_algorithms_7_divergences_of_80_20_and_50_50(rule, value):
    close(divergence(STUDENT, TEACHER, rule), floats([value]))


def test_T6_and_algorithms_7_the_entry_clip_bounds_each_vocabulary_entry():
    """Terms .3760 and −.1833 clip to .05 − .1833; a bound on the sum would give .05."""
    student = STUDENT.clone().requires_grad_()
    rule = Distillation("forward_kl", entry_clip=0.05)
    value = divergence(student, TEACHER, rule)
    close(value.detach(), floats([0.05 + 0.2 * math.log(0.4)]))
    value.sum().backward()
    # Only the second entry's −.2 log S_2 is left: −.2 (∇ z_2 − S).
    close(student.grad, floats([[0.1, -0.1]]))
    reverse = Distillation("reverse_kl", entry_clip=0.05)
    close(divergence(STUDENT, TEACHER, reverse), floats([0.5 * math.log(0.625) + 0.05]))


@pytest.mark.parametrize(("temperature", "gradient"), [(1.0, -0.3807970780), (4.0, -0.4898373248)])
def test_T4_and_algorithms_7_temperature_squared_keeps_the_gradients_size(temperature, gradient):
    """Student logits (0, 0), teacher (2, 0); at T = 4 the bare gradient would be −.0306."""
    student = floats([[0.0, 0.0]]).requires_grad_()
    rule = Distillation("forward_kl", temperature=temperature)
    divergence(student, floats([[2.0, 0.0]]), rule).sum().backward()
    close(student.grad[0, 0], floats(gradient))


@by_rule
@given(SEEDS)
@quick
def test_the_log_space_form_is_the_plain_one(rule, seed):
    student, teacher = logits(seed), logits(seed + 1)
    expected = [plain_divergence(s, t, rule) for s, t in zip(student, teacher, strict=True)]
    close(divergence(student, teacher, rule), torch.stack(expected), 1e-10)


@by_rule
def test_finite_differences(rule):
    teacher = logits(1)
    assert torch.autograd.gradcheck(
        lambda student: divergence(student, teacher, rule), logits(0).requires_grad_()
    )


@pytest.mark.parametrize("kind", ["forward_kl", "reverse_kl"])
def test_finite_differences_with_clipped_entries(kind):
    rule, student, teacher = Distillation(kind, entry_clip=0.05), logits(0), logits(1)
    free = Distillation(kind)
    assert (divergence(student, teacher, rule) < divergence(student, teacher, free)).any()
    assert torch.autograd.gradcheck(
        lambda s: divergence(s, teacher, rule), student.requires_grad_()
    )


@by_rule
@given(SEEDS)
@quick
def test_zero_for_equal_distributions_and_above_it_else(rule, seed):
    student = logits(seed)
    close(divergence(student + 3.0, student, rule), torch.zeros(2), 1e-12)
    assert (divergence(student, logits(seed + 1), rule) > 0).all()


@quick
@given(SEEDS, st.sampled_from(["forward_kl", "reverse_kl", "jsd"]))
def test_fewer_entries_are_a_lower_bound_and_all_of_them_are_exact(seed, kind):
    student, teacher = logits(seed), logits(seed + 1)
    by_k = [divergence(student, teacher, Distillation(kind, top_k=k)) for k in (1, 2, 3, 5, 99)]
    for fewer, more in itertools.pairwise(by_k):
        assert (fewer <= more + 1e-12).all()
    close(by_k[-1], divergence(student, teacher, Distillation(kind)), 0.0)
    close(by_k[-2], by_k[-1], 0.0)


@pytest.mark.parametrize("end", [0.0, 1.0])
def test_the_scaled_divergence_has_no_jump_at_its_ends(end):
    near = abs(end - 1e-6)
    student, teacher = logits(0), logits(1)
    at_end, beside = (
        divergence(student, teacher, Distillation("jsd_scaled", beta=b)) for b in (end, near)
    )
    close(beside, at_end, 1e-4)
    assert at_end.min() > 0.1


@by_rule
def test_only_the_student_learns(rule):
    student, teacher = logits(0).requires_grad_(), logits(1).requires_grad_()
    divergence(student, teacher, rule).sum().backward()
    assert teacher.grad is None
    assert student.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", ["forward_kl", "jsd", "jsd_scaled"])
def test_an_entry_that_the_teacher_excludes_contributes_its_limit(kind):
    teacher = floats([[0.0, 0.5, -math.inf]])
    student = floats([[0.0, 1.0, 2.0]]).requires_grad_()
    value = divergence(student, teacher, Distillation(kind))
    close(value.detach(), divergence(student.detach(), teacher.clamp(min=-60), Distillation(kind)))
    value.sum().backward()
    assert torch.isfinite(student.grad).all()


@pytest.mark.parametrize("kind", ["forward_kl", "reverse_kl", "jsd", "jsd_scaled"])
def test_an_entry_that_both_exclude_has_no_gradient(kind):
    """A vocabulary masked by constrained decoding."""
    teacher = floats([[0.0, 0.5, -math.inf]])
    student = floats([[0.0, 1.0, -math.inf]]).requires_grad_()
    value = divergence(student, teacher, Distillation(kind))
    close(value.detach(), divergence(student.detach()[:, :2], teacher[:, :2], Distillation(kind)))
    value.sum().backward()
    assert torch.isfinite(student.grad).all()
    assert student.grad[0, 2] == 0.0


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"divergence": "jsd", "beta": 0.0}, "is 0 for all students; use"),
        ({"divergence": "jsd", "beta": 1.0}, "is 0 for all students; use"),
        ({"divergence": "jsd_scaled", "beta": 1.5}, r"beta must lie in \[0, 1\], got 1.5"),
        ({"temperature": 0.0}, "temperature must be above 0"),
        ({"divergence": "jsd", "entry_clip": 0.05}, "bounds the terms of one sum"),
        ({"top_k": 0}, "top_k must be at least 1"),
    ],
)
def test_choices_that_cannot_be_are_refused(choices, sentence):
    with pytest.raises(ValueError, match=sentence):
        Distillation(**choices)


@by_rule
def test_divergences_have_the_type_of_the_logits(rule):
    for dtype in (torch.float32, torch.float64):
        assert divergence(logits(0).to(dtype), logits(1).to(dtype), rule).dtype == dtype
