"""Every view of a run: a function from its record to a JSON-able dict.

`steelyard show RUN VIEW --json` prints what these functions return; the other front ends draw it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from steelyard.episodes import Check, Outcome, Scored
from steelyard.monitor.diagnosis import diagnose
from steelyard.monitor.outcomes import outcome_rows
from steelyard.monitor.scanners import read_findings
from steelyard.monitor.scores import Json, rate
from steelyard.monitor.signals import signals
from steelyard.monitor.summary import summary
from steelyard.store import EpisodeRecord, RunReader, StepRecord, Tally


def view(reader: RunReader, name: str, ids: Sequence[str] = ()) -> Json:
    """The view called `name` at one moment of the run, narrowed to `ids` where it can be.

    Raises: ValueError, one sentence, for an unknown view or id.
    """
    if name not in VIEWS:
        raise ValueError(f"there is no view {name!r}: choose one of {', '.join(VIEWS)}")
    with reader.snapshot():
        return _plain(VIEWS[name](reader, ids))  # type: ignore[no-any-return]


def _summary(reader: RunReader, ids: Sequence[str]) -> Json:
    if ids:
        raise ValueError(f"the view summary takes no ids, got {', '.join(ids)}")
    return summary(reader)


def _signals(reader: RunReader, ids: Sequence[str]) -> Json:
    """Training reward, independent success, and cost, side by side. ids: none."""
    if ids:
        raise ValueError(f"the view signals takes no ids, got {', '.join(ids)}")
    return signals(reader)


def _alarms(reader: RunReader, ids: Sequence[str]) -> Json:
    """What alarms were raised, with their evidence and episodes. ids: names of alarms."""
    alarms = [{"step": e.step, "text": e.text, **e.data} for e in reader.events("alarm")]
    _require_known("alarm", ids, {a["name"] for a in alarms})
    rollbacks = [{"text": e.text, **e.data} for e in reader.events("rollback")]
    return {"alarms": [a for a in alarms if not ids or a["name"] in ids], "rollbacks": rollbacks}


def _tasks(reader: RunReader, ids: Sequence[str]) -> Json:
    """Per task: how often it was solved in training and in each evaluation. ids: task names."""
    by_task: dict[str, list[EpisodeRecord]] = defaultdict(list)
    for record in reader.episode_records():
        by_task[record.task].append(record)
    _require_known("task", ids, by_task)
    return {"tasks": [_task(name, by_task[name]) for name in ids or by_task]}


def _task(name: str, records: Sequence[EpisodeRecord]) -> Json:
    training = [r for r in records if r.purpose == "train"]
    evaluations: dict[str, list[EpisodeRecord]] = defaultdict(list)
    for record in records:
        if record.evaluation is not None:
            evaluations[record.evaluation].append(record)
    return {
        "task": name,
        "kind": records[0].kind,
        "split": records[0].split,
        "training": rate(_tally(training)) if training else None,
        "groups": len({r.group for r in training}),
        "evaluations": {e: rate(_tally(found)) for e, found in evaluations.items()},
    }


def _groups(reader: RunReader, ids: Sequence[str]) -> Json:
    """Training groups. ids: group ids, task names or step numbers."""
    groups = reader.groups()
    names = {name for g in groups for name in (g.id, g.task, str(g.step))}
    _require_known("group, task or step", ids, names)
    chosen = [g for g in groups if not ids or {g.id, g.task, str(g.step)} & set(ids)]
    return {"groups": [asdict(g) for g in chosen]}


def _episodes(reader: RunReader, ids: Sequence[str]) -> Json:
    """Episodes without their turns. ids: episode ids, group ids, task or evaluation names."""
    return {"episodes": [asdict(r) for r in _chosen(reader, ids)]}


def _outcomes(reader: RunReader, ids: Sequence[str]) -> Json:
    """Episodes counted by outcome. ids: episode ids, group ids, task or evaluation names."""
    return {"outcomes": outcome_rows(_chosen(reader, ids))}


def _chosen(reader: RunReader, ids: Sequence[str]) -> list[EpisodeRecord]:
    records = reader.episode_records()
    names = {name for r in records for name in _names(r)}
    _require_known("episode, group, task or evaluation", ids, names)
    return [r for r in records if not ids or _names(r) & set(ids)]


def _names(record: EpisodeRecord) -> set[str | None]:
    return {record.id, record.group, record.task, record.evaluation}


def _episode(reader: RunReader, ids: Sequence[str]) -> Json:
    """Whole episodes: turns with calls, outcome, checks, files. ids: one or more episode ids."""
    if not ids:
        raise ValueError("the view episode needs the id of an episode: `episodes` lists them")
    return {"episodes": [episode(reader, episode_id) for episode_id in ids]}


def episode(reader: RunReader, episode_id: str) -> Json:
    """One whole episode. Raises: ValueError for an unknown id."""
    records = reader.episode_records(ids=[episode_id])
    if not records:
        raise ValueError(f"the run has no episode {episode_id!r}: the view episodes lists them")
    found = reader.episode(episode_id)
    return {
        **asdict(records[0]),
        "turns": [asdict(turn) for turn in found.trajectory.turns],
        "segments": [
            {
                "tokens": len(segment),
                "action_tokens": segment.n_action_tokens,
                "parent": segment.parent,
                "fork_position": segment.fork_position,
                "versions": sorted(
                    {v for v, a in zip(segment.version, segment.action_mask, strict=True) if a}
                ),
            }
            for segment in found.trajectory.segments
        ],
        "checks": _checks(found.outcome),
        "heldout_checks": _checks(found.heldout),
        "files": {name: data.decode("utf-8", "replace") for name, data in found.files.items()},
    }


def _checks(outcome: Outcome | None) -> list[Json]:
    checks: Sequence[Check] = outcome.checks if isinstance(outcome, Scored) else ()
    return [asdict(check) for check in checks]


def _config(reader: RunReader, ids: Sequence[str]) -> Json:
    """The configuration. ids: dotted keys, such as `rl.group_size`."""
    config = reader.config()
    if not ids:
        return {"config": config}
    return {"config": {key: _descend(config, key) for key in ids}}


def _descend(config: Json, dotted: str) -> Any:
    value: Any = config
    for part in dotted.split("."):
        if not isinstance(value, dict) or part not in value:
            raise ValueError(f"the run's configuration has no key {dotted!r}")
        value = value[part]
    return value


def _metrics(reader: RunReader, ids: Sequence[str]) -> Json:
    """All numbers of all steps, as rows. ids: metric names."""
    phases = {"warm_start": reader.steps("warm_start"), "rl": reader.steps("rl")}
    names = {name for steps in phases.values() for s in steps for name in s.values}
    _require_known("metric", ids, names)
    return {phase: [_step_row(s, ids) for s in steps] for phase, steps in phases.items()}


def _step_row(record: StepRecord, names: Sequence[str]) -> Json:
    values = {k: v for k, v in record.values.items() if not names or k in names}
    return {"step": record.step, "version": record.version, **values}


def _events(reader: RunReader, ids: Sequence[str]) -> Json:
    """What happened when. ids: kinds of event."""
    events = reader.events()
    _require_known("kind of event", ids, {e.kind for e in events})
    return {"events": [asdict(e) for e in events if not ids or e.kind in ids]}


def _diagnosis(reader: RunReader, ids: Sequence[str]) -> Json:
    """Why no gradient, of the whole run. ids: group ids or task names, each diagnosed alone."""
    return {"diagnoses": [diagnose(reader, name) for name in ids]} if ids else diagnose(reader)


def _findings(reader: RunReader, ids: Sequence[str]) -> Json:
    """What the scanners found, and how far they have come. ids: episode, group or task names,
    scanners or severities."""
    findings, progress = read_findings(reader)
    of = {e.id: e for e in reader.episode_records(ids=[f["episode"] for f in findings])}
    rows = [
        {**f, **{k: getattr(of[f["episode"]], k) for k in ("group", "task", "step", "raw")}}
        for f in findings
        if f["episode"] in of
    ]
    if ids:
        rows = [row for row in rows if set(ids) & {v for v in row.values() if isinstance(v, str)}]
    total = len(reader.episode_keys())
    return {"scanned": progress.scanned, "episodes": total, "findings": rows}


VIEWS: dict[str, Callable[[RunReader, Sequence[str]], Json]] = {
    "summary": _summary,
    "signals": _signals,
    "alarms": _alarms,
    "outcomes": _outcomes,
    "tasks": _tasks,
    "groups": _groups,
    "episodes": _episodes,
    "episode": _episode,
    "metrics": _metrics,
    "config": _config,
    "events": _events,
    "diagnosis": _diagnosis,
    "findings": _findings,
}


def _tally(records: Sequence[EpisodeRecord]) -> Tally:
    known = [r.solved for r in records if r.solved is not None]
    return Tally(sum(known), len(known), len(records) - len(known))


def _require_known(what: str, ids: Sequence[str], known: Any) -> None:
    unknown = [i for i in ids if i not in known]
    if unknown:
        raise ValueError(f"the run has no {what} {unknown[0]!r}")


def _plain(value: Any) -> Any:
    """JSON as the standard has it: NaN and infinity, which it lacks, become null."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
