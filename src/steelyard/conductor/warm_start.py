"""Warm start: imitate the reference solutions before RL, so that some episode succeeds."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from steelyard.agents import AgentSettings, demonstrate, prune_task
from steelyard.conductor.context import RunContext
from steelyard.conductor.settings import WarmStartSection
from steelyard.conductor.workshop import Workshop
from steelyard.episodes import StopReason, Trajectory
from steelyard.learner import Batch, Learner, LearningRate, StepMetrics
from steelyard.objective import ALGORITHMS, Fixed, token_coefficients, token_loss
from steelyard.tasks import Task


async def demonstrations(
    tasks: Sequence[Task],
    workshop: Workshop,
    settings: AgentSettings,
    *,
    run_checks: bool,
    slips: Mapping[str, int] | None = None,
) -> list[Trajectory]:
    """The tasks' reference solutions, played through the turn loop; `slips` says by name how often
    each slips first.

    Raises:
        ValueError: a task without a reference, or whose demonstration does not fit the limits or
            does not reach the reference.
    """
    stop_id = workshop.model.turn_end_id
    trajectories: list[Trajectory] = []
    for task in tasks:
        played = await demonstrate(
            task,
            workshop.renderer,
            stop_id,
            workshop.encode,
            workshop.sandboxes,
            settings,
            run_checks=run_checks,
            slips=(slips or {}).get(task.name, 0),
        )
        if played.stop_reason is not StopReason.SUBMITTED:
            raise ValueError(
                f"task {task.name!r}: its demonstration ends as {played.stop_reason.value}; raise "
                "agent.max_turns, agent.max_turn_tokens or agent.max_episode_tokens"
            )
        found = prune_task(task, workshop.sandboxes.settings).files
        if dict(played.files) != {**found, **(task.solution or {})}:
            raise ValueError(
                f"task {task.name!r}: its demonstration does not reach the reference solution; "
                "check solution/files for what edits cannot express"
            )
        trajectories.append(played.trajectory)
    return trajectories


def choose_slips(tasks: Sequence[Task], fraction: float, seed: int) -> dict[str, int]:
    """So large a part of the tasks, chosen at random, by name: every other one slips twice."""
    names = [task.name for task in tasks]
    chosen = random.Random(f"slips {seed}").sample(names, round(fraction * len(names)))
    return {name: 1 + i % 2 for i, name in enumerate(chosen)}


def batches(
    trajectories: Sequence[Trajectory], settings: WarmStartSection, seed: int
) -> list[Batch]:
    """Every epoch's batches, each epoch in a new order that depends on the seed alone."""
    result: list[Batch] = []
    for epoch in range(settings.epochs):
        order = list(trajectories)
        random.Random(f"warm start {seed} {epoch}").shuffle(order)
        for start in range(0, len(order), settings.episodes_per_batch):
            part = order[start : start + settings.episodes_per_batch]
            result.append(Batch.from_trajectories(part))
    return result


def imitate(batch: Batch, learner: Learner, learning_rate: float) -> StepMetrics:
    """One step on −(1/T) Σ_t log π(token_t): assistant tokens, stop tokens included."""
    row = ALGORITHMS["sft"]
    fixed = Fixed(batch.tokens, torch.ones(len(batch)))

    def loss(logp_T: Tensor, index_T: Tensor) -> Tensor:
        return token_loss(logp_T, fixed.take(index_T), row).value_T

    weight_T = token_coefficients(batch.tokens, row.aggregate)
    return learner.step(batch, loss, weight_T, learning_rate=learning_rate)


async def warm_start(run: RunContext, section: WarmStartSection) -> None:
    """Plays the demonstrations and imitates every batch of them; the engine then has the policy."""
    run.listener.phase("warm start", n_batches(len(run.tasks.demonstrations), section))
    played = await demonstrations(
        run.tasks.demonstrations,
        run.workshop,
        run.settings.agent,
        run_checks=section.run_checks,
        slips=choose_slips(run.tasks.demonstrations, section.slip_fraction, run.settings.run.seed),
    )
    plan = batches(played, section, run.settings.run.seed)
    rate = rate_of(section, len(plan))
    for i, batch in enumerate(plan):
        metrics = await run.on_learner_thread(
            lambda batch=batch, i=i: imitate(batch, run.learner, rate.at(i))  # type: ignore[misc]
        )
        _record(run, i + 1, metrics)
    run.learner.forget_moments()
    await run.publish()


def _record(run: RunContext, number: int, metrics: StepMetrics) -> None:
    run.listener.advance(1)
    if metrics.skipped:
        run.notes.add(f"warm start batch {number} moved nothing: {metrics.skipped}")
    run.store.add_metrics(
        number,
        "warm_start",
        {
            "loss": metrics.loss,
            "grad_norm": metrics.grad_norm,
            "entropy": metrics.entropy_mean,
            "seconds_training": metrics.seconds,
            "tokens_trained": metrics.nodes,
            "tokens_unpacked": metrics.raw_tokens,
        },
        version=run.learner.steps_taken,
    )


def rate_of(settings: WarmStartSection, n: int) -> LearningRate:
    """The schedule of `n` batches."""
    return LearningRate(
        peak=settings.learning_rate,
        warmup_steps=min(settings.warmup_batches, n // 4),
        decay_steps=max(1, n),
        final_fraction=settings.final_learning_rate_fraction,
    )


def n_batches(n_demonstrations: int, settings: WarmStartSection) -> int:
    """How many optimiser steps the warm start takes."""
    return settings.epochs * -(-n_demonstrations // settings.episodes_per_batch)
