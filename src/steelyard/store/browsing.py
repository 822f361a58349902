"""Finding, paging and averaging episodes inside SQLite, however many there are.

Every query here can be answered from the index `episodes_listing`; the table itself is read only
for the rows of one page.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Dimension: TypeAlias = Literal[
    "step", "task", "kind", "split", "group", "evaluation", "purpose", "stop_reason", "cause"
]
"""What episodes can be counted by."""

ORDERS = {
    "recorded": "e.key",
    "id": "e.id",
    "step": "e.step",
    "task": "e.task",
    "kind": "e.kind",
    "split": "e.split",
    "group": "e.group_id",
    "evaluation": "e.evaluation_key",
    "purpose": "e.purpose",
    "sample": "e.sample",
    "stop_reason": "e.stop_reason",
    "cause": "e.cause",
    "reward": "e.reward",
    "raw": "e.raw",
    "heldout_reward": "e.heldout_reward",
    "heldout_cause": "e.heldout_cause",
    "solved": "e.solved",
    "n_turns": "e.n_turns",
    "n_calls": "e.n_calls",
    "n_call_errors": "e.n_call_errors",
    "n_repeated_calls": "e.n_repeated_calls",
    "oldest_version": "e.oldest_version",
    "n_action_tokens": "e.n_action_tokens",
    "n_tokens": "e.n_tokens",
}
"""The columns that episodes can be sorted by."""

_OUTCOMES = {"solved": "e.solved = 1", "wrong": "e.solved = 0", "unscored": "e.solved IS NULL"}
_DIMENSIONS = {**ORDERS, "evaluation": "v.name"}
_EVALUATIONS = "LEFT JOIN evaluations v ON v.key = e.evaluation_key"
EPISODES = f"episodes e {_EVALUATIONS}"
# The planner would rather walk the table for some orders, through all the workspaces in it.
_LISTED = "episodes e INDEXED BY episodes_listing"


@dataclass(frozen=True, slots=True)
class EpisodeFilter:
    """Which episodes are meant: those that meet every condition that is not None.

    `outcome` "unscored" means that an error left the verifier or the held-out checks without a
    verdict. `text` is looked for in what the policy wrote, its tool calls and their results, ASCII
    letters of either case alike; `tool` is a tool that was called, `failed` the name of a check
    that failed. `named` are ids of episodes, groups, tasks or evaluations, any of which will do.
    """

    purpose: Literal["train", "eval"] | None = None
    step: int | None = None
    task: str | None = None
    kind: str | None = None
    split: str | None = None
    group: str | None = None
    evaluation: str | None = None
    stop_reason: str | None = None
    cause: str | None = None
    outcome: Literal["solved", "wrong", "unscored"] | None = None
    text: str | None = None
    tool: str | None = None
    failed: str | None = None
    ids: Sequence[str] | None = None
    named: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class Counts:
    """How often some episodes succeeded. Those with an error are counted in `n` and enter no rate.

    `known` have a verdict as evaluations count, and `solved` of them pass all checks; `raw` is the
    mean over the scored, None without any.
    """

    n: int
    known: int
    solved: int
    raw: float | None


_COUNTS = "count(*), count(e.solved), coalesce(sum(e.solved), 0), avg(e.raw)"


@dataclass(frozen=True, slots=True)
class Regressions:
    """Of `checks` that passed on the untouched task, `failed` fail after the episodes. Only checks
    that ran are counted."""

    checks: int
    failed: int


def page(
    connection: sqlite3.Connection,
    columns: str,
    offset: int,
    limit: int,
    order: str,
    filters: EpisodeFilter,
) -> tuple[list[Any], int]:
    """`columns` of the episodes numbered offset … offset + limit − 1, and how many there are.

    `order` is a name of `ORDERS`, descending after a minus sign; what has no value comes last.
    """
    descending = order.startswith("-")
    name = order.removeprefix("-")
    if name not in ORDERS:
        raise ValueError(
            f"episodes cannot be sorted by {name!r}: choose one of {', '.join(ORDERS)}"
        )
    where, values = where_clause(filters)
    column, way = ORDERS[name], "DESC" if descending else "ASC"
    chosen = f"FROM {_LISTED}{where}"
    (total,) = connection.execute(f"SELECT count(*) {chosen}", values).fetchone()
    keys = connection.execute(
        f"SELECT e.key {chosen} ORDER BY {column} {way} NULLS LAST, e.key {way} LIMIT ? OFFSET ?",
        (*values, limit, offset),
    ).fetchall()
    rows = connection.execute(
        f"SELECT {columns} FROM json_each(?) chosen JOIN episodes e ON e.key = chosen.value"
        f" {_EVALUATIONS} ORDER BY chosen.key",
        (json.dumps([key for (key,) in keys]),),
    )
    return rows.fetchall(), total


def counts(
    connection: sqlite3.Connection, by: Sequence[Dimension], filters: EpisodeFilter
) -> dict[tuple[Any, ...], Counts]:
    """The counts of the chosen episodes, one entry for each combination of `by`, ascending."""
    return {key: Counts(*row) for key, row in _grouped(connection, by, filters, _COUNTS)}


def _grouped(
    connection: sqlite3.Connection, by: Sequence[Dimension], filters: EpisodeFilter, figures: str
) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """(combination of `by`, its figures, of which the first is the number of episodes)."""
    where, values = where_clause(filters)
    group = _grouping(by)
    rows = connection.execute(
        f"SELECT {''.join(f'{g}, ' for g in group)}{figures}"
        f" FROM {_LISTED} {_EVALUATIONS}{where}{_clause(group)}",
        values,
    )
    return ((row[: len(by)], row[len(by) :]) for row in rows if row[len(by)])


def regressions(
    connection: sqlite3.Connection, by: Sequence[Dimension], filters: EpisodeFilter
) -> dict[tuple[Any, ...], Regressions]:
    """What the chosen episodes broke, one entry for each combination of `by`, ascending."""
    where, values = where_clause(filters)
    group = _grouping(by)
    rows = connection.execute(
        f"SELECT {''.join(f'{g}, ' for g in group)}count(*), sum(NOT c.passed)"
        f" FROM {_LISTED} {_EVALUATIONS} JOIN untouched u ON u.task = e.task AND u.passed"
        " JOIN checks c ON c.episode_key = e.key AND c.suite = u.suite AND c.name = u.name"
        f"{where}{_clause(group)}",
        values,
    )
    return {tuple(row[: len(by)]): Regressions(*row[len(by) :]) for row in rows if row[len(by)]}


def _grouping(by: Sequence[Dimension]) -> list[str]:
    return [_DIMENSIONS[name] for name in by]


def _clause(group: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(group)} ORDER BY {', '.join(group)}" if group else ""


def where_clause(filters: EpisodeFilter) -> tuple[str, list[Any]]:
    """The WHERE clause on the episodes `e`, empty without conditions, and its values."""
    equal = {
        "e.purpose": filters.purpose,
        "e.step": filters.step,
        "e.task": filters.task,
        "e.kind": filters.kind,
        "e.split": filters.split,
        "e.group_id": filters.group,
        "e.stop_reason": filters.stop_reason,
        "e.cause": filters.cause,
    }
    conditions = [f"{column} = ?" for column, value in equal.items() if value is not None]
    values: list[Any] = [value for value in equal.values() if value is not None]
    if filters.evaluation is not None:
        conditions.append("e.evaluation_key IN (SELECT key FROM evaluations WHERE name = ?)")
        values.append(filters.evaluation)
    if filters.outcome is not None:
        conditions.append(_OUTCOMES[filters.outcome])
    if filters.ids is not None:
        conditions.append("e.id IN (SELECT value FROM json_each(?))")
        values.append(json.dumps(list(filters.ids)))
    if filters.named is not None:
        listed = "(SELECT value FROM json_each(?))"
        conditions.append(
            f"(e.id IN {listed} OR e.group_id IN {listed} OR e.task IN {listed} OR"
            f" e.evaluation_key IN (SELECT key FROM evaluations WHERE name IN {listed}))"
        )
        values += [json.dumps(list(filters.named))] * 4
    if filters.failed is not None:
        conditions.append(
            "EXISTS (SELECT 1 FROM checks c WHERE c.episode_key = e.key AND c.name = ?"
            " AND NOT c.passed)"
        )
        values.append(filters.failed)
    if filters.tool is not None:
        # The sign keeps SQLite from fetching each of these episodes from the table.
        conditions.append("+e.key IN (SELECT episode_key FROM tool_uses WHERE tool = ?)")
        values.append(filters.tool)
    if filters.text is not None:
        conditions.append(
            "EXISTS (SELECT 1 FROM turns t WHERE t.episode_key = e.key"
            " AND (t.text LIKE ? ESCAPE '\\' OR t.calls LIKE ? ESCAPE '\\'))"
        )
        # Calls are JSON, where quotes, line ends and letters beyond ASCII are written as escapes.
        values += [_like(filters.text), _like(json.dumps(filters.text)[1:-1])]
    return (f" WHERE {' AND '.join(conditions)}" if conditions else ""), values


def _like(text: str) -> str:
    for special in "\\%_":
        text = text.replace(special, f"\\{special}")
    return f"%{text}%"
