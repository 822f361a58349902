"""What of a finished workspace a verifier gets: the declared paths of a separate verifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import PurePosixPath


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file or folder of the workspace; `path` "" is the whole of it.

    Of a folder, what an `exclude` pattern matches by its name or by its path in the folder stays
    behind.
    """

    path: str
    exclude: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CollectHook:
    """A shell command that runs in the finished workspace before its artifacts are taken."""

    command: str
    timeout_seconds: float = 60.0


@dataclass(frozen=True, slots=True)
class Handover:
    """`artifacts` empty: the whole workspace. Hooks run first, in order."""

    artifacts: tuple[Artifact, ...] = ()
    collect: tuple[CollectHook, ...] = ()

    def select(self, given: Mapping[str, bytes], left: Mapping[str, bytes]) -> dict[str, bytes]:
        """The verifier's workspace: the files `given` to the agent under what it `left`.

        As in Harbor, an artifact that was not left changes nothing, and a folder that was left
        replaces the given one.
        """
        if not self.artifacts:
            return dict(left)
        files = dict(given)
        for artifact in self.artifacts:
            if artifact.path in left:
                files[artifact.path] = left[artifact.path]
                continue
            prefix = f"{artifact.path}/" if artifact.path else ""
            taken = {
                path: data
                for path, data in left.items()
                if path.startswith(prefix) and not _excluded(path[len(prefix) :], artifact.exclude)
            }
            if taken:
                files = {p: d for p, d in files.items() if not p.startswith(prefix)} | taken
        return files


def _excluded(path: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern matches the path in the folder, or a part of it by name."""
    parts = PurePosixPath(path).parts
    starts = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    return any(fnmatchcase(text, p) for p in patterns for text in (*parts, *starts))
