"""What a browser of runs asks, answered by SQL: 100,000 episodes are never loaded at once.

Every function takes a `RunReader` and sees the snapshot that the reader is in.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.store.reader import EpisodeRecord, GroupRecord, RunReader, Tally

_EPISODES = "episodes e LEFT JOIN evaluations v ON v.key = e.evaluation_key"
_TALLY = "coalesce(sum(e.solved), 0), count(e.solved), count(*) - count(e.solved)"


@dataclass(frozen=True, slots=True)
class Ending:
    """How `n` episodes of one `purpose` ended: what their outcome kind is decided by.

    `raw` and `heldout` are 1 for full reward, 0 for less; None where there is no reward. The first
    of them was recorded as number `first`, with the id `example`.
    """

    purpose: str
    raw: int | None
    cause: str | None
    heldout: int | None
    heldout_cause: str | None
    stop_reason: str
    n: int
    action_tokens: int
    first: int
    example: str


def endings(
    reader: RunReader,
    names: Sequence[str] = (),
    filters: Mapping[str, str] | None = None,
    *,
    ids: Sequence[str] | None = None,
) -> list[Ending]:
    """Every way in which the episodes that match ended; arguments as `search_episodes`."""
    clause, values = _matching(names, filters, ids)
    return [
        Ending(*row)
        # SQLite takes e.id from the row that has the minimum.
        for row in reader._rows(
            "SELECT e.purpose, e.raw >= 1.0, e.cause, e.heldout_reward >= 1.0, e.heldout_cause,"
            " e.stop_reason, count(*), sum(e.n_action_tokens), min(e.key) AS first, e.id"
            f" FROM {_EPISODES}{clause} GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY first",
            values,
        )
    ]


@dataclass(frozen=True, slots=True)
class TaskTally:
    """The episodes of one task in training (`evaluation` None) or in one evaluation."""

    task: str
    kind: str
    split: str
    evaluation: str | None
    groups: int
    tally: Tally


def task_tallies(reader: RunReader) -> list[TaskTally]:
    """Tasks in the order in which the run first met them."""
    return [
        TaskTally(task, kind, split, evaluation, groups, Tally(*tally))
        for task, kind, split, evaluation, groups, _, *tally in reader._rows(
            "SELECT e.task, min(e.kind), min(e.split), v.name, count(DISTINCT e.group_key),"
            f" min(e.key) AS first, {_TALLY} FROM {_EPISODES}"
            " GROUP BY e.task, e.evaluation_key ORDER BY first"
        )
    ]


def task_steps(reader: RunReader) -> list[tuple[str, str, int, float | None, Tally]]:
    """(task, kind, step, mean raw reward, tally) of the training episodes, by task and step."""
    return [
        (task, kind, step, mean, Tally(*tally))
        for task, kind, step, mean, *tally in reader._rows(
            f"SELECT e.task, min(e.kind), e.step, avg(e.raw), {_TALLY} FROM episodes e"
            " WHERE e.purpose = 'train' GROUP BY e.task, e.step ORDER BY e.task, e.step"
        )
    ]


def paired_heldout(reader: RunReader) -> dict[int, tuple[float, float, int]]:
    """Step → mean raw reward, mean held-out reward, and n, over episodes that have both."""
    return {
        step: (training, heldout, n)
        for step, training, heldout, n in reader._rows(
            "SELECT step, avg(raw), avg(heldout_reward), count(*) FROM episodes"
            " WHERE purpose = 'train' AND raw IS NOT NULL AND heldout_reward IS NOT NULL"
            " GROUP BY step ORDER BY step"
        )
    }


_EQUAL = {
    "task": "e.task",
    "kind": "e.kind",
    "split": "e.split",
    "group": "e.group_id",
    "purpose": "e.purpose",
    "evaluation": "v.name",
    "step": "e.step",
    "stop": "e.stop_reason",
    "cause": "e.cause",
}
_SOLVED = {"yes": "e.solved = 1", "no": "e.solved = 0", "unknown": "e.solved IS NULL"}
FILTERS = (*_EQUAL, "solved", "tool", "text", "failed")
"""What episodes can be searched by: `failed` is a check that failed, `text` what the policy wrote
or read, ASCII letters of either case alike."""

SORTS = {
    "recorded": "e.key",
    "id": "e.id",
    "task": "e.task",
    "kind": "e.kind",
    "step": "e.step",
    "reward": "e.reward",
    "heldout": "e.heldout_reward",
    "solved": "e.solved",
    "stop": "e.stop_reason",
    "turns": "e.n_turns",
    "tokens": "e.n_action_tokens",
}


def search_episodes(
    reader: RunReader,
    names: Sequence[str] = (),
    filters: Mapping[str, str] | None = None,
    *,
    ids: Sequence[str] | None = None,
    sort: str = "recorded",
    offset: int = 0,
    limit: int | None = None,
) -> tuple[int, list[EpisodeRecord]]:
    """How many episodes meet every filter, and the rows of one page of them.

    `names` are episode, group, task or evaluation names, any of which will do; `sort` is a key of
    `SORTS`, with a leading "-" descending. `ids` restricts to these episodes.

    Raises: ValueError for an unknown filter, value or sort.
    """
    clause, values = _matching(names, filters, ids)
    page = reader._rows(
        f"SELECT e.id FROM {_EPISODES}{clause} ORDER BY {_order(sort)} LIMIT ? OFFSET ?",
        [*values, -1 if limit is None else limit, offset],
    )
    total = len(page)
    if limit is not None or offset:
        ((total,),) = reader._rows(f"SELECT count(*) FROM {_EPISODES}{clause}", values)
    records = {r.id: r for r in reader.episode_records(ids=[name for (name,) in page])}
    return total, [records[name] for (name,) in page]


def _matching(
    names: Sequence[str], filters: Mapping[str, str] | None, ids: Sequence[str] | None
) -> tuple[str, list[Any]]:
    where, values = _conditions(filters or {})
    if names:
        listed = "(SELECT value FROM json_each(?))"
        where.append(
            f"(e.id IN {listed} OR e.group_id IN {listed} OR e.task IN {listed}"
            f" OR v.name IN {listed})"
        )
        values += [json.dumps(list(names))] * 4
    if ids is not None:
        where.append("e.id IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(ids)))
    return f" WHERE {' AND '.join(where)}" if where else "", values


def _order(sort: str) -> str:
    column = SORTS.get(sort.removeprefix("-"))
    if column is None:
        raise ValueError(f"episodes cannot be sorted by {sort!r}: choose one of {', '.join(SORTS)}")
    direction = "DESC" if sort.startswith("-") else "ASC"
    ordered = f"{column} {direction} NULLS LAST"
    return ordered if column == "e.key" else f"{ordered}, e.key"


def _conditions(filters: Mapping[str, str]) -> tuple[list[str], list[Any]]:
    where: list[str] = []
    values: list[Any] = []
    for name, value in filters.items():
        if name in _EQUAL:
            where.append(f"{_EQUAL[name]} = ?")
            values.append(_integer(name, value) if name == "step" else value)
        elif name == "solved":
            if value not in _SOLVED:
                raise ValueError(f"solved is one of {', '.join(_SOLVED)}, got {value!r}")
            where.append(_SOLVED[value])
        elif name == "failed":
            where.append(
                "EXISTS (SELECT 1 FROM checks c WHERE c.episode_key = e.key AND c.name = ?"
                " AND NOT c.passed)"
            )
            values.append(value)
        elif name == "tool":
            # A call is recorded as [name, arguments, result, error].
            where.append(
                "EXISTS (SELECT 1 FROM turns t, json_each(t.calls) c WHERE t.episode_key = e.key"
                " AND json_extract(c.value, '$[0]') = ?)"
            )
            values.append(value)
        elif name == "text":
            where.append(
                "EXISTS (SELECT 1 FROM turns t WHERE t.episode_key = e.key"
                " AND (t.text LIKE ? ESCAPE '\\' OR t.calls LIKE ? ESCAPE '\\'))"
            )
            # Inside the calls' JSON, a quote or a line break is written as an escape.
            values += [_like(value), _like(json.dumps(value)[1:-1])]
        else:
            raise ValueError(
                f"episodes cannot be searched by {name!r}: choose one of {', '.join(FILTERS)}"
            )
    return where, values


def _like(text: str) -> str:
    for special in ("\\", "%", "_"):
        text = text.replace(special, "\\" + special)
    return f"%{text}%"


def _integer(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"{name} must be a whole number, got {value!r}") from None


def is_named(reader: RunReader, name: str) -> bool:
    """Whether `name` is an episode, a group, a task or an evaluation of the run."""
    ((found,),) = reader._rows(
        "SELECT EXISTS (SELECT 1 FROM episodes WHERE id = ?1)"
        " OR EXISTS (SELECT 1 FROM evaluations WHERE name = ?1)"
        " OR EXISTS (SELECT 1 FROM groups WHERE id = ?1 OR task = ?1)"
        " OR EXISTS (SELECT 1 FROM episodes WHERE task = ?1 OR group_id = ?1)",
        [name],
    )
    return bool(found)


def group_page(
    reader: RunReader,
    names: Sequence[str] = (),
    verdict: str | None = None,
    *,
    newest_first: bool = False,
    offset: int = 0,
    limit: int | None = None,
) -> tuple[int, list[GroupRecord]]:
    """How many training groups match, and one page; `names` are group ids, tasks or steps."""
    where: list[str] = ["1"]
    values: list[Any] = []
    if names:
        listed = "(SELECT value FROM json_each(?))"
        where.append(
            f"(g.id IN {listed} OR g.task IN {listed} OR CAST(g.step AS TEXT) IN {listed})"
        )
        values += [json.dumps(list(names))] * 3
    if verdict is not None:
        where.append("g.verdict = ?")
        values.append(verdict)
    clause = " AND ".join(where)
    ((total,),) = reader._rows(f"SELECT count(*) FROM groups g WHERE {clause}", values)
    order = "DESC" if newest_first else "ASC"
    rows = reader._rows(
        f"WITH chosen AS (SELECT * FROM groups g WHERE {clause} ORDER BY g.key {order}"
        " LIMIT ? OFFSET ?)"
        " SELECT g.id, g.step, g.task, g.kind, g.split, g.verdict, g.used,"
        " json_group_array(e.raw), count(DISTINCT e.files)"
        " FROM chosen g LEFT JOIN episodes e ON e.group_key = g.key"
        f" GROUP BY g.key ORDER BY g.key {order}",
        [*values, -1 if limit is None else limit, offset],
    )
    return total, [
        GroupRecord(
            name, step, task, kind, split, verdict, bool(used), tuple(json.loads(rewards)), distinct
        )
        for name, step, task, kind, split, verdict, used, rewards, distinct in rows
    ]


def stamp(reader: RunReader) -> str:
    """Changes whenever something that a view shows was recorded; cheap to ask for."""
    ((*parts,),) = reader._rows(
        "SELECT (SELECT max(key) FROM episodes), (SELECT max(key) FROM events),"
        " (SELECT max(time) FROM steps), (SELECT max(key) FROM evaluations)"
    )
    return "-".join("" if part is None else f"{part:.3f}".rstrip("0.") for part in parts)
