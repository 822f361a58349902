"""What can go wrong with a run directory that its user can put right."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StoreFull(OSError):
    """The disk is full. The record before the failed call is intact."""


class RunNotFound(ValueError):
    """There is no run in the directory."""


class RunExists(ValueError):
    """The directory already holds a run."""


class RunBusy(ValueError):
    """Another process is writing the run."""


class UnknownSchema(ValueError):
    """run.db was written by another version, or is not a run database at all."""


@contextmanager
def full_disk_as_sentence(path: Path) -> Iterator[None]:
    """Turns "no space left" from SQLite or the file system into `StoreFull`."""
    try:
        yield
    except (sqlite3.OperationalError, OSError) as error:
        code = getattr(error, "sqlite_errorcode", None)
        if code == sqlite3.SQLITE_FULL or getattr(error, "errno", None) == errno.ENOSPC:
            raise StoreFull(
                errno.ENOSPC,
                "the disk is full; what was recorded before is intact: free some space and"
                " continue with --resume",
                str(path),
            ) from error
        raise
