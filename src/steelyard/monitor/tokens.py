"""The view `tokens`: a segment exactly as the model saw it, with what was recorded per token."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from steelyard.episodes import NO_VERSION, Segment
from steelyard.models.places import conversion_of, gguf_of
from steelyard.models.vocabulary import decoder_of
from steelyard.monitor.scores import Json
from steelyard.monitor.terms import read_terms
from steelyard.store import RunReader

_TOKENIZER = "tokenizer.json"


def tokens(reader: RunReader, ids: Sequence[str]) -> Json:
    """The tokens of a segment. ids: an episode id, and a segment's number (the first without one).

    `fields` has one value per token: `id`, `action` (whether the policy sampled it), `version`,
    `behaviour_logp`, and of the learner what it computed: `prox_logp`, `advantage`, and more where
    the record has it; null for tokens that carry no such value. `text` holds each token decoded by
    itself, or is null where the run's tokenizer is not at hand. `turns` holds the half-open token
    range of each action. Terms: `offset=2000`, `limit=1000`.

    Raises: ValueError for an unknown episode or segment.
    """
    terms = read_terms(ids, ())
    if not 1 <= len(terms.names) <= 2:
        raise ValueError("the view tokens needs an episode's id, and takes a segment's number")
    episode_id, number = terms.names[0], _number(*terms.names[1:])
    try:
        trajectory = reader.episode(episode_id).trajectory
    except KeyError:
        raise ValueError(f"the run has no episode {episode_id!r}") from None
    if number >= len(trajectory.segments):
        raise ValueError(
            f"episode {episode_id!r} has {len(trajectory.segments)} segments, numbered from 0;"
            f" there is no segment {number}"
        )
    segment = trajectory.segments[number]
    end = len(segment) if terms.limit is None else terms.offset + terms.limit
    window = slice(terms.offset, end)
    chosen = segment.token_ids[window]
    found, decoded = _decoded(reader, chosen)
    return {
        "episode": episode_id,
        "segment": number,
        "segments": len(trajectory.segments),
        "total": len(segment),
        "offset": terms.offset,
        "tokenizer": found,
        "text": decoded,
        "turns": [list(t.action) for t in trajectory.turns if t.segment == number],
        "fields": {
            name: values[window] for name, values in _fields(reader, episode_id, number, segment)
        },
    }


def _fields(
    reader: RunReader, episode_id: str, number: int, segment: Segment
) -> list[tuple[str, list[Any]]]:
    mask = np.asarray(segment.action_mask, dtype=np.bool_)
    learned = reader.token_fields(episode_id, number)
    return [
        ("id", segment.token_ids),
        ("action", segment.action_mask),
        ("version", [None if v == NO_VERSION else v for v in segment.version]),
        ("behaviour_logp", _spread(np.asarray(segment.behaviour_logp)[mask], mask)),
        *((name, _spread(values, mask)) for name, values in learned.items()),
    ]


def _spread(values: NDArray[Any], mask: NDArray[np.bool_]) -> list[Any]:
    """One value per token from one per action token: null for the context's."""
    spread: list[Any] = [None] * len(mask)
    for position, value in zip(np.flatnonzero(mask).tolist(), values.tolist(), strict=True):
        spread[position] = value
    return spread


def _decoded(reader: RunReader, ids: Sequence[int]) -> tuple[str | None, list[str] | None]:
    for file in _tokenizer_files(reader):
        tokenizer = _load(file, file.stat().st_mtime_ns)
        if tokenizer is not None:
            texts = tokenizer.decode_batch([[i] for i in ids], skip_special_tokens=False)
            return str(file), texts
    return None, None


def _tokenizer_files(reader: RunReader) -> Iterator[Path]:
    """Where the run's tokenizer may lie: its newest checkpoint, its reference, its model."""
    directory = reader.directory
    folders = [directory.checkpoint(s) for s in reversed(directory.checkpoint_steps())]
    folders.append(directory.reference)
    for folder in folders:
        if (file := folder / _TOKENIZER).is_file():
            yield file
    of_model = _model_file(reader.meta()["model"])
    if of_model is not None:
        yield of_model


def _model_file(spec: str) -> Path | None:
    """What tells the tokens of the model that `spec` names, if it is on this machine."""
    try:
        gguf = gguf_of(spec)
        file = (Path(spec).expanduser() if gguf is None else conversion_of(gguf)) / _TOKENIZER
        return file if file.is_file() else gguf
    except (OSError, ValueError):
        return None


@functools.lru_cache(maxsize=4)
def _load(file: Path, changed: int) -> Any:
    return decoder_of(file)


def _number(text: str = "0") -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 7):
        raise ValueError(f"a segment's number is a whole number from 0 on, got {text!r}")
    return int(text)
