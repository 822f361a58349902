"""Reads a run's record, finished or live, and never changes it."""

from __future__ import annotations

import fcntl
import json
import math
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from numpy.typing import NDArray

from steelyard.episodes import Check, Episode, GroupVerdict, Scored, StopReason, Trajectory
from steelyard.store import browsing, encoding
from steelyard.store.browsing import (
    EPISODES,
    Counts,
    Dimension,
    EpisodeFilter,
    Regressions,
)
from steelyard.store.errors import RunNotFound
from steelyard.store.layout import RunDirectory
from steelyard.store.records import (
    TOKEN_FIELDS,
    EpisodeRecord,
    EvaluationRecord,
    Event,
    GroupRecord,
    StepRecord,
    Tally,
    TrainingRewards,
)
from steelyard.store.schema import require_schema
from steelyard.store.writer import Phase

_EPISODE_COLUMNS = (
    "e.id, e.group_id, e.task, e.kind, e.split, e.purpose, e.step, v.name, e.sample, e.seed,"
    " e.stop_reason, e.reward, e.raw, e.components, e.potentials, e.cause, e.cause_detail,"
    " e.heldout_reward, e.heldout_cause,"
    " e.solved, e.n_turns, e.n_calls, e.n_call_errors, e.n_repeated_calls, e.oldest_version,"
    " e.n_action_tokens, e.n_tokens, e.seconds"
)
_TALLY = "coalesce(sum(e.solved), 0), count(e.solved), count(*) - count(e.solved)"
_PAIRED = "(e.raw IS NOT NULL AND e.heldout_reward IS NOT NULL)"


class RunReader:
    """A read-only view of `run.db`.

    Raises: RunNotFound where `path` holds no run; UnknownSchema.
    """

    def __init__(self, path: Path | str) -> None:
        self.directory = RunDirectory(Path(path))
        if not self.directory.database.is_file():
            raise RunNotFound(f"no run at {self.directory.path}: it has no run.db")
        self._connection = _connect_read_only(self.directory.database)
        try:
            require_schema(self._connection, self.directory.database)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything read inside sees the record at one moment, though the run goes on."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def is_live(self) -> bool:
        """Whether a process holds the run's write lock now."""
        try:
            descriptor = os.open(self.directory.lock_file, os.O_RDONLY)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def meta(self) -> dict[str, str]:
        """Name, creation time, versions, model; `config()` has the configuration."""
        return dict(self._rows("SELECT key, value FROM meta WHERE key != 'config'"))

    def config(self) -> dict[str, Any]:
        """The resolved configuration that the run was started with."""
        (text,) = self._rows("SELECT value FROM meta WHERE key = 'config'")[0]
        config: dict[str, Any] = json.loads(text)
        return config

    def events(self, kind: str | None = None) -> list[Event]:
        rows = self._rows(
            "SELECT time, step, kind, text, data FROM events WHERE ? IS NULL OR kind = ?"
            " ORDER BY key",
            (kind, kind),
        )
        return [Event(t, step, name, text, json.loads(data)) for t, step, name, text, data in rows]

    def steps(self, phase: Phase) -> list[StepRecord]:
        """The steps of a phase with all their metrics, ascending."""
        records = [
            StepRecord(phase, step, version, time, {})
            for step, version, time in self._rows(
                "SELECT step, version, time FROM steps WHERE phase = ? ORDER BY step", (phase,)
            )
        ]
        by_step = {record.step: record for record in records}
        # In the order of the table: through an index, SQLite would sort them.
        for step, name, value in self._rows(
            "SELECT step, name, value FROM metrics NOT INDEXED WHERE phase = ? ORDER BY rowid",
            (phase,),
        ):
            by_step[step].values[name] = math.nan if value is None else value
        return records

    def metric(self, name: str, phase: Phase = "rl") -> list[tuple[int, float]]:
        """One metric as (step, value) pairs; a missing value is NaN."""
        rows = self._rows(
            "SELECT step, value FROM metrics WHERE phase = ? AND name = ? ORDER BY step",
            (phase, name),
        )
        return [(step, math.nan if value is None else value) for step, value in rows]

    def evaluations(self, split: str | None = None) -> list[EvaluationRecord]:
        """All evaluations, or those on `split`, in the order of their steps."""
        rows = self._rows(
            f"SELECT v.name, v.split, v.step, v.time, v.seconds, {_TALLY}"
            " FROM evaluations v JOIN episodes e ON e.evaluation_key = v.key"
            " WHERE ? IS NULL OR v.split = ? GROUP BY v.key ORDER BY v.step, v.key",
            (split, split),
        )
        return [
            EvaluationRecord(name, on_split, step, time, seconds, Tally(*counts))
            for name, on_split, step, time, seconds, *counts in rows
        ]

    def tallies(self, evaluation: str, split: str, by: Literal["kind", "task"]) -> dict[str, Tally]:
        """Successes of one evaluation, by kind or by task."""
        rows = self._rows(
            f"SELECT e.{by}, {_TALLY} FROM {EPISODES}"
            f" WHERE v.name = ? AND v.split = ? GROUP BY e.{by} ORDER BY e.{by}",
            (evaluation, split),
        )
        return {name: Tally(*counts) for name, *counts in rows}

    def stop_reasons(self, evaluation: str, split: str) -> dict[str, dict[str, int]]:
        """Kind → stop reason → number of episodes of one evaluation."""
        counts: dict[str, dict[str, int]] = {}
        for kind, reason, n in self._rows(
            f"SELECT e.kind, e.stop_reason, count(*) FROM {EPISODES}"
            " WHERE v.name = ? AND v.split = ? GROUP BY e.kind, e.stop_reason ORDER BY 1, 2",
            (evaluation, split),
        ):
            counts.setdefault(kind, {})[reason] = n
        return counts

    def episode_keys(self, after: int = 0) -> list[tuple[int, str, str]]:
        """(key, id, purpose) of the episodes recorded after the one with that key, in their order.

        Keys ascend. A resumed run may give those of forgotten episodes to others.
        """
        return self._rows(
            "SELECT key, id, purpose FROM episodes WHERE key > ? ORDER BY key", (after,)
        )

    def call_counts(self, ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Episode id → (tool calls, those of them that could not be read as a call).

        An episode without any call has no entry.
        """
        rows = self._rows(
            "SELECT e.id, count(*), sum(json_extract(c.value, '$[0]') = '')"
            " FROM episodes e JOIN turns t ON t.episode_key = e.key, json_each(t.calls) c"
            " WHERE e.id IN (SELECT value FROM json_each(?)) GROUP BY e.key",
            (json.dumps(list(ids)),),
        )
        return {name: (calls, unread) for name, calls, unread in rows}

    def check_tallies(self, task: str) -> dict[str, dict[str, tuple[int, int]]]:
        """Suite → check → (passed, tried) over all recorded episodes of a task."""
        tallies: dict[str, dict[str, tuple[int, int]]] = {}
        for suite, name, passed, tried in self._rows(
            "SELECT c.suite, c.name, sum(c.passed), count(*) FROM checks c"
            " JOIN episodes e ON e.key = c.episode_key WHERE e.task = ?"
            " GROUP BY c.suite, c.name ORDER BY c.suite, min(c.position)",
            (task,),
        ):
            tallies.setdefault(suite, {})[name] = (passed, tried)
        return tallies

    def group_verdicts(self) -> dict[int, dict[str, int]]:
        """Step → verdict → number of groups sampled for it, the unused ones included."""
        counts: dict[int, dict[str, int]] = {}
        for step, verdict, n in self._rows(
            "SELECT step, verdict, count(*) FROM groups GROUP BY step, verdict ORDER BY step"
        ):
            of_step = counts.setdefault(step, {v.value: 0 for v in GroupVerdict})
            of_step[verdict] = n
        return counts

    def training_rewards(self) -> dict[int, TrainingRewards]:
        """Step → the rewards of its training episodes."""
        rows = self._rows(
            f"SELECT e.step, {_TALLY}, avg(e.raw), sum({_PAIRED}), sum({_PAIRED} AND e.raw >= 1),"
            f" sum({_PAIRED} AND e.heldout_reward >= 1) FROM episodes e"
            " WHERE e.purpose = 'train' GROUP BY e.step ORDER BY e.step"
        )
        return {
            step: TrainingRewards(Tally(solved, n, unscored), *figures)
            for step, solved, n, unscored, *figures in rows
        }

    def groups(
        self, step: int | None = None, task: str | None = None, kind: str | None = None
    ) -> list[GroupRecord]:
        """Training groups in the order in which they were recorded."""
        rows = self._rows(
            "SELECT g.id, g.step, g.task, g.kind, g.split, g.verdict, g.used,"
            " json_group_array(e.raw), count(DISTINCT e.files)"
            " FROM groups g LEFT JOIN episodes e ON e.group_key = g.key"
            " WHERE (? IS NULL OR g.step = ?) AND (? IS NULL OR g.task = ?)"
            " AND (? IS NULL OR g.kind = ?) GROUP BY g.key ORDER BY g.key",
            (step, step, task, task, kind, kind),
        )
        return [
            GroupRecord(
                name,
                at,
                of_task,
                of_kind,
                split,
                verdict,
                bool(used),
                tuple(json.loads(rewards)),
                distinct,
            )
            for name, at, of_task, of_kind, split, verdict, used, rewards, distinct in rows
        ]

    def episode_records(
        self,
        *,
        ids: Sequence[str] | None = None,
        group: str | None = None,
        task: str | None = None,
        evaluation: str | None = None,
        purpose: Literal["train", "eval"] | None = None,
        step: int | None = None,
    ) -> list[EpisodeRecord]:
        """The rows of the episodes that meet every given condition, in the order of recording."""
        wanted = {
            "e.group_id": group, "e.task": task, "v.name": evaluation, "e.purpose": purpose,
            "e.step": step,
        }  # fmt: skip
        conditions = {column: value for column, value in wanted.items() if value is not None}
        where = [f"{column} = ?" for column in conditions]
        values = list(conditions.values())
        if ids is not None:
            where.append("e.id IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(list(ids)))
        clause = f" WHERE {' AND '.join(where)}" if where else ""
        rows = self._rows(
            f"SELECT {_EPISODE_COLUMNS} FROM {EPISODES}{clause} ORDER BY e.key", values
        )
        return [_episode_record(row) for row in rows]

    def episode_page(
        self,
        offset: int,
        limit: int,
        order: str = "recorded",
        filters: EpisodeFilter = EpisodeFilter(),  # noqa: B008 - it is immutable
    ) -> tuple[list[EpisodeRecord], int]:
        """The chosen episodes numbered offset … offset + limit − 1, and how many are chosen.

        `order` is the name of a column, descending with a minus sign before it; "recorded" is the
        order of recording. What has no value in the column comes last.

        Raises: ValueError for a column that episodes cannot be sorted by.
        """
        rows, total = browsing.page(
            self._connection, _EPISODE_COLUMNS, offset, limit, order, filters
        )
        return [_episode_record(row) for row in rows], total

    def counts(
        self,
        by: Sequence[Dimension],
        filters: EpisodeFilter = EpisodeFilter(),  # noqa: B008 - it is immutable
    ) -> dict[tuple[Any, ...], Counts]:
        """Counts of the chosen episodes for each combination of `by`, ascending.

        `counts(["step"], EpisodeFilter(purpose="train"))[3,]` is the third step's training;
        with `["task", "step"]` each task has a curve, and with `[]` the only key is `()`.
        """
        return browsing.counts(self._connection, by, filters)

    def regressions(
        self,
        by: Sequence[Dimension],
        filters: EpisodeFilter = EpisodeFilter(),  # noqa: B008 - it is immutable
    ) -> dict[tuple[Any, ...], Regressions]:
        """What the chosen episodes broke of what passed untouched, as `counts` counts them."""
        return browsing.regressions(self._connection, by, filters)

    def episode(self, episode_id: str) -> Episode:
        """The whole episode as it was recorded.

        Raises: KeyError for an unknown id.
        """
        rows = self._rows(
            "SELECT key, task, group_id, kind, stop_reason, seconds, files, raw, components,"
            " potentials, reward, cause, cause_detail, heldout_reward, heldout_cause,"
            " heldout_cause_detail"
            " FROM episodes WHERE id = ?",
            (episode_id,),
        )
        if not rows:
            raise KeyError(episode_id)
        key, task, group, kind, stop_reason, seconds, files, *rest = rows[0]
        raw, components, potentials, *outcomes = rest
        reward, cause, detail, heldout_reward, heldout_cause, heldout_detail = outcomes
        outcome = encoding.outcome_from_columns(
            reward, cause, detail, self._checks(key, "training")
        )
        assert outcome is not None  # a CHECK of the schema
        if isinstance(outcome, Scored):
            outcome = replace(outcome, raw=raw, components=json.loads(components))
        return Episode(
            id=episode_id,
            task=task,
            group=group,
            trajectory=self._trajectory(key),
            outcome=outcome,
            stop_reason=StopReason(stop_reason),
            heldout=encoding.outcome_from_columns(
                heldout_reward, heldout_cause, heldout_detail, self._checks(key, "heldout")
            ),
            files=encoding.files_from_blob(files),
            seconds=json.loads(seconds),
            kind=kind,
            potentials=tuple(json.loads(potentials)),
        )

    def token_fields(self, episode_id: str, segment: int) -> dict[str, NDArray[Any]]:
        """The learner's values of a segment, one per action token, as far as they were recorded.

        Raises: KeyError for an unknown episode or segment.
        """
        rows = self._rows(
            f"SELECT {', '.join(f's.{name}' for name in TOKEN_FIELDS)} FROM segments s"
            " JOIN episodes e ON e.key = s.episode_key WHERE e.id = ? AND s.position = ?",
            (episode_id, segment),
        )
        if not rows:
            raise KeyError((episode_id, segment))
        return {
            name: encoding.from_blob(name, blob)
            for name, blob in zip(TOKEN_FIELDS, rows[0], strict=True)
            if blob is not None
        }

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        """The rows of one query, for sums and means that only one view needs."""
        return self._rows(sql, values)

    def untouched(self) -> dict[str, dict[str, dict[str, bool]]]:
        """Task → suite ("training", "heldout") → check → whether it passed before any work.

        A check that passed then and fails after an episode is a *regression*.
        """
        found: dict[str, dict[str, dict[str, bool]]] = {}
        for task, suite, name, passed in self._rows(
            "SELECT task, suite, name, passed FROM untouched ORDER BY task, suite, position"
        ):
            found.setdefault(task, {}).setdefault(suite, {})[name] = bool(passed)
        return found

    def _checks(self, key: int, suite: str) -> list[Check]:
        rows = self._rows(
            "SELECT name, passed, detail FROM checks WHERE episode_key = ? AND suite = ?"
            " ORDER BY position",
            (key, suite),
        )
        return [Check(name, bool(passed), detail) for name, passed, detail in rows]

    def _trajectory(self, key: int) -> Trajectory:
        segments = [
            encoding.segment_from_blobs(
                dict(
                    zip(
                        ("token_ids", "action_mask", "behaviour_logp", "version"),
                        blobs,
                        strict=True,
                    )
                ),
                parent,
                fork_position,
            )
            for parent, fork_position, *blobs in self._rows(
                "SELECT parent, fork_position, token_ids, action_mask, behaviour_logp, version"
                " FROM segments WHERE episode_key = ? ORDER BY position",
                (key,),
            )
        ]
        turns = [
            encoding.turn_from_columns(
                segment, (action[0], action[1]), (action[2], action[3]), text, calls
            )
            for segment, *action, text, calls in self._rows(
                "SELECT segment, action_start, action_stop, observation_start, observation_stop,"
                " text, calls FROM turns WHERE episode_key = ? ORDER BY position",
                (key,),
            )
        ]
        return Trajectory(segments, turns)

    def _each(self, sql: str) -> Iterator[Any]:
        """Rows one by one, of queries with many."""
        return self._connection.execute(sql)

    def _rows(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return self._connection.execute(sql, values).fetchall()


def _episode_record(row: Sequence[Any]) -> EpisodeRecord:
    fields = list(row)
    fields[9] = None if row[9] is None else int(row[9])
    fields[13], fields[14] = json.loads(row[13]), tuple(json.loads(row[14]))
    fields[19] = None if row[19] is None else bool(row[19])
    fields[-1] = json.loads(row[-1])
    return EpisodeRecord(*fields)


def _connect_read_only(database: Path) -> sqlite3.Connection:
    """Opens `database` read-only; a finished run may even lie on a read-only file system.

    SQLite's WAL wants to create its shared-memory file there; without a log left to read, the
    file can be read as it stands.
    """
    address = database.resolve().as_uri()
    connection = sqlite3.connect(f"{address}?mode=ro", uri=True, isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        if database.with_name(database.name + "-wal").exists():
            raise
        return sqlite3.connect(f"{address}?immutable=1", uri=True, isolation_level=None)
    except sqlite3.DatabaseError:
        pass  # not a database: require_schema says so
    return connection
