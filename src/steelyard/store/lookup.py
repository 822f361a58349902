"""What the long views ask beside rates and pages: endings, pages of groups, names, a stamp."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from steelyard.store.browsing import EpisodeFilter, where_clause
from steelyard.store.reader import RunReader
from steelyard.store.records import GroupRecord


class Ending(NamedTuple):
    """How an episode of one `purpose` ended: what its outcome kind is decided by.

    `raw` and `heldout` are 1 for full reward, 0 for less; None where there is no reward.
    """

    purpose: str
    raw: int | None
    cause: str | None
    heldout: int | None
    heldout_cause: str | None
    stop_reason: str


@dataclass(frozen=True, slots=True)
class Endings:
    """`n` episodes that ended alike; the first of them is number `first`, with the id `example`."""

    n: int
    first: int
    example: str


_ENDING = (
    "e.purpose, e.raw >= 1.0, e.cause, e.heldout_reward >= 1.0, e.heldout_cause, e.stop_reason"
)


def ending_counts(reader: RunReader) -> dict[Ending, int]:
    """How many episodes of the run ended in each way."""
    # SQLite would sort all episodes to group them: it takes less time to count them here.
    counts = Counter(reader._each(f"SELECT {_ENDING} FROM episodes e INDEXED BY episodes_listing"))
    return {Ending(*row): n for row, n in counts.items()}


def endings(reader: RunReader, filters: EpisodeFilter) -> dict[Ending, Endings]:
    """Every way in which the chosen episodes ended, that of the first episode first."""
    clause, values = where_clause(filters)
    return {
        Ending(*ending): Endings(n, first, example)
        # SQLite takes e.id from the row that has the minimum.
        for *ending, n, first, example in reader._rows(
            f"SELECT {_ENDING}, count(*), min(e.key) AS first, e.id FROM episodes e{clause}"
            " GROUP BY 1, 2, 3, 4, 5, 6 ORDER BY first",
            values,
        )
    }


def tokens_sampled(reader: RunReader) -> dict[str, int]:
    """Purpose → the tokens that the policy sampled in its episodes."""
    return dict(
        reader._rows(
            "SELECT purpose, sum(n_action_tokens) FROM episodes INDEXED BY episodes_listing"
            " GROUP BY purpose"
        )
    )


def groups_by_task(reader: RunReader) -> dict[str, int]:
    """Task → how many training groups it had."""
    return dict(reader._rows("SELECT task, count(*) FROM groups GROUP BY task"))


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


def named_episodes(reader: RunReader, names: Sequence[str]) -> set[str]:
    """The ids of the episodes that have one of `names`, or whose group, task or split has."""
    listed = "(SELECT value FROM json_each(?1))"
    rows = reader._rows(
        f"SELECT id FROM episodes INDEXED BY episodes_listing WHERE id IN {listed}"
        f" OR group_id IN {listed} OR task IN {listed} OR split IN {listed}",
        (json.dumps(list(names)),),
    )
    return {name for (name,) in rows}


class Place(NamedTuple):
    """Where in the run an episode stands, and its raw reward; None where it has none."""

    group: str
    task: str
    split: str
    step: int
    raw: float | None


def places(reader: RunReader, ids: Collection[str]) -> dict[str, Place]:
    """Episode id → its place, of those that the run has."""
    rows = reader._rows(
        "SELECT id, group_id, task, split, step, raw FROM episodes"
        " WHERE id IN (SELECT value FROM json_each(?))",
        (json.dumps(list(ids)),),
    )
    return {name: Place(*of) for name, *of in rows}


def n_episodes(reader: RunReader) -> int:
    ((n,),) = reader._rows("SELECT count(*) FROM episodes")
    return int(n)


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
    clause, order = " AND ".join(where), "DESC" if newest_first else "ASC"
    ((total,),) = reader._rows(f"SELECT count(*) FROM groups g WHERE {clause}", values)
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
    return "-".join("" if part is None else str(part) for part in parts)
