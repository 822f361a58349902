"""Where the next groups would say something: budget goes to kinds whose groups come out mixed.

A group of G episodes carries a gradient only if some of them succeed and some fail. With a success
rate p that is known by s successes and f failures, p ~ Beta(a, b), a = s + 1, b = f + 1, that has

    P(mixed) = 1 − E[p^G] − E[(1 − p)^G] = 1 − B(a + G, b) / B(a, b) − B(a, b + G) / B(a, b)

A kind is drawn in proportion to it. Counts fade with every step, so a kind that was not drawn for a
while is looked at again. Dynamic sampling (DAPO) turns groups without a signal away after they have
been paid for; this asks for fewer of them.
"""

from __future__ import annotations

import math
import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

FADE = 0.7
"""Of its weight an outcome keeps so much from one step to the next: after seven steps a twelfth."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a group of one kind gave at a step: the outcomes in [0, 1] of its scored episodes."""

    step: int
    kind: str
    outcomes: tuple[float, ...]

    @classmethod
    def of(cls, step: int, kind: str, raw: Iterable[float | None]) -> Seen:
        """From raw outcomes, None where an episode is unscored.

        Where all are equal there is no signal, whatever they are, so they count as failures unless
        they are full: half a reward each time must not look like success every other time. They
        are rounded to 12 digits, so that a record that keeps 15 tells what the run saw.
        """
        outcomes = tuple(round(value, 12) for value in raw if value is not None)
        if len(set(outcomes)) == 1:
            outcomes = (float(outcomes[0] >= 1.0),) * len(outcomes)
        return cls(step, kind, outcomes)


def mixed_probability(successes: float, failures: float, group_size: int) -> float:
    """P(mixed) as above; `successes` and `failures` need not be whole."""
    a, b = successes + 1, failures + 1
    return 1 - _beta_ratio(a, b, group_size, 0) - _beta_ratio(a, b, 0, group_size)


def _beta_ratio(a: float, b: float, more_a: int, more_b: int) -> float:
    """B(a + more_a, b + more_b) / B(a, b)."""
    return math.exp(_log_beta(a + more_a, b + more_b) - _log_beta(a, b))


def _log_beta(a: float, b: float) -> float:
    return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)


class SignalOrder:
    """Draws kinds in proportion to P(mixed), and the tasks of a kind in turn.

    What step s draws is a function of the seed, s and what was seen before s, so a resumed run
    draws what it would have drawn.
    """

    def __init__(self, kinds: Sequence[str], group_size: int, seed: int) -> None:
        """`kinds` holds the kind of each task."""
        if not kinds:
            raise ValueError("there is no task to draw from")
        self._tasks: dict[str, list[int]] = defaultdict(list)
        for index, kind in enumerate(kinds):
            self._tasks[kind].append(index)
        self._group_size = group_size
        self._seed = seed

    def weights(self, step: int, seen: Sequence[Seen]) -> dict[str, float]:
        """P(mixed) of each kind at `step`, from what was seen at the steps before."""
        good: dict[str, float] = defaultdict(float)
        bad: dict[str, float] = defaultdict(float)
        for past in seen:
            if past.step < step:
                faded = FADE ** (step - 1 - past.step)
                good[past.kind] += faded * sum(past.outcomes)
                bad[past.kind] += faded * (len(past.outcomes) - sum(past.outcomes))
        return {k: mixed_probability(good[k], bad[k], self._group_size) for k in self._tasks}

    def upcoming(self, step: int, seen: Sequence[Seen], batch: int) -> Iterator[int]:
        """Indices of tasks, without end. Each `batch` of them holds a kind as often as its weight
        says, to within one (systematic resampling), in a random order."""
        rng = random.Random(f"signal order {self._seed} {step}")
        weights = self.weights(step, seen)
        before = Counter(past.kind for past in seen if past.step < step)
        turns = {kind: self._turns(kind, before[kind]) for kind in self._tasks}
        stride = sum(weights.values()) / batch
        while True:
            kinds: list[str] = []
            reached, mark = 0.0, rng.random() * stride
            for kind in rng.sample(list(weights), len(weights)):
                reached += weights[kind]
                while mark < reached and len(kinds) < batch:
                    kinds.append(kind)
                    mark += stride
            rng.shuffle(kinds)
            yield from (next(turns[kind]) for kind in kinds)

    def _turns(self, kind: str, first: int) -> Iterator[int]:
        """The kind's tasks from its `first`-th turn on: each once per pass, each pass shuffled."""
        tasks = self._tasks[kind]
        for turn in count(first):
            number, position = divmod(turn, len(tasks))
            rng = random.Random(f"signal order {self._seed} {kind} {number}")
            yield rng.sample(tasks, len(tasks))[position]
