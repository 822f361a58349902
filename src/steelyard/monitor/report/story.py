"""What a report tells, read from the record."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard.monitor.report.curves import Rate, StepRates, solved_rate, step_rates
from steelyard.monitor.scores import Json, headline
from steelyard.monitor.summary import HEADLINES, before_and_after
from steelyard.monitor.views import view
from steelyard.store import EpisodeRecord, Event, RunReader

STAGES = {"base": "base model", "warm_start": "after warm start", "final": "after RL"}
assert tuple(STAGES) == HEADLINES


@dataclass(frozen=True, slots=True)
class Stage:
    """One headline evaluation: `key` is its name in the record."""

    key: str
    name: str
    split: str
    rate: Rate | None
    unscored: int
    by_kind: Mapping[str, Rate | None]


@dataclass(frozen=True, slots=True)
class Example:
    """One episode worth reading: `title` says why; `changes` is the view of that name."""

    title: str
    style: str
    episode: Json
    changes: Json


@dataclass(frozen=True, slots=True)
class Alarm:
    """An alarm as the record has it."""

    name: str
    step: int | None
    text: str
    action: str
    episodes: Sequence[str]


@dataclass(frozen=True, slots=True)
class Story:
    """Everything that a report draws."""

    summary: Json
    config: Json
    algorithm: Json
    stages: Sequence[Stage]
    unseen: Sequence[tuple[int, Rate]]
    steps: Sequence[StepRates]
    tasks: Mapping[str, Mapping[str, int]]
    audit: Json
    alarms: Sequence[Alarm]
    rollbacks: Sequence[str]
    findings: Sequence[Json]
    diagnosis: Json
    outcomes: Sequence[Json]
    pair: Sequence[Example]
    suspect: Example | None
    notes: Sequence[str]
    run_file: str


def read_story(run: Path) -> Story:
    """The story of the run in the directory `run`, as far as it has come.

    Raises: RunNotFound, UnknownSchema.
    """
    with RunReader(run) as reader:
        found, raised = view(reader, "summary"), view(reader, "alarms")
        records = reader.episode_records()
        events = reader.events()
        return Story(
            summary=found,
            config=reader.config(),
            algorithm=_algorithm(events),
            stages=[_stage(reader, name, records) for name in HEADLINES if name in found],
            unseen=_unseen(reader, records),
            steps=step_rates(r for r in records if r.purpose == "train"),
            tasks=_tasks(records),
            audit=view(reader, "audit"),
            alarms=[_alarm(a) for a in raised["alarms"]],
            rollbacks=[r["text"] for r in raised["rollbacks"]],
            findings=view(reader, "findings")["findings"],
            diagnosis=view(reader, "diagnosis"),
            outcomes=view(reader, "outcomes")["outcomes"],
            pair=_pair(reader),
            suspect=_suspect(reader, records),
            notes=list(dict.fromkeys(e.text for e in events if e.kind == "note")),
            run_file=_run_file(reader),
        )


def _stage(reader: RunReader, name: str, records: Sequence[EpisodeRecord]) -> Stage:
    record = headline(reader.evaluations(), name)
    assert record is not None  # the summary has it
    of_stage = [r for r in records if r.evaluation == name and r.split == record.split]
    kinds = sorted({r.kind for r in of_stage})
    return Stage(
        name,
        STAGES[name],
        record.split,
        solved_rate(of_stage),
        sum(r.solved is None for r in of_stage),
        {kind: solved_rate(r for r in of_stage if r.kind == kind) for kind in kinds},
    )


def _unseen(reader: RunReader, records: Sequence[EpisodeRecord]) -> list[tuple[int, Rate]]:
    found = []
    for evaluation in reader.evaluations("dev"):
        rate = solved_rate(
            r for r in records if r.evaluation == evaluation.name and r.split == "dev"
        )
        if rate is not None and evaluation.step >= 0:
            found.append((evaluation.step, rate))
    return found


def _tasks(records: Sequence[EpisodeRecord]) -> dict[str, dict[str, int]]:
    """Split → kind → how many tasks were tried."""
    seen = {(r.split, r.kind, r.task) for r in records}
    counts = Counter((split, kind) for split, kind, _ in seen)
    order = [*dict.fromkeys(("train", "dev", "test")), *sorted({s for s, _ in counts})]
    return {
        split: {kind: n for (of, kind), n in sorted(counts.items()) if of == split}
        for split in dict.fromkeys(order)
        if any(of == split for of, _ in counts)
    }


def _algorithm(events: Sequence[Event]) -> Json:
    for event in reversed(events):
        if event.kind == "algorithm":
            described: Json = json.loads(event.text)
            return described
    return {}


def _alarm(raised: Json) -> Alarm:
    return Alarm(
        str(raised["name"]),
        raised["step"],
        raised["text"],
        str(raised.get("action", "")),
        [str(e) for e in raised.get("episodes", ())],
    )


def _example(reader: RunReader, title: str, style: str, name: str, other: str = "") -> Example:
    """The episode `name`; its changes are those to the task, or else to the episode `other`."""
    (episode,) = view(reader, "episode", [name])["episodes"]
    changes = view(reader, "changes", [name])
    if other and not changes["files"]:
        changes = view(reader, "changes", [name, other])
    return Example(title, style, episode, changes)


def _pair(reader: RunReader) -> list[Example]:
    """A failure before training and a success after it; empty where there are none."""
    pair = before_and_after(reader)
    if pair is None:
        return []
    before, after = pair
    return [
        _example(reader, "Before training", "bad", before),
        _example(reader, "After", "good", after, before),
    ]


def _suspect(reader: RunReader, records: Sequence[EpisodeRecord]) -> Example | None:
    """The latest episode that the verifier paid in full and that held-out checks reject."""
    for r in reversed(records):
        if r.raw is None or r.heldout_reward is None:
            continue
        if r.raw >= 1.0 and r.heldout_reward < 1.0:
            title = "Paid by the verifier, rejected by held-out checks"
            return _example(reader, title, "bad", r.id)
    return None


def _run_file(reader: RunReader) -> str:
    """run.toml as it lies in the directory, if it can be read as one."""
    try:
        text = reader.directory.config_file.read_text()
        tomllib.loads(text)
    except (OSError, ValueError):
        return ""
    return text
