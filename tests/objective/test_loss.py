import dataclasses

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import (
    ALGORITHMS,
    Aggregate,
    Algorithm,
    ClipMin,
    algorithm,
    clip_min,
    token_coefficients,
    token_loss,
)


@pytest.mark.parametrize(
    ("ratio", "advantage", "limit", "value", "has_gradient"),
    [
        (1.75, 1, ClipMin(), 1.2, False),
        (1.75, -1, ClipMin(), -1.75, True),
        (0.5, 1, ClipMin(), 0.5, True),
        (0.5, -1, ClipMin(), -0.8, False),
        (5.0, -1, ClipMin(), -5.0, True),
        (1.25, 1, ClipMin(0.2, 0.28), 1.25, True),
        (1.25, 1, ClipMin(), 1.2, False),
    ],
)
def test_the_clip_vectors(ratio, advantage, limit, value, has_gradient):
    ratio_T = torch.tensor([ratio], requires_grad=True)
    objective_T, limited_T = clip_min(ratio_T, torch.tensor([float(advantage)]), limit)
    objective_T.sum().backward()
    assert objective_T.item() == pytest.approx(value)
    assert bool(ratio_T.grad.abs().sum() > 0) is has_gradient
    assert limited_T.tolist() == [not has_gradient]


@pytest.mark.parametrize("row", ALGORITHMS.values(), ids=lambda row: row.name)
def test_on_policy_every_algorithm_has_the_policy_gradient(row):
    """At θ = prox the gradient of each value is −A_t with respect to log π_t."""
    logp_T = torch.tensor([-0.3, -2.0, -0.01], requires_grad=True)
    advantage_T = torch.tensor([0.75, -0.25, 2.0])
    token_loss(logp_T, logp_T.detach(), advantage_T, row).value_T.sum().backward()
    assert logp_T.grad.tolist() == pytest.approx((-advantage_T).tolist())


@given(
    st.lists(st.floats(-3, 0), min_size=1, max_size=6),
    st.floats(-0.5, 0.5),
    st.sampled_from([-1.0, -0.25, 0.75]),
    st.sampled_from([name for name in ALGORITHMS if name != "sft"]),
)
def test_the_gradient_is_the_finite_difference(logps, shift, advantage, name):
    row = ALGORITHMS[name]
    logp_T = torch.tensor(logps, dtype=torch.float64)
    prox_T = logp_T - shift
    advantage_T = torch.full_like(logp_T, advantage)

    def total(value_T: torch.Tensor) -> torch.Tensor:
        return token_loss(value_T, prox_T, advantage_T, row).value_T.sum()

    ratio = torch.exp(logp_T - prox_T)
    near_a_kink = row.limit is not None and bool(
        ((ratio - 1 + row.limit.low).abs() < 1e-4).any()
        or ((ratio - 1 - row.limit.high).abs() < 1e-4).any()
    )
    if near_a_kink:
        return
    leaf = logp_T.clone().requires_grad_()
    total(leaf).backward()
    step = 1e-6
    for i in range(len(logps)):
        moved = torch.zeros_like(logp_T)
        moved[i] = step
        slope = (total(logp_T + moved) - total(logp_T - moved)) / (2 * step)
        assert leaf.grad[i].item() == pytest.approx(slope.item(), abs=1e-5)


def test_the_aggregation_vectors():
    """Token losses {[1], [2, 2, 2]}: 1.75, 1.5 and, with L = 4, 0.875."""
    value_T = torch.tensor([1.0, 2.0, 2.0, 2.0])
    episode_T = torch.tensor([7, 3, 3, 3])
    results = [
        (token_coefficients(episode_T, rule) * value_T).sum().item()
        for rule in (
            Aggregate("token_mean"),
            Aggregate("sequence_mean"),
            Aggregate("constant", length=4),
        )
    ]
    assert results == pytest.approx([1.75, 1.5, 0.875])


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=6),
    st.sampled_from(
        [Aggregate("token_mean"), Aggregate("sequence_mean"), Aggregate("constant", 7)]
    ),
    st.integers(1, 4),
)
def test_splitting_the_batch_changes_nothing(lengths, rule, parts):
    episode_T = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    value_T = torch.sin(torch.arange(len(episode_T)).float())
    coefficient_T = token_coefficients(episode_T, rule)
    whole = (coefficient_T * value_T).sum()
    pieces = sum(
        (c * v).sum() for c, v in zip(coefficient_T.chunk(parts), value_T.chunk(parts), strict=True)
    )
    assert float(pieces) == pytest.approx(float(whole), abs=1e-6)


def test_impossible_combinations_fail_with_a_reason():
    with pytest.raises(ValueError, match="a limit bounds a ratio"):
        algorithm("grpo", ratio="none")
    with pytest.raises(ValueError, match="imitation"):
        algorithm("sft", ratio="token")
    with pytest.raises(ValueError, match="not known"):
        algorithm("grpoo")
    with pytest.raises(ValueError, match="needs length"):
        token_coefficients(torch.tensor([0]), Aggregate("constant"))
    with pytest.raises(ValueError, match="distances from 1"):
        ClipMin(low=1.5)


def test_a_row_is_frozen():
    row: Algorithm = ALGORITHMS["grpo"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.name = "x"
