"""The view `changes`: what an episode did to its workspace, as far as the record can tell."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from pathlib import Path

from steelyard.monitor.run_tasks import task_specs
from steelyard.monitor.scores import Json
from steelyard.store import RunReader
from steelyard.tasks import Task, read_task

_CONTEXT_LINES = 3
_MAX_LINES = 4000
"""Of one file: difflib's time grows with the square."""


def changes(reader: RunReader, ids: Sequence[str]) -> Json:
    """The files of an episode against what it began with. ids: an episode, and one to compare with.

    With one id the files are compared with the task's start files, if the run file still names a
    task of that name; `against` says with what. A record holds the files that the task hands over
    for grading, so a file is never shown as deleted unless the other episode has it. `lines` are
    [mark, text], the mark being " ", "+", "-" or "@".

    Raises: ValueError for an unknown episode.
    """
    if not 1 <= len(ids) <= 2:
        raise ValueError("the view changes needs an episode's id, and takes a second one")
    episode = _files(reader, ids[0])
    before: Mapping[str, bytes] | None
    if len(ids) == 2:
        before, against = _files(reader, ids[1]), f"episode {ids[1]}"
        names = sorted({*before, *episode})
    else:
        before, against = _start_files(reader, ids[0])
        names = sorted(episode)
    return {
        "episode": ids[0],
        "against": against,
        "files": []
        if before is None
        else [_change(name, before.get(name), episode.get(name)) for name in names],
    }


def _files(reader: RunReader, episode_id: str) -> Mapping[str, bytes]:
    try:
        return reader.episode(episode_id).files
    except KeyError:
        raise ValueError(f"the run has no episode {episode_id!r}") from None


def _start_files(reader: RunReader, episode_id: str) -> tuple[Mapping[str, bytes] | None, str]:
    (record,) = reader.episode_records(ids=[episode_id])
    specs = {spec for spec, _ in task_specs(reader.config())}
    for folder in sorted(Path(spec).expanduser() for spec in specs):
        task = _task(folder, record.task)
        if task is not None:
            return task.files, "the task's start files"
    return None, "nothing: the tasks that the run file names are not on this machine"


def _task(folder: Path, name: str) -> Task | None:
    """The task of that name whose directory is `folder`, in it, or in a folder of it."""
    own_name = name.rpartition("/")[2]
    for directory in (
        folder,
        *_folders(folder),
        *(f for d in _folders(folder) for f in _folders(d)),
    ):
        if directory.name == own_name and (directory / "task.toml").is_file():
            try:
                task = read_task(directory)
            except (ValueError, OSError):
                continue  # it no longer loads
            if task.name == name:
                return task
    return None


def _folders(folder: Path) -> list[Path]:
    try:
        return sorted(f for f in folder.iterdir() if f.is_dir())
    except OSError:
        return []


def _change(name: str, before: bytes | None, after: bytes | None) -> Json:
    if before is None or after is None:
        status = "added" if before is None else "deleted"
    else:
        status = "unchanged" if before == after else "changed"
    return {"name": name, "status": status, "lines": _lines(before, after)}


def _lines(before: bytes | None, after: bytes | None) -> list[list[str]]:
    old, new = _text(before), _text(after)
    if max(len(old), len(new)) > _MAX_LINES:
        return [["@", f"not compared: more than {_MAX_LINES} lines"]]
    drawn = list(difflib.unified_diff(old, new, n=_CONTEXT_LINES, lineterm=""))[2:]
    return [[line[0], line[1:] if line[0] != "@" else line] for line in drawn]


def _text(data: bytes | None) -> list[str]:
    """Split at line feeds alone: a hostile file may hold every other kind of separator."""
    text = (data or b"").decode("utf-8", "replace")
    return text.removesuffix("\n").split("\n") if text else []
