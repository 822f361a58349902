"""Sandboxes that serve one episode after another."""

from __future__ import annotations

import queue

from steelyard.sandbox.errors import SandboxError
from steelyard.sandbox.sandbox import Sandbox
from steelyard.sandbox.settings import SandboxSettings


class SandboxPool:
    """Lends sandboxes to one episode at a time; starting one costs more than emptying it.

    A sandbox that comes back has every process in it killed and every writable place emptied
    before it is lent again; one for which that fails is closed instead. Thread-safe. The workspace
    is where Harbor has it, so that a path in an instruction means the same to agent and verifier.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        workspace: str = "/app",
        max_idle: int = 64,
    ) -> None:
        self.settings = settings or SandboxSettings()
        self._workspace = workspace
        self._idle: queue.LifoQueue[Sandbox] = queue.LifoQueue(max_idle)
        self._closed = False

    def take(self) -> Sandbox:
        """An empty sandbox; a new one starts at its first request."""
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return Sandbox(self.settings, workspace=self._workspace)

    def give_back(self, sandbox: Sandbox) -> None:
        """Empties a sandbox for the next episode. Never raises."""
        try:
            if self._closed:
                sandbox.close()
                return
            sandbox.wipe()
            self._idle.put_nowait(sandbox)
        except (SandboxError, OSError, queue.Full):
            sandbox.close()

    def close(self) -> None:
        """Ends the idle sandboxes, and from now on each that comes back."""
        self._closed = True
        while True:
            try:
                self._idle.get_nowait().close()
            except queue.Empty:
                return
