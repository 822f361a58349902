"""The tables of run.db.

A number that a chart needs is a column; what only one episode's page needs is JSON; token data is
one array blob per segment and field. `solved` is NULL where no verdict exists, so that COUNT and
SUM over it never turn an error into a zero.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from steelyard.store.errors import UnknownSchema

SCHEMA_VERSION = 3

STATEMENTS = (
    "CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL)",
    """
    CREATE TABLE steps (
        phase TEXT NOT NULL CHECK (phase IN ('warm_start', 'rl')),
        step INTEGER NOT NULL,
        version INTEGER,
        time REAL NOT NULL,
        PRIMARY KEY (phase, step)
    )
    """,
    """
    CREATE TABLE metrics (
        phase TEXT NOT NULL,
        step INTEGER NOT NULL,
        name TEXT NOT NULL,
        value REAL,
        PRIMARY KEY (phase, step, name),
        FOREIGN KEY (phase, step) REFERENCES steps (phase, step) ON DELETE CASCADE
    )
    """,
    """
    CREATE TABLE groups (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        step INTEGER NOT NULL,
        task TEXT NOT NULL,
        kind TEXT NOT NULL,
        split TEXT NOT NULL,
        verdict TEXT NOT NULL,
        used INTEGER NOT NULL
    )
    """,
    "CREATE INDEX groups_step ON groups (step)",
    """
    CREATE TABLE evaluations (
        key INTEGER PRIMARY KEY,
        name TEXT NOT NULL,
        split TEXT NOT NULL,
        step INTEGER NOT NULL,
        time REAL NOT NULL,
        seconds REAL,
        UNIQUE (name, split)
    )
    """,
    """
    CREATE TABLE episodes (
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        group_id TEXT NOT NULL,
        group_key INTEGER REFERENCES groups (key) ON DELETE CASCADE,
        evaluation_key INTEGER REFERENCES evaluations (key) ON DELETE CASCADE,
        purpose TEXT NOT NULL CHECK (purpose IN ('train', 'eval')),
        task TEXT NOT NULL,
        kind TEXT NOT NULL,
        split TEXT NOT NULL,
        step INTEGER NOT NULL,
        sample INTEGER NOT NULL,
        seed TEXT,
        stop_reason TEXT NOT NULL,
        reward REAL,
        raw REAL,
        components TEXT NOT NULL,
        potentials TEXT NOT NULL,
        cause TEXT,
        cause_detail TEXT,
        heldout_reward REAL,
        heldout_cause TEXT,
        heldout_cause_detail TEXT,
        solved INTEGER,
        n_turns INTEGER NOT NULL,
        n_calls INTEGER NOT NULL,
        n_call_errors INTEGER NOT NULL,
        n_repeated_calls INTEGER NOT NULL,
        oldest_version INTEGER,
        n_action_tokens INTEGER NOT NULL,
        n_tokens INTEGER NOT NULL,
        seconds TEXT NOT NULL,
        files BLOB NOT NULL,
        CHECK ((reward IS NULL) != (cause IS NULL)),
        CHECK ((reward IS NULL) = (raw IS NULL)),
        CHECK ((purpose = 'train') = (group_key IS NOT NULL)),
        CHECK ((purpose = 'eval') = (evaluation_key IS NOT NULL))
    )
    """,
    "CREATE INDEX episodes_group ON episodes (group_key)",
    "CREATE INDEX episodes_group_id ON episodes (group_id)",
    "CREATE INDEX episodes_task ON episodes (task)",
    "CREATE INDEX episodes_evaluation ON episodes (evaluation_key)",
    # Whatever lists, filters, sorts or averages episodes reads this index alone: it is a tenth of
    # the table, whose rows carry the workspaces.
    """
    CREATE INDEX episodes_listing ON episodes (
        purpose, step, task, kind, split, group_id, evaluation_key, sample, stop_reason, cause,
        reward, raw, heldout_reward, heldout_cause, solved, n_turns, n_calls, n_call_errors,
        n_repeated_calls, oldest_version, n_action_tokens, n_tokens, id
    )
    """,
    """
    CREATE TABLE tool_uses (
        episode_key INTEGER NOT NULL REFERENCES episodes (key) ON DELETE CASCADE,
        tool TEXT NOT NULL,
        n INTEGER NOT NULL,
        n_errors INTEGER NOT NULL,
        PRIMARY KEY (episode_key, tool)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE checks (
        episode_key INTEGER NOT NULL REFERENCES episodes (key) ON DELETE CASCADE,
        suite TEXT NOT NULL CHECK (suite IN ('training', 'heldout')),
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        passed INTEGER NOT NULL,
        detail TEXT NOT NULL,
        PRIMARY KEY (episode_key, suite, position)
    )
    """,
    """
    CREATE TABLE untouched (
        task TEXT NOT NULL,
        suite TEXT NOT NULL CHECK (suite IN ('training', 'heldout')),
        position INTEGER NOT NULL,
        name TEXT NOT NULL,
        passed INTEGER NOT NULL,
        PRIMARY KEY (task, suite, name)
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE turns (
        episode_key INTEGER NOT NULL REFERENCES episodes (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        segment INTEGER NOT NULL,
        action_start INTEGER NOT NULL,
        action_stop INTEGER NOT NULL,
        observation_start INTEGER NOT NULL,
        observation_stop INTEGER NOT NULL,
        text TEXT NOT NULL,
        calls TEXT NOT NULL,
        PRIMARY KEY (episode_key, position)
    )
    """,
    """
    CREATE TABLE segments (
        episode_key INTEGER NOT NULL REFERENCES episodes (key) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        parent INTEGER,
        fork_position INTEGER,
        n_tokens INTEGER NOT NULL,
        n_action_tokens INTEGER NOT NULL,
        token_ids BLOB NOT NULL,
        action_mask BLOB NOT NULL,
        behaviour_logp BLOB NOT NULL,
        version BLOB NOT NULL,
        prox_logp BLOB,
        advantage BLOB,
        entropy BLOB,
        log_ratio BLOB,
        limited BLOB,
        PRIMARY KEY (episode_key, position)
    )
    """,
    """
    CREATE TABLE events (
        key INTEGER PRIMARY KEY,
        time REAL NOT NULL,
        step INTEGER,
        kind TEXT NOT NULL,
        text TEXT NOT NULL,
        data TEXT NOT NULL
    )
    """,
)


def schema_version(connection: sqlite3.Connection) -> int:
    """0 for a database that holds no run yet."""
    version_found = connection.execute("PRAGMA user_version").fetchone()[0]
    assert isinstance(version_found, int)
    return version_found


def require_schema(connection: sqlite3.Connection, database: Path) -> None:
    """Raises UnknownSchema unless `database` has this version's tables."""
    try:
        found = schema_version(connection)
    except sqlite3.DatabaseError as error:
        raise UnknownSchema(f"{database} cannot be read as a run database: {error}") from error
    if found != SCHEMA_VERSION:
        raise UnknownSchema(
            f"{database} has schema version {found}, this Steelyard reads and writes version"
            f" {SCHEMA_VERSION}: use the Steelyard that wrote it, or start a new run"
        )
