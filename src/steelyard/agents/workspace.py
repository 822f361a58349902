"""The files an agent works on, and the sandbox in which its commands run."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from steelyard.sandbox import Completed, Sandbox, SandboxError, SandboxPool
from steelyard.tasks.task import WORKING_DIRECTORY


class Workspace:
    """A task's files, edited by name; a sandbox is taken only when a command is run.

    Reading and editing touch no disk, so a path can name nothing outside. Files travel into the
    sandbox before a command and, as regular files only, back out after it. `variables` are those
    of the task's environment, `directory` is where the files lie for a command.
    """

    def __init__(
        self,
        files: Mapping[str, bytes],
        sandboxes: SandboxPool,
        variables: Mapping[str, str] | None = None,
        directory: str = WORKING_DIRECTORY,
    ) -> None:
        self.files: dict[str, bytes] = dict(files)
        self.given = tuple(sorted(files))
        # No clutter among the agent's files, unless the task asks for it.
        self._variables = {"PYTHONDONTWRITEBYTECODE": "1", **(variables or {})}
        self._sandboxes = sandboxes
        self._directory = directory
        self._sandbox: Sandbox | None = None
        self._closed = False
        self._lock = threading.Lock()

    def give(self, files: Mapping[str, bytes]) -> None:
        """Lays the files of a further step over those that are there."""
        self.files = {**self.files, **files}
        self.given = tuple(sorted({*self.given, *files}))

    def run(self, argv: Sequence[str], *, timeout_seconds: float) -> Completed:
        """Runs a command among the files; afterwards `files` is what it left.

        Raises:
            OSError: the agent left no room or no way for its own files (a full workspace).
            SandboxError: the sandbox could not start or died.
        """
        with self._lock:
            if self._closed:
                raise SandboxError("the episode has ended")
            if self._sandbox is None:
                self._sandbox = self._sandboxes.take(self._directory)
            self._sandbox.put(self.files)
            completed = self._sandbox.run(
                argv, timeout_seconds=timeout_seconds, env=self._variables
            )
            self.files = self._sandbox.collect()
            return completed

    def close(self) -> None:
        """Gives the sandbox back, which ends everything that still runs in it.

        An episode whose time is up may leave a command running in another thread; this waits for
        it, so that the next episode never shares the sandbox with it.
        """
        with self._lock:
            self._closed = True
            if self._sandbox is not None:
                self._sandboxes.give_back(self._sandbox)
                self._sandbox = None
