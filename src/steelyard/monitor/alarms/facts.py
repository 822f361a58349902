"""What alarms read of a run: a few numbers of each training episode, step by step."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from steelyard.monitor.significance import Unit
from steelyard.store import RunReader

_WINDOWS = (2, 8)
"""How many of the latest steps are compared with the reference: the short window sees a sudden
change, the long one a slow one."""
_MOST_LOOKS = 50
"""A longer run is looked at in so many rounds, so that a look still has error to spend."""


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """One training episode. `raw` and `heldout` are None where nothing was scored.

    `tokens` counts those that the policy sampled; `program` is equal for episodes of one process
    that left the same workspace.
    """

    id: str
    task: str
    kind: str
    raw: float | None
    heldout: float | None
    tokens: int
    components: Mapping[str, float]
    program: int

    @property
    def gap(self) -> float | None:
        """Training reward minus held-out reward, both within [0, 1]; None where one is missing."""
        if self.raw is None or self.heldout is None:
            return None
        return _clipped(self.raw) - _clipped(self.heldout)

    @property
    def truth(self) -> float | None:
        """The independent outcome: held-out checks, or else what the verifier said."""
        value = self.raw if self.heldout is None else self.heldout
        return None if value is None or self.raw is None else _clipped(value)


@dataclass(frozen=True, slots=True)
class StepFacts:
    """One RL step: its training episodes (those of unused groups too) and its metrics."""

    step: int
    episodes: tuple[EpisodeFacts, ...]
    metrics: Mapping[str, float]

    def without(self, tasks: Collection[str]) -> StepFacts:
        """The step without the episodes of `tasks`."""
        return replace(self, episodes=tuple(e for e in self.episodes if e.task not in tasks))


@dataclass(frozen=True)
class History:
    """The steps of a run so far, in order, and how many are planned.

    `known` holds the (name, subject) of alarms that were raised before: they need no test.
    """

    steps: Sequence[StepFacts]
    planned: int
    reference_steps: int
    known: Collection[tuple[str, str]] = ()

    @property
    def now(self) -> StepFacts:
        return self.steps[-1]

    @property
    def looks(self) -> int:
        """How many checks of the planned run share its error."""
        return min(_MOST_LOOKS, max(self.planned, 1))

    @property
    def looks_now(self) -> bool:
        """Whether the last step ends a round."""
        every = math.ceil(max(self.planned, 1) / _MOST_LOOKS)
        return self.now.step % every == 0 or self.now.step == self.planned

    @property
    def reference(self) -> Sequence[StepFacts]:
        """The first steps."""
        return self.steps[: self.reference_steps]

    @cached_property
    def windows(self) -> list[Sequence[StepFacts]]:
        """The latest steps at several widths, all after the reference; none at first."""
        later = len(self.steps) - self.reference_steps
        return [self.steps[-width:] for width in _WINDOWS if width <= later]

    def level(self, share: float) -> float:
        """What one comparison of one window may spend, of an alarm's `share`."""
        return share / self.looks / len(_WINDOWS)


def read_steps(reader: RunReader, after: int = 0) -> list[StepFacts]:
    """The RL steps later than `after`, as far as they are recorded."""
    episodes: dict[int, list[EpisodeFacts]] = defaultdict(list)
    for step, name, task, kind, raw, heldout, tokens, components, files in reader.query(
        "SELECT step, id, task, kind, raw, heldout_reward, n_action_tokens, components, files"
        " FROM episodes WHERE purpose = 'train' AND step > ? ORDER BY key",
        (after,),
    ):
        parts = json.loads(components) if components != "{}" else {}
        episodes[step].append(
            EpisodeFacts(name, task, kind, raw, heldout, tokens, parts, hash(files))
        )
    metrics: dict[int, dict[str, float]] = defaultdict(dict)
    for step, name, value in reader.query(
        "SELECT step, name, value FROM metrics WHERE phase = 'rl' AND step > ?", (after,)
    ):
        metrics[step][name] = math.nan if value is None else value
    steps = reader.query(
        "SELECT step FROM steps WHERE phase = 'rl' AND step > ? ORDER BY step", (after,)
    )
    return [StepFacts(step, tuple(episodes[step]), metrics[step]) for (step,) in steps]


def units(
    steps: Iterable[StepFacts],
    value: Callable[[EpisodeFacts], float | None],
    stratum: Callable[[EpisodeFacts], Hashable],
) -> list[Unit]:
    """One unit per visit of a task in a step: the mean of `value`, where it is not None."""
    found = []
    for step in steps:
        by_task: dict[str, list[float]] = defaultdict(list)
        strata: dict[str, Hashable] = {}
        for episode in step.episodes:
            number = value(episode)
            if number is not None:
                by_task[episode.task].append(number)
                strata[episode.task] = stratum(episode)
        found += [Unit(strata[task], mean(values)) for task, values in by_task.items()]
    return found


def stratum_of(history: History) -> Callable[[EpisodeFacts], Hashable]:
    """By task where tasks come back often enough to be compared with themselves, else by kind."""
    visits = sum(len({e.task for e in step.episodes}) for step in history.reference)
    tasks = {e.task for step in history.reference for e in step.episodes}
    if visits >= 3 * len(tasks):
        return lambda episode: episode.task
    return lambda episode: episode.kind


def average(
    steps: Iterable[StepFacts], value: Callable[[EpisodeFacts], float | None]
) -> float | None:
    """The mean over the episodes that have a value; None without any."""
    found = [v for step in steps for e in step.episodes if (v := value(e)) is not None]
    return mean(found) if found else None


def heldout_rates(history: History, width: int = 2) -> list[float | None]:
    """The held-out rate of each step with the ones before it, `width` steps in all."""
    steps = history.steps
    return [
        average(steps[max(0, i + 1 - width) : i + 1], lambda e: e.heldout)
        for i in range(len(steps))
    ]


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _clipped(value: float) -> float:
    return min(1.0, max(0.0, value))
