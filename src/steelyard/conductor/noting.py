"""Notes of a run: told to whoever watches it, and kept in its record."""

from __future__ import annotations

from steelyard.conductor.listener import Listener
from steelyard.store import RunStore


class Notes:
    """The notes of one run."""

    def __init__(self, store: RunStore, listener: Listener) -> None:
        self._store, self._listener = store, listener
        self._failed: set[tuple[str, str]] = set()

    def add(self, text: str) -> None:
        """Tells it, and records it."""
        self._listener.note(text)
        self._store.add_event("note", text)

    def failed(self, what: str, when: str, error: Exception) -> None:
        """Notes, once for each kind of error, that something failed which only looks at the run:
        that must not end it."""
        kind = type(error).__name__
        if (what, kind) not in self._failed:
            self._failed.add((what, kind))
            self.add(f"{what} after {when}: {kind}: {error}; the run goes on")
