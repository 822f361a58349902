"""The evaluations of a training run: each played once, recorded, told of, and scanned."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from steelyard.conductor.context import RunContext
from steelyard.conductor.evaluation import evaluate, evaluation_report, evaluation_requests
from steelyard.store import RunReader


async def measure(
    run: RunContext,
    name: str,
    step: int,
    split: Literal["dev", "test"],
    policy_step: int | None = None,
) -> None:
    """Evaluates the present policy, unless that is recorded or it is no longer there.

    `policy_step` is the step of the present policy, where that may be later than `step`.
    """
    tasks = run.tasks.dev if split == "dev" else run.tasks.test
    if not tasks or (policy_step is not None and policy_step > step):
        return
    with RunReader(run.settings.path) as reader:
        if any(e.name == name for e in reader.evaluations(split)):
            return
    section = run.settings.evaluation
    samples = section.dev_samples
    if split == "test":
        samples = section.test_samples if name == "final" else section.baseline_samples
    requests = evaluation_requests(name, split, tasks, samples, run.settings.run.seed)
    run.listener.phase(f"evaluating on {split} ({name})", len(requests))
    began = time.monotonic()
    episodes = await evaluate(run.workshop.rollouts, requests, run.listener)
    run.store.add_evaluation(
        name,
        step,
        split,
        episodes,
        seeds=[r.seed for r in requests],
        seconds=time.monotonic() - began,
    )
    run.listener.evaluation(evaluation_report(name, split, episodes))
    await asyncio.to_thread(run.shortcuts.scan, f"the evaluation {name}")


async def measure_finally(run: RunContext, step: int) -> None:
    """The headline: on test tasks, or on dev tasks where the run has no others."""
    await measure(run, "final", step, "test" if run.tasks.test else "dev")
