"""Directories that are there whole or not at all."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path


def write_directory(target: Path, fill: Callable[[Path], None], expected_bytes: int) -> None:
    """Calls `fill` on a temporary directory beside `target`, then renames it to `target`.

    Everything is on the disk before the rename, so a kill at any moment leaves either the old
    `target` or the new one, or, if an old one was being replaced, the old one beside it under
    `.replaced-NAME`.

    Raises:
        OSError: it could not be written; one sentence, and whatever was there before is intact.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(target.parent).free
    if free_bytes < expected_bytes:
        raise OSError(errno.ENOSPC, _no_room(target, expected_bytes, free_bytes))
    temporary = Path(tempfile.mkdtemp(prefix=f".writing-{target.name}-", dir=target.parent))
    try:
        try:
            fill(temporary)
            for path in temporary.rglob("*"):
                _sync(path)
            _sync(temporary)
        except Exception as error:
            # safetensors wraps the system's error in a type of its own, so the free space decides.
            full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            if not full and "os error" not in str(error).lower():
                raise
            free_bytes = shutil.disk_usage(target.parent).free
            message = _no_room(target, expected_bytes, free_bytes) + f" ({error})"
            raise OSError(errno.ENOSPC, message) from error
        _replace(temporary, target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    _sync(target.parent)


def _replace(temporary: Path, target: Path) -> None:
    temporary.chmod(0o755)  # mkdtemp made it private
    if not target.exists():
        temporary.rename(target)
        return
    replaced = target.with_name(f".replaced-{target.name}")
    shutil.rmtree(replaced, ignore_errors=True)
    target.rename(replaced)
    temporary.rename(target)
    shutil.rmtree(replaced)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _no_room(target: Path, expected_bytes: int, free_bytes: int) -> str:
    return (
        f"{target}: could not be written, it needs about {expected_bytes / 1e6:.0f} MB and "
        f"{free_bytes / 1e6:.0f} MB are free; earlier checkpoints are intact, free some space "
        "and resume"
    )
