"""The value loss. "mission" and "algorithms" name the pages that the vectors come from."""

import pytest
import torch
from heart_batches import close, floats, noise

from steelyard.objective import Critic, value_loss

THREE_OF_TEN = floats([1, 1, 1, *[0] * 7])


@pytest.mark.parametrize(("predicted", "squared_error"), [(0.6, 0.30), (0.3, 0.21)])
def test_F3_squared_error_when_three_of_ten_succeed(predicted, squared_error):
    """The loss carries ½."""
    value = value_loss(torch.full_like(THREE_OF_TEN, predicted), THREE_OF_TEN).mean()
    assert value.item() == pytest.approx(squared_error / 2)


@pytest.mark.parametrize(
    ("target", "squared", "gradient"),
    [(1.0, 0.25, 0.0), (0.0, 0.36, 0.6)],
    ids=["moved past ε towards it", "moved away"],
)
def test_algorithms_2_clipped_value_loss(target, squared, gradient):
    """V_old = .3, V = .6, ε = .2."""
    value = floats([0.6]).requires_grad_()
    loss = value_loss(value, floats([target]), old_value_X=floats([0.3]), clip=0.2)
    loss.sum().backward()
    close(loss.detach(), floats([squared / 2]))
    close(value.grad, floats([gradient]))


@pytest.mark.parametrize("clip", [None, 0.2])
def test_finite_differences_on_both_sides_of_the_clip(clip):
    """Inside it, beyond it towards the target, and beyond it away from the target."""
    value = floats([0.35, 0.1, 0.9, 0.9]).requires_grad_()
    old, target = floats([0.3, 0.2, 0.3, 0.3]), floats([1.0, 0.9, 2.0, -1.0])
    assert torch.autograd.gradcheck(
        lambda v: value_loss(v, target, old_value_X=old, clip=clip), value
    )


def test_only_the_values_learn():
    value, target = noise(0, 3).requires_grad_(), noise(1, 3).requires_grad_()
    old = noise(2, 3).requires_grad_()
    value_loss(value, target, old_value_X=old, clip=0.1).sum().backward()
    assert target.grad is None
    assert old.grad is None
    assert value.grad is not None


@pytest.mark.parametrize("clip", [0.0, -0.5])
def test_a_clip_that_is_no_distance_is_refused(clip):
    with pytest.raises(ValueError, match="clip must be above 0"):
        Critic(clip=clip)


def test_losses_have_the_type_of_the_values():
    for dtype in (torch.float32, torch.float64):
        value = torch.ones(2, dtype=dtype)
        assert value_loss(value, value, old_value_X=value, clip=0.1).dtype == dtype
