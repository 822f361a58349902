"""Runs the scanners over a run's episodes, each episode once, and keeps what they found.

findings.jsonl holds one finding a line. Beside it stands how far the scan has come, so that it
can go on, live or later. Where a run went back to a checkpoint, episodes were forgotten and their
numbers given to others: the scan then goes on from the newest mark before that.
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

_VERSION = 4
"""Changes with the scanners and with the form of what is saved."""
_SAVED_EVERY = 500
_MARKS = 50


@dataclass(frozen=True, slots=True)
class Progress:
    """A mark: the last episode scanned, by key, id and times (no two attempts take equally long),
    how many there were up to it, and how long findings.jsonl was then."""

    key: int = 0
    episode: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    scanned: int = 0
    bytes: int = 0


def scan_episode(episode: Episode, given: Given, purpose: str = "train") -> list[Finding]:
    """What every scanner finds in one episode; `given` is its task, or `Given(None)`."""
    material = Material(episode, given)
    return [
        Finding(episode.id, purpose, hit.turn, scanner.name, hit.text, hit.severity)
        for scanner in SCANNERS
        for hit in _looked(scanner, material)
    ]


def _looked(scanner: Scanner, material: Material) -> Sequence[Hit]:
    try:
        return list(dict.fromkeys(scanner.look(material)))
    except Exception as error:  # what a model wrote must not be able to end a scan unseen
        text = f"could not be scanned: {type(error).__name__}"
        return [Hit(text, Severity.INFO)]


def scan_run(
    reader: RunReader, tasks: Mapping[str, Task] | None = None, *, wait: bool = True
) -> list[Finding]:
    """Scans the episodes recorded since the last scan, those of training and of every evaluation,
    and appends what is found.

    `tasks` by name; by default those that the run's configuration names, as far as they are there.
    Safe on a live run, from one process at a time: a second waits, or with `wait=False` finds
    nothing and leaves the episodes to a later scan.

    Raises: OSError where the run directory cannot be written.
    """
    with _locked(reader.directory.scan_progress.with_suffix(".lock"), wait=wait) as ours:
        if not ours:
            return []
        marks = _valid_marks(reader)
        keys = reader.episode_keys(marks[-1].key if marks else 0)
        if not keys:
            return []
        if tasks is None:
            tasks = tasks_of_run(reader)
        return _scan(reader, tasks, keys, marks)


def _scan(
    reader: RunReader,
    tasks: Mapping[str, Task],
    keys: list[tuple[int, str, str]],
    marks: list[Progress],
) -> list[Finding]:
    untouched = reader.untouched()
    known: dict[str, Given] = {}
    every: list[Finding] = []
    last = marks[-1] if marks else Progress()
    size, scanned = last.bytes, last.scanned
    with reader.directory.findings.open("ab") as file:
        file.truncate(size)  # lines of a scan that was killed before it could say how far it was
        for n, (key, name, purpose) in enumerate(keys, 1):
            episode = reader.episode(name)
            task = episode.task
            if task not in known:
                known[task] = Given(tasks.get(task), untouched.get(task, {}))
            found = scan_episode(episode, known[task], purpose)
            every += found
            size += file.write(b"".join(_line(finding) for finding in found))
            if episode.seconds:  # without times, as of our own failures, it marks nothing
                last = Progress(key, name, dict(episode.seconds), scanned + n, size)
            if n % _SAVED_EVERY == 0 or n == len(keys):
                file.flush()
                if last not in marks[-1:] and last.key:
                    marks = _thinned([*marks, last])
                    _save(reader, marks)
    return every


def _thinned(marks: list[Progress]) -> list[Progress]:
    """The newest `_MARKS`, and as many older ones: those whose gaps are small for their age go.

    So a resume from far back scans little again beside what it has to play again.
    """
    if len(marks) <= 2 * _MARKS:
        return marks
    n = [m.scanned for m in marks]
    older = range(1, len(marks) - _MARKS)
    spare = min(older, key=lambda i: (n[i + 1] - n[i - 1]) / (n[-1] - n[i - 1]))
    return [*marks[:spare], *marks[spare + 1 :]]


def read_findings(reader: RunReader) -> tuple[list[dict[str, Any]], Progress]:
    """The findings so far in order of recording, and how far the scan has come."""
    marks = _valid_marks(reader)
    progress = marks[-1] if marks else Progress()
    try:
        data = reader.directory.findings.read_bytes()[: progress.bytes]
    except OSError:
        return [], Progress()
    # One array is read in half the time of its lines; a line of JSON holds no line end.
    found: list[dict[str, Any]] = json.loads(b"[" + b",".join(data.splitlines()) + b"]")
    return found, progress


def _line(finding: Finding) -> bytes:
    return json.dumps(finding.as_json()).encode() + b"\n"


def _valid_marks(reader: RunReader) -> list[Progress]:
    """The marks up to the newest that the history still has; those after it were cut off."""
    marks = _saved(reader)
    kept = {r.id: r.seconds for r in reader.episode_records(ids=[m.episode for m in marks])}
    while marks and not (marks[-1].seconds and kept.get(marks[-1].episode) == marks[-1].seconds):
        marks.pop()
    return marks


def _saved(reader: RunReader) -> list[Progress]:
    try:
        saved = json.loads(reader.directory.scan_progress.read_text())
        return [Progress(**m) for m in saved["marks"]] if saved["version"] == _VERSION else []
    except (OSError, ValueError, TypeError, KeyError):
        return []


def _save(reader: RunReader, marks: Sequence[Progress]) -> None:
    path = reader.directory.scan_progress
    scratch = path.with_suffix(".new")
    scratch.write_text(json.dumps({"version": _VERSION, "marks": [asdict(m) for m in marks]}))
    scratch.replace(path)


@contextmanager
def _locked(path: Path, *, wait: bool) -> Iterator[bool]:
    """Whether the lock is held inside; always, where it `wait`s."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)
