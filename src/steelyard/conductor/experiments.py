"""Decides by experiment why a task of a run is never solved.

The run's record stays as it is: what came of it is appended to experiments.jsonl beside it, so an
experiment can be made while the run goes on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from steelyard.agents import AgentSettings
from steelyard.conductor.checkpoints import last_checkpoint, model_of
from steelyard.conductor.evaluation import evaluate
from steelyard.conductor.listener import Listener
from steelyard.conductor.rollouts import Request, seed_of
from steelyard.conductor.settings import RunSettings
from steelyard.conductor.standalone import EvaluationPlan, settings_of_plan
from steelyard.conductor.verdicts import Graded, Played, judge
from steelyard.conductor.workshop import Workshop
from steelyard.engines import EngineSettings
from steelyard.episodes import Episode
from steelyard.grading import Grader
from steelyard.models import resolve
from steelyard.monitor.advice import advice
from steelyard.monitor.experiment_log import append_experiment
from steelyard.monitor.run_tasks import tasks_of_run
from steelyard.monitor.symptoms import of_episode
from steelyard.sandbox import SandboxSettings, check_available
from steelyard.store import RunReader
from steelyard.tasks import Task


@dataclass(frozen=True, slots=True)
class _Setting:
    """How the run played: what an experiment must repeat."""

    model: str
    agent: AgentSettings
    engine: EngineSettings
    sandbox: SandboxSettings
    seed: int
    group_size: int


def diagnose_task(
    run: Path, name: str, *, samples: int, policy: str | None, listener: Listener
) -> dict[str, Any]:
    """{task, verdict, certainty, why, next, graded, played, seconds, time}, after experiments.

    First the reference solution and the untouched files are graded with the run's verifier and
    held-out checks. If that does not settle it, `samples` episodes are played as the run plays
    them: with its latest checkpoint (its starting model where it has none), then with `policy`.

    Args:
        policy: another model: a directory, checkpoint, run, hub id or .gguf file.

    Raises:
        ValueError: the run, the task or a model is at fault; one sentence.
    """
    check_available()
    began = time.monotonic()
    with RunReader(run) as reader:
        task = _task(reader, name)
        config = reader.config()
        setting = _setting(config)
        own = str(run) if last_checkpoint(reader.directory) is not None else setting.model
        listener.phase(f"grading what is known of {name}", None)
        graded = _graded(task)
        played: list[Played] = []
        if judge(graded, (), setting.group_size) is None:
            players = [("the run's latest checkpoint", own)]
            players += [("the other policy", policy)] if policy is not None else []
            for who, model in players:
                played.append(_played(task, setting, who, model, samples, listener))
        decision = judge(graded, played, setting.group_size)
        assert decision is not None  # after playing there always is one
        result = {
            "task": name,
            "verdict": decision.verdict.value,
            "certainty": decision.certainty.value,
            "why": list(decision.why),
            "next": advice(decision.verdict, config),
            "graded": {what: outcome.as_json() for what, outcome in graded.items()},
            "played": [p.as_json() for p in played],
            "seconds": round(time.monotonic() - began, 1),
            "time": time.strftime("%Y-%m-%d %H:%M", time.gmtime()),
        }
        append_experiment(reader.directory, result)
    return result


def _task(reader: RunReader, name: str) -> Task:
    tasks = tasks_of_run(reader)
    if name in tasks:
        return tasks[name]
    if reader.episode_records(task=name):
        raise ValueError(
            f"task {name!r} of this run no longer lies where the run's configuration names it: put"
            " it back, or see what the record alone says with `steelyard show RUN diagnosis`"
        )
    raise ValueError(f"the run has no task {name!r}: `steelyard show RUN tasks` lists them")


def _setting(config: Mapping[str, Any]) -> _Setting:
    if "rl" not in config:
        plan = EvaluationPlan(**config)
        agent, engine = settings_of_plan(plan)
        return _Setting(plan.model, agent, engine, SandboxSettings(), plan.seed, plan.samples)
    try:
        s = RunSettings(**config)
    except ValidationError as error:
        raise ValueError(f"the run's configuration cannot be read: {error}") from None
    return _Setting(s.model.path, s.agent, s.engine, s.sandbox, s.run.seed, s.rl.episodes_per_group)


def _graded(task: Task) -> dict[str, Graded]:
    """`reference` (where there is one) and `untouched`, by verifier and held-out checks."""
    candidates: dict[str, Sequence[Mapping[str, bytes]]] = {"untouched": _untouched(task)}
    reference = _reference(task)
    if reference is not None:
        candidates["reference"] = reference
    with Grader() as grader:
        return {
            what: Graded(
                grader.grade_steps(task, states) if task.steps else grader.grade(task, states[-1]),
                grader.grade(task, states[-1], heldout=True) if task.heldout else None,
            )
            for what, states in candidates.items()
        }


def _untouched(task: Task) -> Sequence[Mapping[str, bytes]]:
    """The workspace after each step if nobody does anything, or an empty answer."""
    if task.answer is not None:
        return [{**task.files, task.answer.path: b""}]
    states, files = [], dict(task.files)
    for step in task.steps:
        files = {**files, **step.files}
        states.append(files)
    return states or [files]


def _reference(task: Task) -> Sequence[Mapping[str, bytes]] | None:
    """The workspace after each step as the reference leaves it; None without a reference."""
    if not task.steps:
        return None if task.solution is None else [{**task.files, **task.solution}]
    states, files = [], dict(task.files)
    for step in task.steps:
        if step.solution is None:
            return None
        files = {**files, **step.files, **step.solution}
        states.append(files)
    return states


def _played(
    task: Task, setting: _Setting, who: str, model: str, samples: int, listener: Listener
) -> Played:
    listener.phase("loading the model", None)
    workshop = Workshop(
        resolve(model_of(model)),
        agent=setting.agent,
        engine=setting.engine,
        sandbox=setting.sandbox,
        tasks=[task],
    )
    group = f"diagnose/{task.name}"
    requests = [
        Request(f"{group}/{i}", group, task, seed_of(setting.seed, "diagnose", task.name, i))
        for i in range(samples)
    ]
    try:
        listener.phase(f"playing {task.name} with {who}", samples)
        episodes = asyncio.run(evaluate(workshop.rollouts, requests, listener))
    finally:
        workshop.close()
    return Played(who, model, [of_episode(e) for e in episodes], _distinct(episodes))


def _distinct(episodes: Sequence[Episode]) -> int:
    """How many different final workspaces there are."""
    return len({json.dumps({p: d.hex() for p, d in sorted(e.files.items())}) for e in episodes})
