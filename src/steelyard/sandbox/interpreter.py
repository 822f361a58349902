"""The interpreter that runs in a bubblewrap sandbox."""

from __future__ import annotations

import functools
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from steelyard.sandbox.errors import SandboxUnavailable

# What lies below the sandbox's own directories would be hidden by them.
_OWN_DIRECTORIES = ("/work", "/app", "/tmp", "/dev", "/proc", "/run", "/etc", "/tests", "/logs")


@dataclass(frozen=True)
class SandboxPython:
    """The interpreter that runs in a sandbox, and the directory outside /usr that it needs."""

    executable: str
    prefix: str | None
    own: bool
    """Whether it is the running interpreter, and not the system's."""


@functools.cache
def find_python() -> SandboxPython:
    """The running interpreter if an unprivileged uid can read it, else the system's.

    Raises SandboxUnavailable if there is none.
    """
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    prefix = os.path.realpath(sys.base_prefix)
    hidden = any(Path(prefix).is_relative_to(directory) for directory in _OWN_DIRECTORIES)
    if not hidden and readable_by_others(prefix) and readable_by_others(base):
        needed = None if Path(prefix).is_relative_to("/usr") else prefix
        return SandboxPython(base, needed, own=True)
    return system_python()


def system_python() -> SandboxPython:
    """The system's interpreter. Raises SandboxUnavailable if there is none."""
    base = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    for candidate in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.path.exists(candidate) and readable_by_others(os.path.realpath(candidate)):
            return SandboxPython(candidate, None, own=os.path.realpath(candidate) == base)
    raise SandboxUnavailable(
        f"no Python for the sandbox: {base} cannot be read in it by an unprivileged user, and "
        "there is no /usr/bin/python3; install the system's python3"
    )


def readable_by_others(path: str) -> bool:
    """Whether the uid of a sandbox may execute `path`: ours, or as root that of a stranger."""
    if os.geteuid() != 0:
        return os.access(path, os.R_OK | os.X_OK)
    wanted = stat.S_IROTH | stat.S_IXOTH
    if os.stat(path).st_mode & wanted != wanted:
        return False
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in Path(path).parents)
