"""The reward of a multi-step task from what its steps left."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from steelyard.episodes import Check, Outcome, Scored, Unscored
from steelyard.grading.test_script import rewards_of
from steelyard.tasks.task import Task, TaskStep

GradeStep: TypeAlias = Callable[[TaskStep, Mapping[str, bytes]], Outcome]


def as_task(task: Task, step: TaskStep) -> Task:
    """A step as a task of its own, in the environment of its task."""
    return replace(
        task,
        instruction=step.instruction,
        verifier=step.verifier,
        handover=step.handover,
        agent_timeout_seconds=step.agent_timeout_seconds,
        verifier_timeout_seconds=step.verifier_timeout_seconds,
        steps=(),
    )


def grade_in_turn(
    task: Task, workspaces: Sequence[Mapping[str, bytes]], grade: GradeStep
) -> Outcome:
    """Grades each step's workspace until one earns less than its `min_reward`.

    The reward is, by the task's `step_reward`, the mean over the steps up to there or the reward
    of the last of them, as in Harbor. A step that was due and that the agent never finished earned
    0. Checks are named STEP/CHECK, and each step's reward is the check STEP, passed at 1. An
    Unscored step leaves the task Unscored: Harbor would leave it out of the mean.
    """
    rewards: list[float] = []
    checks: list[Check] = []
    for index, step in enumerate(task.steps):
        finished = index < len(workspaces)
        outcome = grade(step, workspaces[index]) if finished else Scored(0.0)
        if isinstance(outcome, Unscored):
            return Unscored(outcome.cause, f"step {step.name}: {outcome.detail}")
        shown = f"{outcome.reward:g}" if finished else "never finished"
        rewards.append(outcome.reward)
        checks.append(Check(step.name, outcome.solved, shown))
        checks += [replace(c, name=f"{step.name}/{c.name}") for c in outcome.checks]
        if finished and _is_below(outcome, step.min_reward):
            break
    if task.step_reward == "final":
        return Scored(rewards[-1], tuple(checks))
    return Scored(sum(rewards) / len(rewards), tuple(checks))


def _is_below(outcome: Scored, least: Mapping[str, float]) -> bool:
    """As in Harbor, a key that the step did not report is below every threshold."""
    rewards = rewards_of(outcome)
    return any(rewards.get(key, float("-inf")) < value for key, value in least.items())
