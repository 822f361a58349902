"""The long views: episodes, groups, tasks and their history, each counted and paged by SQL."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from steelyard.episodes import GroupVerdict
from steelyard.monitor.outcomes import outcome_rows
from steelyard.monitor.scores import Json, rate
from steelyard.monitor.terms import Terms, read_terms
from steelyard.store import RunReader, Tally, lookup

FINDINGS_FILE = "findings.jsonl"
EPISODE_TERMS = (*lookup.FILTERS, "finding")
_GROUP_TERMS = ("verdict",)
_GROUP_SORTS = ("recorded", "-recorded")


def episodes(reader: RunReader, ids: Sequence[str]) -> Json:
    """Episodes without their turns. ids: episode ids, group ids, task or evaluation names.

    Terms narrow them further, such as `tool=edit`, `stop=turn_limit`, `text=config` or
    `solved=no`; `sort=-tokens`, `offset=100` and `limit=50` page through them. `total` counts all
    that match.
    """
    terms = read_terms(ids, EPISODE_TERMS)
    names, filters, found = _chosen(reader, terms)
    total, records = lookup.search_episodes(
        reader,
        names,
        filters,
        ids=found,
        sort=terms.sort or "recorded",
        offset=terms.offset,
        limit=terms.limit,
    )
    return {
        "episodes": [asdict(r) for r in records],
        "total": total,
        "offset": terms.offset,
    }


def outcomes(reader: RunReader, ids: Sequence[str]) -> Json:
    """Episodes counted by outcome. ids and terms: those of the view `episodes`."""
    names, filters, found = _chosen(reader, read_terms(ids, EPISODE_TERMS))
    endings = lookup.endings(reader, names, filters, ids=found)
    examples = reader.episode_records(ids=[e.example for e in endings])
    return {"outcomes": outcome_rows(endings, {r.id: r.cause_detail for r in examples})}


def _chosen(
    reader: RunReader, terms: Terms
) -> tuple[Sequence[str], Mapping[str, str], Sequence[str] | None]:
    """Names, filters of the store, and the ids that the findings leave, if they are asked for."""
    _require_known(
        "episode, group, task or evaluation",
        terms.names,
        {name for name in terms.names if lookup.is_named(reader, name)},
    )
    filters = dict(terms.filters)
    scanner = filters.pop("finding", None)
    return terms.names, filters, None if scanner is None else _found_by(reader, scanner)


def _found_by(reader: RunReader, scanner: str) -> list[str]:
    """The episodes in which `scanner` found something."""
    try:
        lines = (reader.directory.path / FINDINGS_FILE).read_text("utf-8").splitlines()
    except FileNotFoundError:
        return []
    found: dict[str, None] = {}
    for line in lines:
        try:
            finding: Any = json.loads(line)
        except ValueError:
            continue  # a scanner is still writing it
        if finding.get("scanner") == scanner:
            found[finding["episode"]] = None
    return list(found)


def groups(reader: RunReader, ids: Sequence[str]) -> Json:
    """Training groups. ids: group ids, task names or step numbers.

    Terms: `verdict=mixed`, `sort=-recorded` for the newest first, `offset=100`, `limit=50`.
    `verdicts` counts the groups of the whole run.
    """
    terms = read_terms(ids, _GROUP_TERMS)
    verdict, sort = terms.filters.get("verdict"), terms.sort or "recorded"
    if verdict is not None and verdict not in set(GroupVerdict):
        raise ValueError(f"verdict is one of {', '.join(GroupVerdict)}, got {verdict!r}")
    if sort not in _GROUP_SORTS:
        raise ValueError(f"groups are sorted by {' or '.join(_GROUP_SORTS)}, got {sort!r}")
    for name in terms.names:
        if not lookup.group_page(reader, [name], limit=0)[0]:
            raise ValueError(f"the run has no group, task or step {name!r}")
    total, found = lookup.group_page(
        reader,
        terms.names,
        verdict,
        newest_first=sort == "-recorded",
        offset=terms.offset,
        limit=terms.limit,
    )
    counts = [of_step.items() for of_step in reader.group_verdicts().values()]
    return {
        "groups": [asdict(g) for g in found],
        "total": total,
        "offset": terms.offset,
        "verdicts": {
            v.value: sum(n for step in counts for name, n in step if name == v)
            for v in GroupVerdict
        },
    }


def tasks(reader: RunReader, ids: Sequence[str]) -> Json:
    """Per task: how often it was solved in training and in each evaluation. ids: task names."""
    by_task: dict[str, Json] = {}
    for found in lookup.task_tallies(reader):
        task = by_task.setdefault(
            found.task,
            {
                "task": found.task,
                "kind": found.kind,
                "split": found.split,
                "training": None,
                "groups": 0,
                "evaluations": {},
            },
        )
        if found.evaluation is None:
            task["training"], task["groups"] = rate(found.tally), found.groups
        else:
            evaluations = task["evaluations"]
            evaluations[found.evaluation] = rate(found.tally)
    _require_known("task", ids, by_task)
    return {"tasks": [by_task[name] for name in ids or by_task]}


def history(reader: RunReader, ids: Sequence[str]) -> Json:
    """Success of each training task at each step. ids: task names.

    `cells` holds [task, step, solved, scored, unscored, mean raw reward], the first two being
    positions in `tasks` and `steps`. A task that was not sampled at a step has no cell there.
    """
    rows = lookup.task_steps(reader)
    _require_known("training task", ids, {task for task, *_ in rows})
    rows = [row for row in rows if not ids or row[0] in ids]
    kinds = {task: kind for task, kind, *_ in rows}
    steps = {step: i for i, step in enumerate(sorted({step for _, _, step, _, _ in rows}))}
    names = {task: i for i, task in enumerate(kinds)}
    return {
        "tasks": [{"task": task, "kind": kind} for task, kind in kinds.items()],
        "steps": list(steps),
        "cells": [
            [names[task], steps[step], *_numbers(tally), mean]
            for task, _, step, mean, tally in rows
        ],
    }


def _numbers(tally: Tally) -> tuple[int, int, int]:
    return tally.solved, tally.n, tally.unscored


def _require_known(what: str, names: Iterable[str], known: Any) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"the run has no {what} {name!r}")
