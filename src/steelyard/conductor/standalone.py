"""Evaluating a model outside a training run."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from steelyard.agents import AgentSettings
from steelyard.conductor.checkpoints import model_of
from steelyard.conductor.evaluation import evaluate, evaluation_requests, tallies
from steelyard.conductor.listener import Listener
from steelyard.conductor.workshop import Workshop
from steelyard.engines import EngineSettings
from steelyard.episodes import Episode, Unscored, outcome_kind
from steelyard.models import resolve
from steelyard.monitor.scores import rate_over_tasks
from steelyard.sandbox import SandboxSettings, check_available
from steelyard.store import BASE_STEP, RunStore
from steelyard.tasks import load_tasks


@dataclass(frozen=True, slots=True)
class EvaluationPlan:
    """What to evaluate: a model on tasks, `samples` episodes each."""

    tasks: str
    model: str
    reward: str | None = None
    samples: int = 1
    temperature: float = 1.0
    max_turn_tokens: int = 128
    max_turns: int = 6
    seed: int = 0
    limit: int | None = None


def evaluate_model(plan: EvaluationPlan, listener: Listener, out: Path | None) -> dict[str, Any]:
    """pass@1 of the scored episodes with a 95 % interval clustered by task, overall and by kind.

    With `out`, a new run directory keeps every episode.

    Raises:
        ValueError: the tasks or the model are at fault, or `out` already holds a run.
    """
    check_available()
    tasks = load_tasks(plan.tasks, reward=plan.reward)
    tasks = tasks[: plan.limit]
    listener.phase("loading the model", None)
    model = resolve(model_of(plan.model))
    store = RunStore.start(out, asdict(plan), model=model.name) if out is not None else None
    began = time.monotonic()
    try:
        agent, engine = settings_of_plan(plan)
        workshop = Workshop(
            model,
            agent=agent,
            engine=engine,
            sandbox=SandboxSettings(),
            tasks=tasks,
        )
        try:
            requests = evaluation_requests("eval", "test", tasks, plan.samples, plan.seed)
            listener.phase(f"evaluating {plan.tasks}", len(requests))
            episodes = asyncio.run(evaluate(workshop.rollouts, requests, listener))
        finally:
            workshop.close()
        seconds = time.monotonic() - began
        if store is not None:
            store.add_evaluation("eval", BASE_STEP, "test", episodes, seconds=seconds)
            store.finish("finished")
    except BaseException as error:
        if store is not None:
            stopped = isinstance(error, KeyboardInterrupt)
            store.finish("interrupted" if stopped else "failed", str(error))
        raise
    return _result(plan, episodes, seconds)


def settings_of_plan(plan: EvaluationPlan) -> tuple[AgentSettings, EngineSettings]:
    """How a plan's episodes are played."""
    tokens = 1024 + plan.max_turns * plan.max_turn_tokens
    agent = AgentSettings(
        max_turn_tokens=plan.max_turn_tokens, max_turns=plan.max_turns, max_episode_tokens=tokens
    )
    return agent, EngineSettings(temperature=plan.temperature, max_context_tokens=tokens)


def _result(plan: EvaluationPlan, episodes: list[Episode], seconds: float) -> dict[str, Any]:
    by_kind = {
        kind: tallies([e for e in episodes if e.kind == kind], lambda episode: episode.task)
        for kind in sorted({e.kind for e in episodes})
    }
    outcomes = [o for e in episodes for o in (e.outcome, e.heldout)]
    return {
        "model": plan.model,
        "tasks": plan.tasks,
        **rate_over_tasks(tallies(episodes, lambda episode: episode.task)),
        "by_kind": {kind: rate_over_tasks(tasks) for kind, tasks in by_kind.items()},
        "causes": dict(Counter(o.cause.value for o in outcomes if isinstance(o, Unscored))),
        "outcomes": dict(Counter(outcome_kind(e.outcome, e.stop_reason).value for e in episodes)),
        "stop_reasons": dict(Counter(e.stop_reason.value for e in episodes)),
        "seconds": round(seconds, 1),
    }
