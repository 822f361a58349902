"""Runs the scanners over a run's episodes, each episode once, and keeps what they found.

findings.jsonl holds one finding a line. Beside it stands how far the scan has come, so that it
can go on, live or later. Where a run went back to a checkpoint, episodes were forgotten and their
numbers given to others: the scan then starts anew.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from steelyard.episodes import Episode
from steelyard.monitor.run_tasks import tasks_of_run
from steelyard.monitor.scanners.answers import ANSWER_SCANNERS
from steelyard.monitor.scanners.code import CODE_SCANNERS
from steelyard.monitor.scanners.commands import COMMAND_SCANNERS
from steelyard.monitor.scanners.files import FILE_SCANNERS
from steelyard.monitor.scanners.finding import Finding, Hit, Scanner, Severity
from steelyard.monitor.scanners.material import Given, Material
from steelyard.monitor.scanners.regressions import REGRESSION_SCANNERS
from steelyard.store import RunReader
from steelyard.tasks import Task

SCANNERS: tuple[Scanner, ...] = (
    *COMMAND_SCANNERS, *CODE_SCANNERS, *FILE_SCANNERS, *ANSWER_SCANNERS, *REGRESSION_SCANNERS,
)  # fmt: skip

_VERSION = 1
_SAVED_EVERY = 500


@dataclass(frozen=True, slots=True)
class Progress:
    """The last episode scanned, by key, id and times (no two attempts take equally long), and how
    long findings.jsonl was then. `version` changes with the scanners."""

    key: int = 0
    episode: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    scanned: int = 0
    bytes: int = 0
    version: int = _VERSION


def scan_episode(episode: Episode, given: Given) -> list[Finding]:
    """What every scanner finds in one episode; `given` is its task, or `Given(None)`."""
    material = Material(episode, given)
    return [
        Finding(episode.id, hit.turn, scanner.name, hit.text, hit.severity)
        for scanner in SCANNERS
        for hit in _looked(scanner, material)
    ]


def _looked(scanner: Scanner, material: Material) -> Sequence[Hit]:
    try:
        return list(dict.fromkeys(scanner.look(material)))
    except Exception as error:  # what a model wrote must not be able to end a scan unseen
        text = f"could not be scanned: {type(error).__name__}"
        return [Hit(text, Severity.INFO)]


def scan_run(reader: RunReader, tasks: Mapping[str, Task] | None = None) -> list[Finding]:
    """Scans the episodes recorded since the last scan and appends what is found.

    `tasks` by name; by default those that the run's configuration names, as far as they are there.
    Safe on a live run, from one process at a time: a second waits.

    Raises: OSError where the run directory cannot be written.
    """
    with _locked(reader.directory.scan_progress.with_suffix(".lock")):
        progress = _resumable(reader, _progress(reader))
        keys = reader.episode_keys(progress.key)
        if not keys:
            return []
        if tasks is None:
            tasks = tasks_of_run(reader)
        return _scan(reader, tasks, keys, progress)


def _scan(
    reader: RunReader, tasks: Mapping[str, Task], keys: list[tuple[int, str]], progress: Progress
) -> list[Finding]:
    untouched = reader.untouched()
    known: dict[str, Given] = {}
    every: list[Finding] = []
    size, scanned = progress.bytes, progress.scanned
    with reader.directory.findings.open("ab") as file:
        file.truncate(size)  # lines of a scan that was killed before it could say how far it was
        for n, (key, name) in enumerate(keys, 1):
            episode = reader.episode(name)
            task = episode.task
            if task not in known:
                known[task] = Given(tasks.get(task), untouched.get(task, {}))
            found = scan_episode(episode, known[task])
            every += found
            size += file.write(b"".join(_line(finding) for finding in found))
            if n % _SAVED_EVERY == 0 or n == len(keys):
                file.flush()
                _save(reader, Progress(key, name, dict(episode.seconds), scanned + n, size))
    return every


def read_findings(reader: RunReader) -> tuple[list[dict[str, Any]], Progress]:
    """The findings so far in order of recording, and how far the scan has come."""
    progress = _resumable(reader, _progress(reader))
    try:
        data = reader.directory.findings.read_bytes()[: progress.bytes]
    except OSError:
        return [], Progress()
    return [json.loads(line) for line in data.splitlines()], progress


def _line(finding: Finding) -> bytes:
    return json.dumps(finding.as_json()).encode() + b"\n"


def _resumable(reader: RunReader, progress: Progress) -> Progress:
    """The progress, or none where the history that it belongs to was cut since."""
    if progress.version != _VERSION:
        return Progress()
    last = reader.episode_records(ids=[progress.episode])
    return progress if last and last[0].seconds == progress.seconds else Progress()


def _progress(reader: RunReader) -> Progress:
    try:
        return Progress(**json.loads(reader.directory.scan_progress.read_text()))
    except (OSError, ValueError, TypeError):
        return Progress()


def _save(reader: RunReader, progress: Progress) -> None:
    path = reader.directory.scan_progress
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps(asdict(progress)))
    scratch.replace(path)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
