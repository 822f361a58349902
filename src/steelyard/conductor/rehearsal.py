"""Rehearsal: imitate the references of the tasks that no episode of a step solved.

An all-fail group carries no gradient, while the other groups' updates move the same weights on:
what the policy could do there now and then is lost. One step of imitation after the update,

    −(1/T) Σ_t log π(token_t)    over the references of the all-fail groups' tasks,

holds it. Source: ReLIFT (arXiv:2506.07527), which interleaves fine-tuning on the hardest questions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from steelyard.agents import AgentSettings
from steelyard.conductor.warm_start import demonstrations
from steelyard.conductor.workshop import Workshop
from steelyard.episodes import Group, GroupVerdict, Trajectory
from steelyard.learner import Batch
from steelyard.tasks import Task


class Rehearsal:
    """The training tasks' reference solutions as trajectories, each played when first needed.

    Raises:
        ValueError: no task has a reference solution.
    """

    def __init__(
        self, tasks: Sequence[Task], workshop: Workshop, agent: AgentSettings, *, run_checks: bool
    ) -> None:
        self._tasks = {task.name: task for task in tasks if task.solution is not None}
        if not self._tasks:
            raise ValueError(
                "rl.rehearsal_rate_fraction: no training task has a reference solution to imitate; "
                "add solution/ to some, or set it to 0"
            )
        self._workshop = workshop
        self._agent = agent
        self._run_checks = run_checks
        self._played: dict[str, list[Trajectory]] = {}

    async def batch(self, groups: Sequence[Group], on_note: Callable[[str], None]) -> Batch | None:
        """The references of the all-fail groups' tasks, each once; None where there is none.

        One that cannot be played within the agent's limits is left out, and `on_note` hears why.
        """
        played: list[Trajectory] = []
        for name in failed_tasks(groups):
            try:
                played += await self._reference(name)
            except ValueError as error:
                del self._tasks[name]
                on_note(f"not rehearsed: {error}")
        return Batch.from_trajectories(played) if played else None

    async def _reference(self, name: str) -> list[Trajectory]:
        """The task's reference, played now or before; empty if it has none."""
        if name in self._tasks and name not in self._played:
            self._played[name] = await demonstrations(
                [self._tasks[name]], self._workshop, self._agent, run_checks=self._run_checks
            )
        return self._played.get(name, [])


def failed_tasks(groups: Sequence[Group]) -> list[str]:
    """The tasks whose group was all-fail by the verifier, each once, in order."""
    return list(dict.fromkeys(g.task for g in groups if g.verdict is GroupVerdict.ALL_FAIL))
