"""What alarms read of a run: a few numbers of each training episode, step by step."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from steelyard.monitor.significance import FEWEST_UNITS, Unit
from steelyard.store import RunReader

_WINDOWS = (2, 8)
"""How many of the latest steps are compared with the reference: the short window sees a sudden
change, the long one a slow one."""
_RUNNING = 3
"""A bound that is exceeded for so many steps running is no outlier, and no accident either."""
_MOST_LOOKS = 50
"""A longer run is looked at in so many rounds, so that a look still has error to spend."""


@dataclass(frozen=True, slots=True)
class EpisodeFacts:
    """One training episode. `raw` and `heldout` are None where nothing was scored.

    `heldout_failed` says that held-out checks should have scored it and could not. `tokens` counts
    those that the policy sampled; `program` is equal for episodes of one process that left the same
    workspace; `group` is the sampling group.
    """

    id: str
    task: str
    kind: str
    raw: float | None
    heldout: float | None
    tokens: int
    components: Mapping[str, float]
    program: int
    group: str = ""
    heldout_failed: bool = False

    @property
    def gap(self) -> float | None:
        """1[raw ≥ 1] − 1[held-out ≥ 1]; None where one of the two is missing.

        Only full passes are compared: part of a reward says nothing against an all-or-nothing
        held-out verdict.
        """
        if self.raw is None or self.heldout is None:
            return None
        return float(self.raw >= 1.0) - float(self.heldout >= 1.0)

    @property
    def wrongly_accepted(self) -> float | None:
        """Of an episode that the verifier accepts in full: 1[held-out < 1]. None of others."""
        if self.raw is None or self.heldout is None or self.raw < 1.0:
            return None
        return float(self.heldout < 1.0)

    @property
    def truth(self) -> float | None:
        """The independent outcome: held-out checks, or, without any, what the verifier said.

        None where held-out checks failed to score it: the verifier's word would not be independent.
        """
        if self.heldout_failed:
            return None
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

    def running(self, broken: Callable[[StepFacts], bool]) -> bool:
        """Whether `broken` holds of each of the last three steps."""
        last = self.steps[-_RUNNING:]
        return len(last) == _RUNNING and all(broken(step) for step in last)

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

    @cached_property
    def cluster(self) -> Callable[[EpisodeFacts], Hashable]:
        """What the episodes of one step are averaged by: the task, or the group.

        Groups of one task in one step may have more in common than its difficulty, so they count
        once; but a run of few tasks would then have too few units to be tested at all.
        """
        visits = sum(len({e.task for e in step.episodes}) for step in self.reference)
        few = len(self.steps) >= self.reference_steps and visits < FEWEST_UNITS
        return _group if few else _task

    @cached_property
    def stratum(self) -> Callable[[EpisodeFacts], Hashable]:
        """By task where tasks come back often enough to be compared with themselves, else by
        kind."""
        visits = sum(len({self.cluster(e) for e in step.episodes}) for step in self.reference)
        tasks = {e.task for step in self.reference for e in step.episodes}
        return _task if visits >= 3 * len(tasks) else _kind

    def level(self, share: float) -> float:
        """What one comparison of one window may spend, of an alarm's `share`."""
        return share / self.looks / len(_WINDOWS)


def read_steps(reader: RunReader, after: int = 0) -> list[StepFacts]:
    """The RL steps later than `after`, as far as they are recorded."""
    steps = reader.query(
        "SELECT step FROM steps WHERE phase = 'rl' AND step > ? ORDER BY step", (after,)
    )
    # One step at a time: a query's rows hold the workspaces, and a whole run of them is too much.
    return [StepFacts(step, _episodes(reader, step), _metrics(reader, step)) for (step,) in steps]


def _episodes(reader: RunReader, step: int) -> tuple[EpisodeFacts, ...]:
    rows = reader.query(
        "SELECT id, task, kind, raw, heldout_reward, n_action_tokens, components, files, group_id,"
        " heldout_cause IS NOT NULL FROM episodes WHERE purpose = 'train' AND step = ?"
        " ORDER BY key",
        (step,),
    )
    return tuple(
        EpisodeFacts(
            name,
            task,
            kind,
            raw,
            heldout,
            tokens,
            json.loads(components) if components != "{}" else {},
            hash(files),
            group,
            bool(failed),
        )
        for name, task, kind, raw, heldout, tokens, components, files, group, failed in rows
    )


def _metrics(reader: RunReader, step: int) -> dict[str, float]:
    rows = reader.query("SELECT name, value FROM metrics WHERE phase = 'rl' AND step = ?", (step,))
    return {name: math.nan if value is None else value for name, value in rows}


def units(
    steps: Iterable[StepFacts], value: Callable[[EpisodeFacts], float | None], history: History
) -> list[Unit]:
    """One unit per cluster of a step: the mean of `value`, where it is not None."""
    return [
        Unit(history.stratum(some[0]), mean([v for e in some if (v := value(e)) is not None]))
        for some in clusters(steps, lambda e: value(e) is not None, history)
    ]


def clusters(
    steps: Iterable[StepFacts], kept: Callable[[EpisodeFacts], bool], history: History
) -> list[list[EpisodeFacts]]:
    """The episodes that are `kept`, by cluster of each step."""
    found: list[list[EpisodeFacts]] = []
    for step in steps:
        by_cluster: dict[Hashable, list[EpisodeFacts]] = defaultdict(list)
        for episode in step.episodes:
            if kept(episode):
                by_cluster[history.cluster(episode)].append(episode)
        found += by_cluster.values()
    return found


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


def _task(episode: EpisodeFacts) -> Hashable:
    return episode.task


def _group(episode: EpisodeFacts) -> Hashable:
    return episode.task, episode.group


def _kind(episode: EpisodeFacts) -> Hashable:
    return episode.kind


def mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _clipped(value: float) -> float:
    return min(1.0, max(0.0, value))
