"""How the parts of an episode become column values, and back."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steelyard.episodes import (
    Cause,
    Check,
    Outcome,
    Scored,
    Segment,
    ToolCall,
    Turn,
    Unscored,
)

TOKEN_DTYPES = {
    "token_ids": np.dtype("<i4"),
    "action_mask": np.dtype("?"),
    "behaviour_logp": np.dtype("<f4"),
    "version": np.dtype("<i4"),
    "prox_logp": np.dtype("<f4"),
    "advantage": np.dtype("<f4"),
    "entropy": np.dtype("<f4"),
    "log_ratio": np.dtype("<f4"),
    "limited": np.dtype("?"),
}
"""Byte order is part of the file format, so it is spelled out."""


def to_blob(field: str, values: ArrayLike) -> bytes:
    return np.asarray(values, dtype=TOKEN_DTYPES[field]).tobytes()


def from_blob(field: str, blob: bytes) -> NDArray[Any]:
    return np.frombuffer(blob, dtype=TOKEN_DTYPES[field])


def segment_from_blobs(
    blobs: Mapping[str, bytes], parent: int | None, fork_position: int | None
) -> Segment:
    fields = {name: from_blob(name, blob).tolist() for name, blob in blobs.items()}
    return Segment(**fields, parent=parent, fork_position=fork_position)


def to_text(text: str) -> str:
    """`text` as SQLite can hold it: lone surrogates, which UTF-8 lacks, are written as escapes.

    A policy can write one (`"\\ud800"` in a JSON string), and must not be able to stop a run.
    """
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=str)


def calls_to_json(calls: Sequence[ToolCall]) -> str:
    return to_json([[c.name, c.arguments, c.result, c.error] for c in calls])


def turn_from_columns(
    segment: int, action: tuple[int, int], observation: tuple[int, int], text: str, calls: str
) -> Turn:
    parsed = tuple(ToolCall(*fields) for fields in json.loads(calls))
    return Turn(segment, action, observation, text, parsed)


def files_to_blob(files: Mapping[str, bytes]) -> bytes:
    """Compressed JSON with sorted names, so that equal workspaces give equal blobs.

    Latin-1 maps each byte to one character, whatever the file holds.
    """
    table = {name: data.decode("latin-1") for name, data in files.items()}
    return zlib.compress(json.dumps(table, sort_keys=True).encode())


def files_from_blob(blob: bytes) -> dict[str, bytes]:
    table: dict[str, str] = json.loads(zlib.decompress(blob))
    return {name: text.encode("latin-1") for name, text in table.items()}


def outcome_to_columns(outcome: Outcome | None) -> tuple[float | None, str | None, str | None]:
    """(reward, cause, cause detail): one of the first two is set, none for no outcome."""
    if outcome is None:
        return None, None, None
    if isinstance(outcome, Scored):
        return outcome.reward, None, None
    return None, outcome.cause.value, to_text(outcome.detail)


def outcome_from_columns(
    reward: float | None, cause: str | None, detail: str | None, checks: Sequence[Check]
) -> Outcome | None:
    if reward is not None:
        return Scored(reward, tuple(checks))
    if cause is not None:
        return Unscored(Cause(cause), detail or "")
    return None
