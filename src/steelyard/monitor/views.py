"""Every view of a run: a function from its record to a JSON-able dict.

`steelyard show RUN VIEW --json` prints what these functions return; the other front ends draw it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from steelyard.episodes import Check, Outcome, Scored, Trajectory
from steelyard.monitor.audit import audit
from steelyard.monitor.changes import changes
from steelyard.monitor.diagnosis import diagnose
from steelyard.monitor.listing import episodes, findings, groups, history, outcomes, tasks
from steelyard.monitor.scores import Json
from steelyard.monitor.signals import signals
from steelyard.monitor.summary import summary
from steelyard.monitor.tokens import tokens
from steelyard.store import RunReader, StepRecord

_EXACT = 2**53 - 1


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
        "turns": [
            {**asdict(turn), "learned": learned}
            for turn, learned in zip(
                found.trajectory.turns, _learned(reader, episode_id, found.trajectory), strict=True
            )
        ],
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


def _learned(reader: RunReader, episode_id: str, trajectory: Trajectory) -> list[Json]:
    """Per turn, the mean of each value that the learner recorded, over the tokens that have one."""
    masks = [np.asarray(s.action_mask, dtype=np.bool_) for s in trajectory.segments]
    fields = [reader.token_fields(episode_id, i) for i in range(len(masks))]
    means: list[Json] = []
    for turn in trajectory.turns:
        start, stop = (int(masks[turn.segment][:end].sum()) for end in turn.action)
        means.append({})
        for name, values in fields[turn.segment].items():
            known = values[start:stop][np.isfinite(values[start:stop])]
            if known.size:
                means[-1][name] = float(known.mean())
    return means


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


VIEWS: dict[str, Callable[[RunReader, Sequence[str]], Json]] = {
    "summary": _summary,
    "signals": _signals,
    "alarms": _alarms,
    "outcomes": outcomes,
    "tasks": tasks,
    "history": history,
    "groups": groups,
    "episodes": episodes,
    "episode": _episode,
    "changes": changes,
    "tokens": tokens,
    "metrics": _metrics,
    "config": _config,
    "audit": audit,
    "events": _events,
    "diagnosis": _diagnosis,
    "findings": findings,
}


def _require_known(what: str, ids: Sequence[str], known: Any) -> None:
    unknown = [i for i in ids if i not in known]
    if unknown:
        raise ValueError(f"the run has no {what} {unknown[0]!r}")


def _plain(value: Any) -> Any:
    """JSON that every reader reads alike: NaN and infinity, which it lacks, become null, and whole
    numbers that a float of 64 bits rounds, such as a seed, become strings."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value) if abs(value) > _EXACT else value
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    return value
