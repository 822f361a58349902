"""How one episode, its checks and its tokens become rows."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

from steelyard.episodes import Check, Episode, Outcome, Scored, Trajectory
from steelyard.store import encoding
from steelyard.store.records import TokenFields


def insert_event(
    connection: sqlite3.Connection, kind: str, text: str, step: int | None, data: Mapping[str, Any]
) -> None:
    connection.execute(
        "INSERT INTO events (time, step, kind, text, data) VALUES (?, ?, ?, ?, ?)",
        (time.time(), step, kind, encoding.to_text(text), encoding.to_json(data)),
    )


def insert_episode(
    connection: sqlite3.Connection,
    episode: Episode,
    origin: Mapping[str, Any],
    split: str,
    step: int,
    sample: int,
    seed: int | None,
) -> None:
    reward, cause, cause_detail = encoding.outcome_to_columns(episode.outcome)
    scored = episode.outcome if isinstance(episode.outcome, Scored) else None
    heldout_reward, heldout_cause, heldout_detail = encoding.outcome_to_columns(episode.heldout)
    columns: dict[str, Any] = {
        **origin,
        "id": episode.id,
        "group_id": episode.group,
        "task": episode.task,
        "kind": episode.kind,
        "split": split,
        "step": step,
        "sample": sample,
        "seed": None if seed is None else str(seed),  # may exceed SQLite's 64-bit integers
        "stop_reason": episode.stop_reason.value,
        "reward": reward,
        "raw": scored.raw if scored else None,
        "components": json.dumps(dict(scored.components) if scored else {}),
        "potentials": json.dumps(episode.potentials),
        "cause": cause,
        "cause_detail": cause_detail,
        "heldout_reward": heldout_reward,
        "heldout_cause": heldout_cause,
        "heldout_cause_detail": heldout_detail,
        "solved": episode.solved,
        "n_turns": len(episode.trajectory.turns),
        **_call_counts(episode.trajectory),
        "oldest_version": min(_action_versions(episode.trajectory), default=None),
        "n_action_tokens": episode.trajectory.n_action_tokens,
        "n_tokens": episode.trajectory.n_tokens,
        "seconds": json.dumps(dict(episode.seconds)),
        "files": encoding.files_to_blob(episode.files),
    }
    key = connection.execute(
        f"INSERT INTO episodes ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
        tuple(columns.values()),
    ).lastrowid
    assert key is not None
    _insert_checks(connection, key, "training", episode.outcome)
    _insert_checks(connection, key, "heldout", episode.heldout)
    _insert_trajectory(connection, key, episode)
    _insert_tool_uses(connection, key, episode.trajectory)


def insert_untouched(
    connection: sqlite3.Connection, task: str, suite: str, checks: Sequence[Check]
) -> None:
    """Replaces what was known of the task. Checks of one name count as one: all must pass."""
    connection.execute("DELETE FROM untouched WHERE task = ? AND suite = ?", (task, suite))
    passed: dict[str, bool] = {}
    for check in checks:
        name = encoding.to_text(check.name)
        passed[name] = passed.get(name, True) and check.passed
    connection.executemany(
        "INSERT INTO untouched (task, suite, position, name, passed) VALUES (?, ?, ?, ?, ?)",
        [(task, suite, i, *row) for i, row in enumerate(passed.items())],
    )


def update_tokens(connection: sqlite3.Connection, fields: TokenFields) -> None:
    """Raises: ValueError for an unknown episode or segment, or a wrong length."""
    row = connection.execute(
        "SELECT s.episode_key, s.n_action_tokens FROM segments s JOIN episodes e"
        " ON e.key = s.episode_key WHERE e.id = ? AND s.position = ?",
        (fields.episode, fields.segment),
    ).fetchone()
    if row is None:
        raise ValueError(f"no segment {fields.segment} of episode {fields.episode!r} is recorded")
    key, n_action_tokens = row
    blobs: dict[str, bytes] = {}
    for name, values in fields.given().items():
        blobs[name] = encoding.to_blob(name, values)
        length = len(blobs[name]) // encoding.TOKEN_DTYPES[name].itemsize
        if length != n_action_tokens:
            raise ValueError(
                f"{name} of episode {fields.episode!r}, segment {fields.segment}: {length} values"
                f" for {n_action_tokens} action tokens"
            )
    if blobs:
        connection.execute(
            f"UPDATE segments SET {', '.join(f'{name} = ?' for name in blobs)}"
            " WHERE episode_key = ? AND position = ?",
            (*blobs.values(), key, fields.segment),
        )


def _call_counts(trajectory: Trajectory) -> dict[str, int]:
    calls = trajectory.calls
    return {
        "n_calls": len(calls),
        "n_call_errors": sum(call.error for call in calls),
        "n_repeated_calls": trajectory.n_repeated_calls,
    }


def _action_versions(trajectory: Trajectory) -> Iterator[int]:
    for segment in trajectory.segments:
        yield from compress(segment.version, segment.action_mask)


def _insert_tool_uses(connection: sqlite3.Connection, key: int, trajectory: Trajectory) -> None:
    n: Counter[str] = Counter()
    n_errors: Counter[str] = Counter()
    for call in trajectory.calls:
        name = encoding.to_text(call.name)
        n[name] += 1
        n_errors[name] += call.error
    connection.executemany(
        "INSERT INTO tool_uses (episode_key, tool, n, n_errors) VALUES (?, ?, ?, ?)",
        [(key, name, n[name], n_errors[name]) for name in n],
    )


def _insert_checks(
    connection: sqlite3.Connection, key: int, suite: str, outcome: Outcome | None
) -> None:
    if not isinstance(outcome, Scored):
        return
    connection.executemany(
        "INSERT INTO checks (episode_key, suite, position, name, passed, detail)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        [
            (key, suite, i, encoding.to_text(c.name), c.passed, encoding.to_text(c.detail))
            for i, c in enumerate(outcome.checks)
        ],
    )


def _insert_trajectory(connection: sqlite3.Connection, key: int, episode: Episode) -> None:
    connection.executemany(
        "INSERT INTO turns (episode_key, position, segment, action_start, action_stop,"
        " observation_start, observation_stop, text, calls) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                key,
                i,
                turn.segment,
                *turn.action,
                *turn.observation,
                encoding.to_text(turn.text),
                encoding.calls_to_json(turn.calls),
            )
            for i, turn in enumerate(episode.trajectory.turns)
        ],
    )
    for i, segment in enumerate(episode.trajectory.segments):
        arrays = segment.arrays()
        connection.execute(
            "INSERT INTO segments (episode_key, position, parent, fork_position, n_tokens,"
            f" n_action_tokens, {', '.join(arrays)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                key,
                i,
                segment.parent,
                segment.fork_position,
                len(segment),
                segment.n_action_tokens,
                *(encoding.to_blob(name, values) for name, values in arrays.items()),
            ),
        )
