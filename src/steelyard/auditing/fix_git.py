"""`--fix-git`: cuts a repository on the user's disk back to the commit that a task starts from."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from steelyard.agents.history import Pruned, prune_repository
from steelyard.sandbox import SandboxSettings


def find_repositories(directory: Path) -> list[Path]:
    """The folders with a `.git` directory at or below `directory`, in path order."""
    found = []
    for folder, subfolders, _ in os.walk(directory):
        if ".git" in subfolders:
            found.append(Path(folder))
        subfolders[:] = sorted(name for name in subfolders if name != ".git")
    return found


def prune_git(
    directory: Path, *, base: str = "HEAD", settings: SandboxSettings | None = None
) -> Pruned:
    """Replaces `directory/.git` by one that holds what `base` reaches and nothing else.

    The new one is made complete beside the old and then takes its place in two renames; the
    working tree is not touched, and what was staged is no longer. Raises ValueError with one
    sentence, and then the old one stands as it was.
    """
    git = directory / ".git"
    if git.is_file() or git.is_symlink():
        raise ValueError(f"{git}: it is a link to a repository elsewhere; prune that one")
    if not git.is_dir():
        raise ValueError(f"{directory}: it has no .git directory; name a folder that has one")
    fresh, old = directory / ".git.pruned", directory / ".git.unpruned"
    for path in (fresh, old):
        if path.exists():
            raise ValueError(f"{path}: it is left from an interrupted pruning; remove it")
    files = _read(git)
    try:
        pruned = prune_repository(files, base=base, settings=settings)
    except ValueError as error:
        raise ValueError(f"{git}: {error}") from None
    try:
        _write(pruned, fresh, like=git)
        git.rename(old)
    except BaseException:
        shutil.rmtree(fresh, ignore_errors=True)
        raise
    try:
        fresh.rename(git)
    except BaseException:
        old.rename(git)
        raise
    shutil.rmtree(old)
    return pruned


def describe(pruned: Pruned) -> str:
    """What was removed, in one sentence."""
    kept = f"what {pruned.base[:12]} reaches is left" if pruned.base else "it has no commit"
    if not pruned.objects_removed and not pruned.removed:
        return f"nothing to remove: {kept}"
    parts = [f"{pruned.objects_removed} objects", *pruned.removed]
    return f"removed {', '.join(parts)}; {kept}"


def _read(git: Path) -> dict[str, bytes]:
    files = {}
    for folder, subfolders, names in os.walk(git):
        for name in (*subfolders, *names):
            path = Path(folder, name)
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode):
                files[path.relative_to(git).as_posix()] = path.read_bytes()
            elif not stat.S_ISDIR(mode):
                raise ValueError(f"{path}: it is a link or special file; replace it by a copy")
    return files


def _write(pruned: Pruned, fresh: Path, like: Path) -> None:
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (fresh / folder).mkdir(parents=True)
    for path, data in pruned.files.items():
        target = fresh / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    owner = like.stat()
    for made in (fresh, *fresh.rglob("*")):
        os.chown(made, owner.st_uid, owner.st_gid)
