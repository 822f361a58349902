"""What must hold: of records when they are built, of tensors when they come in."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

_T = TypeVar("_T")


def given(value: _T | None) -> _T:
    """What a caller may leave out, but not under the rule that reads it."""
    assert value is not None, "an argument that the rule reads was left out"
    return value


def require(holds: bool, sentence: str) -> None:
    """Raises ValueError with the sentence unless it holds."""
    if not holds:
        raise ValueError(sentence)


def require_finite(value_X: Tensor, what: str) -> None:
    """Refuses an infinity or a NaN among rewards, where only an unscored episode brings one."""
    require(
        all_finite(value_X), f"credit: {what} is not finite; unscored episodes must not be passed"
    )


def all_finite(value_X: Tensor) -> bool:
    """Whether no entry is infinite or NaN. One pass: an infinity or a NaN spoils the sum, and a
    sum that is spoilt by overflow alone is looked at again."""
    return bool(torch.isfinite(value_X.sum())) or bool(torch.isfinite(value_X).all())
