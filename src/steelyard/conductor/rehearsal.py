"""Rehearsal: imitation beside RL, so that what seldom succeeds is not unlearned.

An all-fail group carries no gradient, while the other groups' updates move the same weights on:
what the policy could do there now and then is lost. One step of imitation after each update,

    −(1/T) Σ_t log π(token_t)    over the references of the all-fail groups' tasks, and others,

holds it. The others make the batch even over the kinds of tasks: a step on one lone reference
would itself draw every kind towards that reference (measured: three kinds dead after one step).
Source: ReLIFT (arXiv:2506.07527), which interleaves fine-tuning on the hardest questions; a
likelihood beside RL, there of pretraining text, is InstructGPT's PPO-ptx (arXiv:2203.02155, eq. 2).
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence

from steelyard.agents import AgentSettings
from steelyard.conductor.warm_start import demonstrations
from steelyard.conductor.workshop import Workshop
from steelyard.episodes import Group, GroupVerdict, Trajectory
from steelyard.learner import Batch
from steelyard.tasks import Task


class Rehearsal:
    """Chooses what is imitated; every reference is played when it is first needed.

    Args:
        train: the tasks of the groups.
        others: what the batch is filled with, up to `size` tasks.
        on_note: hears which reference cannot be played within the agent's limits, and is left out.

    Raises:
        ValueError: no task has a reference solution.
    """

    def __init__(
        self,
        train: Sequence[Task],
        others: Sequence[Task],
        size: int,
        seed: int,
        workshop: Workshop,
        agent: AgentSettings,
        *,
        run_checks: bool,
        on_note: Callable[[str], None],
    ) -> None:
        self._train = {task.name: task for task in train if task.solution is not None}
        self._others = [task for task in others if task.solution is not None]
        if not self._train and not self._others:
            raise ValueError(
                "rl.rehearsal_rate_fraction: no task has a reference solution to imitate; add "
                "solution/ to some, or set it to 0"
            )
        self._size = size
        self._seed = seed
        self._workshop = workshop
        self._agent = agent
        self._run_checks = run_checks
        self._on_note = on_note
        self._played: dict[str, Trajectory | None] = {}

    async def batch(self, step: int, groups: Sequence[Group]) -> Batch | None:
        """What step `step` imitates, having sampled `groups`; None if nothing can be played."""
        failed = [self._train[name] for name in failed_tasks(groups) if name in self._train]
        draw = random.Random(f"rehearsal {self._seed} {step}")
        tasks = evened(failed, self._others, self._size, draw)
        played = [await self._reference(task) for task in tasks]
        playable = [trajectory for trajectory in played if trajectory is not None]
        return Batch.from_trajectories(playable) if playable else None

    async def _reference(self, task: Task) -> Trajectory | None:
        if task.name not in self._played:
            try:
                (self._played[task.name],) = await demonstrations(
                    [task], self._workshop, self._agent, run_checks=self._run_checks
                )
            except ValueError as error:
                self._played[task.name] = None
                self._on_note(f"not rehearsed: {error}")
        return self._played[task.name]


def failed_tasks(groups: Sequence[Group]) -> list[str]:
    """The tasks whose group was all-fail by the verifier, each once, in order."""
    return list(dict.fromkeys(g.task for g in groups if g.verdict is GroupVerdict.ALL_FAIL))


def evened(
    tasks: Sequence[Task], others: Sequence[Task], size: int, draw: random.Random
) -> list[Task]:
    """`tasks`, and so many of `others` that there are `size`, if there are enough: each of a kind
    of which there are fewest so far, chosen at random."""
    chosen = list(tasks)
    names = {task.name for task in chosen}
    left = [task for task in others if task.name not in names]
    draw.shuffle(left)
    count = Counter(task.kind for task in chosen)
    while left and len(chosen) < size:
        task = min(left, key=lambda t: count[t.kind])
        left.remove(task)
        chosen.append(task)
        count[task.kind] += 1
    return chosen
