"""Groups for one update: sampled until enough of them carry a signal."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from steelyard.conductor.admission import capacity
from steelyard.conductor.rollouts import Rollouts, group_requests
from steelyard.conductor.settings import RLSection
from steelyard.curriculum import TaskOrder
from steelyard.episodes import Group, GroupVerdict
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

    With `dynamic` only mixed groups are used. The n-th group has the same task and seeds in every
    run of the same seed, so the count is all that a resumed run needs to know.
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
    ) -> None:
        self._rollouts = rollouts
        self._tasks = tasks
        self._settings = settings
        self._seed = seed
        self._order = TaskOrder([task.kind for task in tasks], seed)
        self._dynamic = dynamic
        self._left_out: frozenset[str] = frozenset()
        self.draws = draws

    async def collect(self, step: int, on_progress: Callable[[float], None]) -> Collected:
        """The groups for update `step` (from 1): whole groups only, failures included.

        With dynamic sampling a group that carries no signal is turned away and another is
        admitted in its place, up to `max_groups_per_step` in all; then the update learns from
        the mixed ones there are. Source: DAPO §3.2.
        """
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
                    running[self._start()] = started
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
        return Collected(groups, [group for group in groups if self._usable(group)])

    def leave_out(self, tasks: Collection[str]) -> bool:
        """Draws these tasks no more: their turns are passed over. False if no task is left."""
        self._left_out |= set(tasks)
        return any(task.name not in self._left_out for task in self._tasks)

    def seeds(self, group: Group) -> list[int]:
        """The seed of each episode of a group of this source."""
        task = next(task for task in self._tasks if task.name == group.task)
        size = self._settings.episodes_per_group
        return [request.seed for request in group_requests(task, group.id, size, self._seed)]

    def _start(self) -> asyncio.Task[Group]:
        while (task := self._tasks[self._order.draw(self.draws)]).name in self._left_out:
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
