"""Sandboxes that serve one episode after another."""

from __future__ import annotations

import threading
from collections import defaultdict

from steelyard.sandbox.errors import SandboxError
from steelyard.sandbox.sandbox import Sandbox
from steelyard.sandbox.settings import SandboxSettings


class SandboxPool:
    """Lends sandboxes to one episode at a time; starting one costs more than emptying it.

    A sandbox that comes back has every process in it killed and every writable place emptied
    before it is lent again; one for which that fails is closed instead. Thread-safe. The workspace
    is where the task has it, so that a path in an instruction means the same to agent and verifier.
    At most `max_idle` sandboxes of each workspace are kept.
    """

    def __init__(self, settings: SandboxSettings | None = None, *, max_idle: int = 64) -> None:
        self.settings = settings or SandboxSettings()
        self._max_idle = max_idle
        self._idle: dict[str, list[Sandbox]] = defaultdict(list)
        self._lock = threading.Lock()
        self._closed = False

    def take(self, workspace: str = "/app") -> Sandbox:
        """An empty sandbox whose workspace lies there; a new one starts at its first request."""
        with self._lock:
            idle = self._idle[workspace]
            return idle.pop() if idle else Sandbox(self.settings, workspace=workspace)

    def give_back(self, sandbox: Sandbox) -> None:
        """Empties a sandbox for the next episode. Never raises."""
        try:
            if not self._closed:
                sandbox.wipe()
                with self._lock:
                    idle = self._idle[sandbox.workspace]
                    if not self._closed and len(idle) < self._max_idle:
                        idle.append(sandbox)
                        return
        except (SandboxError, OSError):
            pass
        sandbox.close()

    def close(self) -> None:
        """Ends the idle sandboxes, and from now on each that comes back."""
        with self._lock:
            self._closed = True
            idle = [sandbox for sandboxes in self._idle.values() for sandbox in sandboxes]
            self._idle.clear()
        for sandbox in idle:
            sandbox.close()
