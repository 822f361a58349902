"""Which task next. Knows nothing of gradients."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence


class TaskOrder:
    """Every task once per pass, the kinds in turn, each pass in a new order.

    Kinds alternate so that a batch holds as many of them as it can: an update that sees one kind
    of mistake teaches its remedy for all of them. Draw n is a function of (seed, n), so the only
    state to save is how many draws were made.
    """

    def __init__(self, kinds: Sequence[str], seed: int) -> None:
        """`kinds` holds the kind of each task."""
        if not kinds:
            raise ValueError("there is no task to draw from")
        self._kinds = list(kinds)
        self._seed = seed

    def draw(self, n: int) -> int:
        """The index of the task of the n-th draw, counted from 0."""
        turn, position = divmod(n, len(self._kinds))
        return self._pass(turn)[position]

    def _pass(self, turn: int) -> list[int]:
        rng = random.Random(f"task order {self._seed} {turn}")
        by_kind: dict[str, list[int]] = defaultdict(list)
        for index, kind in enumerate(self._kinds):
            by_kind[kind].append(index)
        for indices in by_kind.values():
            rng.shuffle(indices)
        order: list[int] = []
        while any(by_kind.values()):
            round_ = [kind for kind in by_kind if by_kind[kind]]
            rng.shuffle(round_)
            order += [by_kind[kind].pop() for kind in round_]
        return order
