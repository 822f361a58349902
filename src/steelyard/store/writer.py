"""The one writer of a run's record."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import tomlkit

from steelyard.episodes import Check, Episode, Group
from steelyard.store import encoding
from steelyard.store.errors import (
    RunBusy,
    RunExists,
    RunNotFound,
    UnknownSchema,
    full_disk_as_sentence,
)
from steelyard.store.inserting import (
    insert_episode,
    insert_event,
    insert_untouched,
    update_tokens,
)
from steelyard.store.layout import RunDirectory
from steelyard.store.records import TokenFields
from steelyard.store.schema import SCHEMA_VERSION, STATEMENTS, require_schema, schema_version

Phase: TypeAlias = Literal["warm_start", "rl"]
FinalState: TypeAlias = Literal["finished", "interrupted", "failed"]

BASE_STEP = -1
"""The step of an evaluation of the base model, before any training."""
WARM_START_STEP = 0
"""The step of the policy that RL starts from. RL steps count from 1."""


class RunStore:
    """Writes `run.db` (SQLite, WAL); each call is one transaction.

    What a call recorded survives kill −9 as soon as the call has returned; a power failure can
    lose the latest calls, never the order or the consistency of the rest (`synchronous=NORMAL`).
    The methods may be called from several threads. A lock file keeps a second process out.

    Raises: `StoreFull` from any writing call when the disk is full; the call then left no trace.
    """

    def __init__(self, directory: RunDirectory, connection: sqlite3.Connection, lock: int) -> None:
        self.directory = directory
        self._connection = connection
        self._lock_descriptor = lock
        self._mutex = threading.Lock()
        self._closed = False

    @classmethod
    def start(
        cls,
        path: Path | str,
        config: Mapping[str, Any],
        *,
        model: str = "",
        model_fingerprint: str = "",
    ) -> Self:
        """Creates the run directory, its run.toml (from `config`, JSON values) and its run.db.

        Raises: RunExists where the directory already holds a run; RunBusy; StoreFull.
        """
        directory = RunDirectory(Path(path))
        with full_disk_as_sentence(directory.path):
            directory.path.mkdir(parents=True, exist_ok=True)
            lock = _acquire(directory)
            try:
                connection = _connect(directory)
            except BaseException:
                os.close(lock)
                raise
            store = cls(directory, connection, lock)
            try:
                if schema_version(connection) != 0:
                    raise RunExists(
                        f"{directory.path} already holds a run: continue it with --resume, choose"
                        " another run directory, or delete this one"
                    )
                directory.config_file.write_text(tomlkit.dumps(_without_none(config)))
                store._create(config, model, model_fingerprint)
            except BaseException:
                store.close()
                raise
        return store

    @classmethod
    def open(cls, path: Path | str) -> Self:
        """Opens an existing run to continue it.

        Raises: RunNotFound; UnknownSchema; RunBusy while another process writes it.
        """
        directory = RunDirectory(Path(path))
        if not directory.database.is_file():
            raise RunNotFound(f"no run to continue at {directory.path}: it has no run.db")
        with full_disk_as_sentence(directory.path):
            lock = _acquire(directory)
            try:
                connection = _connect(directory)
            except BaseException:
                os.close(lock)
                raise
        store = cls(directory, connection, lock)
        try:
            if schema_version(connection) == 0:
                raise RunNotFound(
                    f"no run to continue at {directory.path}: it was stopped before its record"
                    " began; start it without --resume"
                )
            require_schema(connection, directory.database)
            store.add_event("resumed", "the run was continued")
        except BaseException:
            store.close()
            raise
        return store

    def _create(self, config: Mapping[str, Any], model: str, model_fingerprint: str) -> None:
        meta = {
            "name": self.directory.name,
            "created": datetime.now(UTC).isoformat(timespec="seconds"),
            "steelyard": _own_version(),
            "model": model,
            "model_fingerprint": model_fingerprint,
            "config": encoding.to_json(config),
        }
        with self._transaction() as connection:
            for statement in STATEMENTS:
                connection.execute(statement)
            connection.executemany("INSERT INTO meta VALUES (?, ?)", meta.items())
            insert_event(connection, "started", "the run was started", None, {})
            connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def set_meta(self, key: str, value: str) -> None:
        """Sets one value of the meta table, replacing the earlier one."""
        with self._transaction() as connection:
            connection.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    def add_group(
        self,
        step: int,
        group: Group,
        split: str,
        used: bool,
        *,
        seeds: Sequence[int] | None = None,
    ) -> None:
        """Records a training group and its episodes; `used`: it entered the batch of `step` ≥ 1.

        `seeds` holds one seed per episode, in episode order.
        """
        assert step > WARM_START_STEP, "RL steps count from 1"
        kind = group.episodes[0].kind if group.episodes else ""
        with self._transaction() as connection:
            key = connection.execute(
                "INSERT INTO groups (id, step, task, kind, split, verdict, used)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (group.id, step, group.task, kind, split, group.verdict.value, used),
            ).lastrowid
            for sample, episode in enumerate(group.episodes):
                seed = None if seeds is None else seeds[sample]
                origin = {"purpose": "train", "group_key": key}
                insert_episode(connection, episode, origin, split, step, sample, seed)

    def add_evaluation(
        self,
        name: str,
        step: int,
        split: str,
        episodes: Sequence[Episode],
        *,
        seeds: Sequence[int] | None = None,
        seconds: float | None = None,
    ) -> None:
        """Records an evaluation (`base`, `warm_start`, `step-5`, `final`) and its episodes.

        `step` is BASE_STEP for the base model, WARM_START_STEP after the warm start, s after RL
        step s. `seconds` is its wall time. Raises ValueError if `name` is already recorded on
        `split`.
        """
        samples: dict[str, int] = {}
        with self._transaction() as connection:
            if connection.execute(
                "SELECT 1 FROM evaluations WHERE name = ? AND split = ?", (name, split)
            ).fetchone():
                raise ValueError(f"evaluation {name!r} on split {split!r} is already recorded")
            key = connection.execute(
                "INSERT INTO evaluations (name, split, step, time, seconds) VALUES (?, ?, ?, ?, ?)",
                (name, split, step, time.time(), seconds),
            ).lastrowid
            for index, episode in enumerate(episodes):
                sample = samples.get(episode.task, 0)
                samples[episode.task] = sample + 1
                seed = None if seeds is None else seeds[index]
                origin = {"purpose": "eval", "evaluation_key": key}
                insert_episode(connection, episode, origin, split, step, sample, seed)

    def add_metrics(
        self,
        step: int,
        phase: Phase,
        metrics: Mapping[str, float | None],
        *,
        version: int | None = None,
    ) -> None:
        """Records numbers of one step; a name that the step already has is replaced.

        `version` is the policy version that the step ended with. NaN and None are stored as
        missing.
        """
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO steps (phase, step, version, time) VALUES (?, ?, ?, ?)"
                " ON CONFLICT DO UPDATE SET version = coalesce(excluded.version, version),"
                " time = excluded.time",
                (phase, step, version, time.time()),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO metrics (phase, step, name, value) VALUES (?, ?, ?, ?)",
                [
                    (phase, step, name, None if value is None else float(value))
                    for name, value in metrics.items()
                ],
            )

    def add_event(self, kind: str, text: str, *, step: int | None = None, **data: Any) -> None:
        """Records that something happened; with `step`, it is forgotten with that step."""
        with self._transaction() as connection:
            insert_event(connection, kind, text, step, data)

    def set_token_fields(self, fields: Iterable[TokenFields]) -> None:
        """Adds what the learner computed of some segments: all of them, or none after an error.

        Raises: ValueError for an unknown episode or segment, or a wrong length.
        """
        with self._transaction() as connection:
            for of_segment in fields:
                update_tokens(connection, of_segment)

    def set_untouched(
        self, checks: Mapping[tuple[str, Literal["training", "heldout"]], Sequence[Check]]
    ) -> None:
        """Records, per task and suite, which named checks pass before anybody has worked."""
        with self._transaction() as connection:
            for (task, suite), of_suite in checks.items():
                insert_untouched(connection, task, suite, of_suite)

    def truncate_after(self, step: int) -> int:
        """Forgets everything after `step`, the checkpoint that a resumed run continues from.

        Groups, episodes, RL metrics, evaluations and events of later steps go, so that in the
        history that survives each episode was consumed exactly once. BASE_STEP also forgets the
        warm start. Returns how many training episodes were forgotten.
        """
        with self._transaction() as connection:
            (forgotten,) = connection.execute(
                "SELECT count(*) FROM episodes WHERE purpose = 'train' AND step > ?", (step,)
            ).fetchone()
            connection.execute("DELETE FROM groups WHERE step > ?", (step,))
            connection.execute("DELETE FROM evaluations WHERE step > ?", (step,))
            connection.execute("DELETE FROM events WHERE step > ?", (step,))
            connection.execute("DELETE FROM steps WHERE phase = 'rl' AND step > ?", (step,))
            if step < WARM_START_STEP:
                connection.execute("DELETE FROM steps WHERE phase = 'warm_start'")
        assert isinstance(forgotten, int)
        return forgotten

    def finish(self, state: FinalState, text: str = "") -> None:
        """Records how the run ended, and closes the store."""
        self.add_event(state, text)
        self.close()

    def close(self) -> None:
        """Closes the database and lets another process write. May be called twice."""
        with self._mutex:
            if self._closed:
                return
            self._closed = True
            self._connection.close()
            os.close(self._lock_descriptor)

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
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._mutex, full_disk_as_sentence(self.directory.database):
            assert not self._closed, "the store is closed"
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:  # KeyboardInterrupt too: a call leaves all or nothing
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _connect(directory: RunDirectory) -> sqlite3.Connection:
    connection = sqlite3.connect(
        directory.database, isolation_level=None, check_same_thread=False, timeout=30.0
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.DatabaseError as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError):
            raise
        raise UnknownSchema(
            f"{directory.database} cannot be read as a run database: {error}"
        ) from error
    return connection


def _acquire(directory: RunDirectory) -> int:
    """Takes the run's lock, which the kernel drops when the process dies, however it dies."""
    descriptor = os.open(directory.lock_file, os.O_RDWR | os.O_CREAT, 0o644)
    for _ in range(10):  # a reader that asks whether the run is live holds it for an instant
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            time.sleep(0.02)
    os.close(descriptor)
    raise RunBusy(
        f"{directory.path} is being written by another process: wait for it or stop it first"
    )


def _without_none(value: Any) -> Any:
    """TOML has no null: an absent key says the same."""
    if isinstance(value, Mapping):
        return {k: _without_none(v) for k, v in value.items() if v is not None}
    if isinstance(value, list | tuple):
        return [_without_none(v) for v in value if v is not None]
    return value


def _own_version() -> str:
    try:
        return version("steelyard")
    except PackageNotFoundError:
        return "unknown (not installed)"
