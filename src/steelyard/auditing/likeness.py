"""Whether two results are as like as a task asks, so that no rounding or order proves anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.auditing.probes.promises import forgives_order, tolerance
from steelyard.sandbox.wire import same

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Likeness:
    """Compares by exact type all the way down, but

    - a float and a number are alike where they differ by less than 1e-9 of themselves, or by no
      more than the instruction's tolerance; NaN is like NaN;
    - lists are alike in any order where the instruction says so.
    """

    instruction: str

    def __call__(self, left: Any, right: Any) -> bool:
        """Whether two values of plain data are alike."""
        if _are_numbers(left, right) and float in (type(left), type(right)):
            return self._near(left, right)
        if type(left) is not type(right):
            return False
        if isinstance(left, list | tuple):
            return len(left) == len(right) and self._items(left, right)
        if isinstance(left, dict):
            return left.keys() == right.keys() and all(self(left[k], right[k]) for k in left)
        return same(left, right)

    def _near(self, left: float, right: float) -> bool:
        if left == right or (left != left and right != right):
            return True
        if not (math.isfinite(left) and math.isfinite(right)):
            return False
        allowed = tolerance(self.instruction, left) or 0.0
        return math.isclose(left, right, rel_tol=_ROUNDING, abs_tol=max(allowed, 1e-12))

    def _items(self, left: Sequence[Any], right: Sequence[Any]) -> bool:
        if all(map(self, left, right)):
            return True
        if isinstance(left, tuple) or not forgives_order(self.instruction):
            return False
        waiting = list(right)
        for item in left:
            found = next((i for i, other in enumerate(waiting) if self(item, other)), None)
            if found is None:
                return False
            del waiting[found]
        return True


def _are_numbers(*values: Any) -> bool:
    return all(type(value) in (int, float) for value in values)
