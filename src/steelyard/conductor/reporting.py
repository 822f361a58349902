"""What is reported and recorded of a step."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Sequence
from typing import Any

from steelyard.conductor.collect import Collected
from steelyard.conductor.figures import token_figures
from steelyard.conductor.listener import StepReport
from steelyard.conductor.update import Update
from steelyard.episodes import GroupVerdict, Scored, Unscored
from steelyard.monitor.statistics import clustered_interval


def step_report(
    step: int,
    collected: Collected,
    result: Update | None,
    *,
    seconds: dict[str, float],
    sampled: int,
    sampling_rate: float | None,
    staleness: float | None,
) -> StepReport:
    """What a step sampled, learned and cost."""
    scored = [
        (e.outcome, e.task)
        for g in collected.groups
        for e in g.episodes
        if isinstance(e.outcome, Scored)
    ]
    raw = [outcome.raw for outcome, _ in scored]
    metrics = result.metrics if result is not None else None
    return StepReport(
        step=step,
        reward_mean=_mean(raw) if raw else None,
        reward_interval=_interval(raw, [task for _, task in scored]),
        solved=sum(outcome.solved for outcome, _ in scored),
        scored=len(scored),
        unscored=Counter(
            e.outcome.cause.value
            for g in collected.groups
            for e in g.episodes
            if isinstance(e.outcome, Unscored)
        ),
        groups={v: sum(g.verdict is v for g in collected.groups) for v in GroupVerdict},
        entropy=metrics.entropy_mean if metrics else None,
        sampling_tokens_per_second=sampling_rate,
        training_tokens_per_second=metrics.raw_tokens / metrics.seconds if metrics else None,
        seconds=seconds,
        staleness=staleness,
        tokens_sampled=sampled,
        tokens_trained=metrics.nodes if metrics else 0,
        peak_memory_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        **_truth(collected),
        **_cost(collected),
    )


def _interval(raw: Sequence[float], tasks: Sequence[str]) -> tuple[float, float] | None:
    if not raw or min(raw) < 0.0 or max(raw) > 1.0:
        return None
    return clustered_interval(raw, tasks)


def _truth(collected: Collected) -> dict[str, Any]:
    """What the verifier and the held-out checks say of the episodes that both could score."""
    both = [
        (e.outcome.raw, e.heldout.raw)
        for g in collected.groups
        for e in g.episodes
        if isinstance(e.outcome, Scored) and isinstance(e.heldout, Scored)
    ]
    return {
        "paid_mean": _mean([paid for paid, _ in both]) if both else None,
        "heldout_mean": _mean([accepted for _, accepted in both]) if both else None,
        "heldout_scored": len(both),
    }


def _cost(collected: Collected) -> dict[str, Any]:
    episodes = [e for g in collected.groups for e in g.episodes]
    calls = [call for e in episodes for turn in e.trajectory.turns for call in turn.calls]
    return {
        "calls": len(calls),
        "call_errors": sum(call.error for call in calls),
        "cut": sum(e.truncated for e in episodes),
    }


def update_metrics(result: Update | None) -> dict[str, float | None]:
    """What else is known of an update, for the record."""
    if result is None:
        return {"updated": 0.0}
    return {
        "updated": float(not result.metrics.skipped),
        "loss": result.metrics.loss,
        "grad_norm": result.metrics.grad_norm,
        "tokens_unpacked": result.metrics.raw_tokens,
        **result.measures,
        **token_figures(result),
    }


def reward_parts(collected: Collected) -> dict[str, float | None]:
    """Means over the step's scored episodes of what shaping did, part by part; empty without it.

    `reward_shaped_mean` is what training saw, `component_NAME_mean` each part of it, and
    `potential_mean` the potential of the state before the last turn.
    """
    episodes = [e for g in collected.groups for e in g.episodes]
    scored = [e.outcome for e in episodes if isinstance(e.outcome, Scored)]
    parts: dict[str, float | None] = {}
    if any(outcome.components for outcome in scored):
        parts["reward_shaped_mean"] = _mean([outcome.reward for outcome in scored])
        for name in sorted({name for outcome in scored for name in outcome.components}):
            values = [outcome.components.get(name, 0.0) for outcome in scored]
            parts[f"component_{name}_mean"] = _mean(values)
    potentials = [e.potentials[-1] for e in episodes if e.potentials]
    return parts | ({"potential_mean": _mean(potentials)} if potentials else {})


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def grading_seconds(collected: Collected) -> float:
    """Seconds that graders worked; they overlap with sampling."""
    return sum(e.seconds.get("grading", 0.0) for g in collected.groups for e in g.episodes)
