"""Which task next. Knows nothing of gradients."""

from __future__ import annotations

import random
from collections.abc import Sequence


class TaskOrder:
    """Every task once per pass, each pass in a new order: draw n is a function of (seed, n).

    So the only state to save is how many draws were made.
    """

    def __init__(self, n_tasks: int, seed: int) -> None:
        if n_tasks <= 0:
            raise ValueError("there is no task to draw from")
        self._n_tasks = n_tasks
        self._seed = seed

    def draw(self, n: int) -> int:
        """The index of the task of the n-th draw, counted from 0."""
        turn, position = divmod(n, self._n_tasks)
        return self._pass(turn)[position]

    def _pass(self, turn: int) -> Sequence[int]:
        order = list(range(self._n_tasks))
        random.Random(f"task order {self._seed} {turn}").shuffle(order)
        return order
