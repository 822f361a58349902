"""Which runs the viewer shows, by names that can stand in a URL."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

from steelyard.monitor.scores import Json
from steelyard.monitor.summary import state
from steelyard.store import RunDirectory, RunNotFound, RunReader, UnknownSchema, lookup


class Runs:
    """The runs at `paths`: each a run directory, or a folder of them, which may still fill.

    A run is looked up by its name alone, so no URL reaches another directory. Where two have the
    same name, the later ones get a number.

    Raises: RunNotFound where a path is neither.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = tuple(paths)
        for path in paths:
            if not _directories(path):
                raise RunNotFound(
                    f"no run at {path}: neither it nor a folder directly in it holds a run.db"
                )

    def directories(self) -> dict[str, Path]:
        """Name → run directory, as they are now."""
        named: dict[str, Path] = {}
        seen: set[Path] = set()
        for directory in (d for path in self._paths for d in _directories(path)):
            if (resolved := directory.resolve()) in seen:
                continue
            seen.add(resolved)
            name, number = RunDirectory(directory).name, 2
            while name in named:
                name, number = f"{RunDirectory(directory).name}-{number}", number + 1
            named[name] = directory
        return named

    def listing(self) -> list[Json]:
        """What the list of runs shows of each. `stamp` changes whenever the run recorded more."""
        return [_entry(name, directory) for name, directory in self.directories().items()]


def _entry(name: str, directory: Path) -> Json:
    try:
        with RunReader(directory) as reader, reader.snapshot():
            meta = reader.meta()
            return {
                "run": name,
                "directory": str(directory),
                "state": state(reader, reader.events()),
                "model": meta["model"],
                "created": meta["created"],
                "stamp": lookup.stamp(reader),
                "error": None,
            }
    except (UnknownSchema, RunNotFound, sqlite3.Error) as error:
        return {
            "run": name, "directory": str(directory), "state": "unreadable", "model": "",
            "created": "", "stamp": "", "error": str(error),
        }  # fmt: skip


def _directories(path: Path) -> list[Path]:
    if RunDirectory(path).database.is_file():
        return [path]
    if not path.is_dir():
        return []
    return sorted(p for p in path.iterdir() if RunDirectory(p).database.is_file())
