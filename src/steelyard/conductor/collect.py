"""Groups for one update: sampled until enough of them carry a signal."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from steelyard.conductor.admission import capacity
from steelyard.conductor.rollouts import Rollouts, group_requests
from steelyard.conductor.settings import RLSection
from steelyard.curriculum import Seen, SignalOrder, TaskOrder
from steelyard.episodes import Group, GroupVerdict, Scored
from steelyard.tasks import Task


@dataclass(frozen=True, slots=True)
class Collected:
    """What one step sampled, in the order of admission; `used` entered the batch."""

    groups: list[Group]
    used: list[Group]


def next_draw(groups: Iterable[str]) -> int:
    """The number of the draw after those that gave the groups with these ids."""
    return max((int(group.removeprefix("g")) + 1 for group in groups), default=0)


class GroupSource:
    """Draws tasks and runs their groups; `draws` counts the draws since RL began.

    With `dynamic` only mixed groups are used. `draws` and what was `seen` at the steps before are
    all that a resumed run needs to know: the n-th group has the seeds of the n-th group, and its
    task follows from n, or with `task_order = "signal"` from what was seen.
    """

    def __init__(
        self,
        rollouts: Rollouts,
        tasks: Sequence[Task],
        settings: RLSection,
        seed: int,
        *,
        dynamic: bool,
        draws: int = 0,
        seen: Sequence[Seen] = (),
    ) -> None:
        self._rollouts = rollouts
        self._tasks = tasks
        self._settings = settings
        self._seed = seed
        kinds = [task.kind for task in tasks]
        self._order = (
            SignalOrder(kinds, settings.episodes_per_group, seed)
            if settings.task_order == "signal"
            else TaskOrder(kinds, seed)
        )
        self._seen = list(seen)
        self._dynamic = dynamic
        self._left_out: frozenset[str] = frozenset()
        self.draws = draws

    async def collect(self, step: int, on_progress: Callable[[float], None]) -> Collected:
        """The groups for update `step` (from 1): whole groups only, failures included.

        With dynamic sampling a group that carries no signal is turned away and another is
        admitted in its place, up to `max_groups_per_step` in all; then the update learns from
        the mixed ones there are. Source: DAPO §3.2.
        """
        upcoming = self._upcoming(step)
        running: dict[asyncio.Task[Group], int] = {}
        finished: dict[int, Group] = {}
        accepted = 0
        started = 0
        try:
            while True:
                free = capacity(
                    staleness=self._settings.staleness,
                    version=step - 1,
                    groups_per_step=self._settings.groups_per_step,
                    # Earlier updates that found too few mixed groups forfeited their slots.
                    accepted=(step - 1) * self._settings.groups_per_step + accepted,
                    running=len(running),
                )
                if self._rollouts.lockstep and running:
                    free = 0  # a wave is never joined half-way: that would depend on timing
                for _ in range(min(free, self._settings.sampled_groups_limit - started)):
                    running[self._start(upcoming)] = started
                    started += 1
                if not running:
                    break
                until = (
                    asyncio.ALL_COMPLETED if self._rollouts.lockstep else asyncio.FIRST_COMPLETED
                )
                done, _ = await asyncio.wait(running, return_when=until)
                for task in done:
                    group = task.result()
                    finished[running.pop(task)] = group
                    accepted += self._usable(group)
                    on_progress(
                        min(
                            1.0,
                            max(
                                accepted / self._settings.groups_per_step,
                                len(finished) / self._settings.sampled_groups_limit,
                            ),
                        )
                    )
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
        groups = [finished[i] for i in sorted(finished)]
        self._seen += [self._outcomes(step, group) for group in groups]
        return Collected(groups, [group for group in groups if self._usable(group)])

    def leave_out(self, tasks: Collection[str]) -> bool:
        """Draws these tasks no more: their turns are passed over. False if no task is left."""
        self._left_out |= set(tasks)
        return any(task.name not in self._left_out for task in self._tasks)

    def seeds(self, group: Group) -> list[int]:
        """The seed of each episode of a group of this source."""
        size = self._settings.episodes_per_group
        requests = group_requests(self._task_of(group), group.id, size, self._seed)
        return [request.seed for request in requests]

    def _upcoming(self, step: int) -> Iterator[int]:
        """Which tasks are next, by index, without end."""
        if isinstance(self._order, SignalOrder):
            return self._order.upcoming(step, self._seen, self._settings.groups_per_step)
        return map(self._order.draw, itertools.count(self.draws))

    def _outcomes(self, step: int, group: Group) -> Seen:
        raw = [e.outcome.raw if isinstance(e.outcome, Scored) else None for e in group.episodes]
        return Seen.of(step, self._task_of(group).kind, raw)

    def _task_of(self, group: Group) -> Task:
        return next(task for task in self._tasks if task.name == group.task)

    def _start(self, upcoming: Iterator[int]) -> asyncio.Task[Group]:
        while (task := self._tasks[next(upcoming)]).name in self._left_out:
            self.draws += 1
        requests = group_requests(
            task, f"g{self.draws}", self._settings.episodes_per_group, self._seed
        )
        self.draws += 1
        return asyncio.create_task(self._rollouts.group(requests))

    def _usable(self, group: Group) -> bool:
        if self._dynamic:
            return group.verdict is GroupVerdict.MIXED
        return group.verdict is not GroupVerdict.UNSCORED
