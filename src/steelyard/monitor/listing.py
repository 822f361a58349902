"""The long views: episodes, groups, tasks and their history, each counted and paged by SQL."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from steelyard.episodes import GroupVerdict
from steelyard.monitor.outcomes import outcome_rows
from steelyard.monitor.scanners import Severity, read_findings
from steelyard.monitor.scores import Json, rate, tally_of
from steelyard.monitor.terms import Terms, read_terms
from steelyard.monitor.text import NO_KIND
from steelyard.store import EpisodeFilter, RunReader, lookup

EPISODE_TERMS = (
    "purpose", "step", "task", "kind", "split", "group", "evaluation", "stop_reason", "cause",
    "outcome", "text", "tool", "failed", "finding",
)  # fmt: skip
_OUTCOMES = ("solved", "wrong", "unscored")
_PURPOSES = ("train", "eval")
_GROUP_TERMS = ("verdict",)
_GROUP_SORTS = ("recorded", "-recorded")
_FINDING_SORTS = ("recorded", "severity")
_WORST_FIRST = [severity.value for severity in reversed(Severity)]


def episodes(reader: RunReader, ids: Sequence[str]) -> Json:
    """Episodes without their turns. ids: episode ids, group ids, task or evaluation names.

    Terms narrow them further: a purpose (`train`, `eval`), step, task, kind, split, group,
    evaluation, stop_reason, cause or outcome (`solved`, `wrong`, `unscored`), such as
    `stop_reason=turn_limit`; `text` in what the policy wrote or read, a `tool` that it called, a
    check that `failed`, a scanner with a `finding`. `kind=(none)` are tasks without a kind.
    `sort=-n_turns`, `offset=100` and `limit=50`
    page through them. `total` counts all that match.
    """
    terms = read_terms(ids, EPISODE_TERMS)
    records, total = reader.episode_page(
        terms.offset,
        -1 if terms.limit is None else terms.limit,
        terms.sort or "recorded",
        _chosen(reader, terms),
    )
    return {"episodes": [asdict(r) for r in records], "total": total, "offset": terms.offset}


def outcomes(reader: RunReader, ids: Sequence[str]) -> Json:
    """Episodes counted by outcome. ids and terms: those of the view `episodes`."""
    endings = lookup.endings(reader, _chosen(reader, read_terms(ids, EPISODE_TERMS)))
    examples = reader.episode_records(ids=[e.example for e in endings.values()])
    return {"outcomes": outcome_rows(endings, {r.id: r.cause_detail for r in examples})}


def _chosen(reader: RunReader, terms: Terms) -> EpisodeFilter:
    _require_known(
        "episode, group, task or evaluation",
        terms.names,
        {name for name in terms.names if lookup.is_named(reader, name)},
    )
    given: dict[str, Any] = dict(terms.filters)
    for key, allowed in (("outcome", _OUTCOMES), ("purpose", _PURPOSES)):
        if key in given and given[key] not in allowed:
            raise ValueError(f"{key} is one of {', '.join(allowed)}, got {given[key]!r}")
    if "step" in given:
        given["step"] = _step(given["step"])
    if given.get("kind") == NO_KIND:
        given["kind"] = ""
    if "finding" in given:
        given["ids"] = _found_by(reader, given.pop("finding"))
    return EpisodeFilter(**given, named=terms.names or None)


def _step(text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,9}", text):
        raise ValueError(f"step must be a whole number, got {text!r}")
    return int(text)


def _found_by(reader: RunReader, scanner: str) -> list[str]:
    """The episodes in which `scanner` found something."""
    findings = read_findings(reader)[0]
    return list(dict.fromkeys(f["episode"] for f in findings if f["scanner"] == scanner))


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


def findings(reader: RunReader, ids: Sequence[str]) -> Json:
    """What the scanners found in training and evaluations, and how far they have come. ids:
    episode, group or task names, splits, purposes, scanners or severities.

    Terms: `scanner=exits`, `sort=severity` for the worst first, `offset=100`, `limit=50`. `total`
    counts all that match, `by_scanner` those of each scanner that the ids leave.
    """
    terms = read_terms(ids, ("scanner",))
    sort, scanner = terms.sort or "recorded", terms.filters.get("scanner")
    if sort not in _FINDING_SORTS:
        raise ValueError(f"findings are sorted by {' or '.join(_FINDING_SORTS)}, got {sort!r}")
    found, progress = read_findings(reader)
    if terms.names:
        episodes_of = lookup.named_episodes(reader, terms.names)
        own = set(terms.names)
        found = [
            f
            for f in found
            if f["episode"] in episodes_of or own & {f["scanner"], f["severity"], f["purpose"]}
        ]
    by_scanner = Counter(f["scanner"] for f in found)
    if scanner is not None:
        found = [f for f in found if f["scanner"] == scanner]
    if sort == "severity":
        found.sort(key=lambda f: _WORST_FIRST.index(f["severity"]))
    end = None if terms.limit is None else terms.offset + terms.limit
    page = found[terms.offset : end]
    places = lookup.places(reader, {f["episode"] for f in page})
    return {
        "scanned": progress.scanned,
        "episodes": lookup.n_episodes(reader),
        "total": len(found),
        "offset": terms.offset,
        "by_scanner": dict(sorted(by_scanner.items())),
        "findings": [
            {**f, **places[f["episode"]]._asdict()} for f in page if f["episode"] in places
        ],
    }


def tasks(reader: RunReader, ids: Sequence[str]) -> Json:
    """Per task: how often it was solved in training and in each evaluation. ids: task names."""
    by_task: dict[str, Json] = {}
    groups_of = lookup.groups_by_task(reader)
    for (task, kind, split, evaluation), found in reader.counts(
        ["task", "kind", "split", "evaluation"]
    ).items():
        row = by_task.setdefault(
            task,
            {
                "task": task,
                "kind": kind,
                "split": split,
                "training": None,
                "groups": groups_of.get(task, 0),
                "evaluations": {},
            },
        )
        if evaluation is None:
            row["training"] = rate(tally_of(found))
        else:
            row["evaluations"][evaluation] = rate(tally_of(found))
    _require_known("task", ids, by_task)
    return {"tasks": [by_task[name] for name in ids or by_task]}


def history(reader: RunReader, ids: Sequence[str]) -> Json:
    """Success of each training task at each step. ids: task names.

    `cells` holds [task, step, solved, scored, unscored, mean raw reward], the first two being
    positions in `tasks` and `steps`. A task that was not sampled at a step has no cell there.
    """
    counts = reader.counts(["task", "kind", "step"], EpisodeFilter(purpose="train"))
    _require_known("training task", ids, {task for task, _, _ in counts})
    chosen = {key: found for key, found in counts.items() if not ids or key[0] in ids}
    kinds = {task: kind for task, kind, _ in chosen}
    steps = {step: i for i, step in enumerate(sorted({step for _, _, step in chosen}))}
    names = {task: i for i, task in enumerate(kinds)}
    return {
        "tasks": [{"task": task, "kind": kind} for task, kind in kinds.items()],
        "steps": list(steps),
        "cells": [
            [names[task], steps[step], found.solved, found.known, found.n - found.known, found.raw]
            for (task, _, step), found in chosen.items()
        ],
    }


def _require_known(what: str, names: Iterable[str], known: Any) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"the run has no {what} {name!r}")
