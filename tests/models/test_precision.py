"""Checks against a model in float32 leave its narrow weights as they were."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from steelyard.models.precision import in_float32


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_weights_are_wide_inside_and_the_same_bits_afterwards(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model = nn.Linear(5, 3).to(dtype)
    before = [p.detach().clone() for p in model.parameters()]
    with in_float32(model):
        assert all(p.dtype == torch.float32 for p in model.parameters())
        assert model(torch.ones(5)).dtype == torch.float32
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.dtype == dtype for p in model.parameters())
