"""Sandboxes that serve one episode after another."""

from __future__ import annotations

import threading

from steelyard.sandbox.errors import SandboxError
from steelyard.sandbox.sandbox import Sandbox
from steelyard.sandbox.settings import SandboxSettings


class SandboxPool:
    """Lends sandboxes to one episode at a time; starting one costs more than emptying it.

    A sandbox that comes back has every process in it killed and every writable place emptied
    before it is lent again; one for which that fails is closed instead. Thread-safe. The workspace
    is where the task has it, so that a path in an instruction means the same to agent and verifier.
    At most `max_idle` idle ones are kept, whatever their workspaces: the longest idle goes first.
    """

    def __init__(self, settings: SandboxSettings | None = None, *, max_idle: int = 64) -> None:
        self.settings = settings or SandboxSettings()
        self._max_idle = max_idle
        self._idle: list[Sandbox] = []  # in the order in which they came back
        self._lock = threading.Lock()
        self._closed = False

    def take(self, workspace: str) -> Sandbox:
        """An empty sandbox whose workspace lies there; a new one starts at its first request."""
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place].workspace == workspace:
                    return self._idle.pop(place)
        return Sandbox(self.settings, workspace=workspace)

    def give_back(self, sandbox: Sandbox) -> None:
        """Empties a sandbox for the next episode. Never raises."""
        try:
            if not self._closed:
                sandbox.wipe()
                with self._lock:
                    if not self._closed:
                        self._idle.append(sandbox)
                        if len(self._idle) <= self._max_idle:
                            return
                        sandbox = self._idle.pop(0)
        except (SandboxError, OSError):
            pass
        sandbox.close()

    def close(self) -> None:
        """Ends the idle sandboxes, and from now on each that comes back."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for sandbox in idle:
            sandbox.close()
