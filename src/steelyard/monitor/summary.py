"""The summary of a run: before and after, step by step, and what it cost."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from steelyard.episodes import GroupVerdict
from steelyard.monitor.kinds import kinds_at_zero
from steelyard.monitor.outcomes import outcome_counts
from steelyard.monitor.scores import (
    Json,
    evaluation_tallies,
    headline,
    rate_over_tasks,
    score,
)
from steelyard.store import (
    EpisodeRecord,
    EvaluationRecord,
    Event,
    RunReader,
    StepRecord,
    TrainingRewards,
    lookup,
)

HEADLINES = ("base", "warm_start", "final")
_SECONDS = "seconds_"
WITHIN_SAMPLING = ("grading", "engine")
"""Parts of a step that pass while its episodes are sampled: they add nothing to its wall time."""
_BEGINNINGS = ("started", "resumed")
_ENDS = ("finished", "interrupted", "failed")

_PURPOSES = {"training": "train", "evaluation": "eval"}

Pair: TypeAlias = tuple[str, str]


def summary(reader: RunReader) -> Json:
    """Name, state and model; `base`, `warm_start` and `final` as far as they exist; the rest.

    Metrics that it reads of each step, where the conductor recorded them: `entropy`,
    `sampling_tokens_per_second`, `training_tokens_per_second`, `tokens_trained`,
    `peak_memory_bytes`, `staleness`, `engine_waiting_seconds`, `learner_waiting_seconds`, and every
    `seconds_PART`; the parts `grading` and `engine` pass within `sampling`. `paired` of a step
    compares training and held-out checks.
    """
    meta, events = reader.meta(), reader.events()
    evaluations, rl = reader.evaluations(), reader.steps("rl")
    headlines = {name: found for name in HEADLINES if (found := headline(evaluations, name))}
    steps, rates = _steps(reader, rl), _evaluations(reader, evaluations)
    endings = lookup.ending_counts(reader)
    return {
        "name": meta["name"],
        "state": state(reader, events),
        "model": meta["model"],
        "created": meta["created"],
        "steelyard": meta["steelyard"],
        "run_directory": str(reader.directory.path),
        **{name: score(reader, found) for name, found in headlines.items()},
        "evaluations": rates,
        "unseen": [e for e in rates if e["split"] == "dev"],
        "groups_with_signal": sum(s["groups"]["mixed"] for s in steps),
        "groups": sum(sum(s["groups"].values()) for s in steps),
        "steps": steps,
        "outcomes": outcome_counts(endings),
        "kinds_at_zero": kinds_at_zero(reader, headlines["final"]) if "final" in headlines else {},
        "cost": _cost(reader, events, rl, evaluations, endings),
        "checkpoints": [
            str(reader.directory.checkpoint(s)) for s in reader.directory.checkpoint_steps()
        ],
    }


def state(reader: RunReader, events: Iterable[Event]) -> str:
    """running, finished, interrupted, failed, or killed: begun, and nobody writes it any more."""
    last = [e.kind for e in events if e.kind in (*_BEGINNINGS, *_ENDS)][-1]
    if last in _ENDS:
        return last
    return "running" if reader.is_live() else "killed"


def before_and_after(reader: RunReader) -> Pair | None:
    """The ids of one episode before training and one after, of the same task if any will do.

    Before: a failure of the base model (of the warm start, if the base was not evaluated).
    After: a success of the final policy. None where the record has no such pair.
    """
    after = [e for e in _episodes(reader, "final") if e.solved]
    before = [
        e for e in _episodes(reader, "base") or _episodes(reader, "warm_start") if e.solved is False
    ]
    failed_first = {e.task: e for e in reversed(before)}
    for episode in after:
        if episode.task in failed_first:
            return failed_first[episode.task].id, episode.id
    return (before[0].id, after[0].id) if before and after else None


def _episodes(reader: RunReader, name: str) -> list[EpisodeRecord]:
    record = headline(reader.evaluations(), name)
    if record is None:
        return []
    found = reader.episode_records(evaluation=name)
    return [e for e in found if e.split == record.split]


def _evaluations(reader: RunReader, evaluations: Sequence[EvaluationRecord]) -> list[Json]:
    tallies = evaluation_tallies(reader)
    return [
        {
            "name": e.name,
            "split": e.split,
            "step": e.step,
            **rate_over_tasks(tallies.get((e.name, e.split), {})),
        }
        for e in evaluations
    ]


def _steps(reader: RunReader, rl: Sequence[StepRecord]) -> list[Json]:
    verdicts = reader.group_verdicts()
    rewards = reader.training_rewards()
    metrics = {record.step: record for record in rl}
    none = {verdict.value: 0 for verdict in GroupVerdict}
    steps = []
    for step in sorted({*verdicts, *metrics}):
        values = metrics[step].values if step in metrics else {}
        seconds = _seconds(metrics[step]) if step in metrics else {}
        found = rewards.get(step)
        steps.append(
            {
                "step": step,
                "version": metrics[step].version if step in metrics else None,
                "reward_mean": found.raw if found else None,
                "paired": _paired(found),
                "reward_shaped_mean": values.get("reward_shaped_mean"),
                "components": _components(values),
                "solved": found.tally.solved if found else 0,
                "scored": found.tally.n if found else 0,
                "groups": verdicts.get(step, none),
                "entropy": values.get("entropy"),
                "staleness": values.get("staleness"),
                "tokens_per_second": {
                    "sampling": values.get("sampling_tokens_per_second"),
                    "training": values.get("training_tokens_per_second"),
                },
                "waiting_seconds": {
                    "engine": values.get("engine_waiting_seconds"),
                    "learner": values.get("learner_waiting_seconds"),
                },
                "seconds": seconds,
                "seconds_total": _wall_seconds(seconds) if seconds else None,
            }
        )
    return steps


def _paired(found: TrainingRewards | None) -> Json:
    """Training and held-out checks on the same episodes: the shares that pass, of `n`."""
    n = found.paired if found else 0
    return {
        "training": found.paired_passed / n if found and n else None,
        "heldout": found.paired_heldout / n if found and n else None,
        "n": n,
    }


def _components(values: Mapping[str, float]) -> dict[str, float]:
    """The parts of a shaped reward by name."""
    return {
        name.removeprefix("component_").removesuffix("_mean"): value
        for name, value in values.items()
        if name.startswith("component_")
    }


def _seconds(record: StepRecord) -> dict[str, float]:
    return {
        name.removeprefix(_SECONDS): value
        for name, value in record.values.items()
        if name.startswith(_SECONDS)
    }


def _wall_seconds(seconds: Mapping[str, float]) -> float:
    return sum(value for part, value in seconds.items() if part not in WITHIN_SAMPLING)


def _cost(
    reader: RunReader,
    events: Sequence[Event],
    rl: Sequence[StepRecord],
    evaluations: Sequence[EvaluationRecord],
    endings: Mapping[lookup.Ending, int],
) -> Json:
    warm_start, tokens = reader.steps("warm_start"), lookup.tokens_sampled(reader)
    seconds: dict[str, float] = defaultdict(float)
    for record in warm_start:
        seconds["warm_start"] += _wall_seconds(_seconds(record))
    for record in rl:
        for part, value in _seconds(record).items():
            seconds[part] += value
    seconds["evaluation"] += sum(e.seconds or 0.0 for e in evaluations)
    moments = [e.time for e in evaluations] + [s.time for s in (*warm_start, *rl)]
    peaks = [v for s in (*warm_start, *rl) if (v := s.values.get("peak_memory_bytes"))]
    return {
        "seconds": {k: v for k, v in seconds.items() if k not in WITHIN_SAMPLING},
        "seconds_within_sampling": {k: v for k, v in seconds.items() if k in WITHIN_SAMPLING},
        "seconds_total": _seconds_at_work(events, moments),
        "episodes": {
            name: sum(n for e, n in endings.items() if e.purpose == purpose)
            for name, purpose in _PURPOSES.items()
        },
        "tokens_sampled": {name: tokens.get(purpose, 0) for name, purpose in _PURPOSES.items()},
        "tokens_trained": {
            phase: sum(r.values.get("tokens_trained", 0.0) for r in record)
            for phase, record in (("warm_start", warm_start), ("rl", rl))
        },
        "peak_memory_bytes": max(peaks, default=None),
    }


def _seconds_at_work(events: Sequence[Event], moments: Sequence[float]) -> float:
    """Wall time from each start or continuation to the last sign of life before the next."""
    signs = sorted([*moments, *(e.time for e in events)])
    starts = [e.time for e in events if e.kind in _BEGINNINGS]
    ends = [*starts[1:], math.inf]
    return sum(
        max(t for t in signs if start <= t and (t < end or t == start)) - start
        for start, end in zip(starts, ends, strict=True)
    )
