"""What looks at a run while it goes on: alarms, announced and obeyed, and scans for shortcuts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from steelyard.conductor.listener import Listener
from steelyard.monitor.alarms import Action, Alarm, AlarmSettings, check_alarms, read_steps
from steelyard.monitor.scanners import scan_run
from steelyard.store import RunReader, RunStore
from steelyard.tasks import Task

ALARM = "alarm"
ROLLBACK = "rollback"
"""Kinds of event. A rollback is an event of no step, so that no later truncation forgets it."""


class Paused(Exception):
    """An alarm ended the run in order; it can be resumed. The text says why and how."""


class Watch:
    """What the alarms of one run have said; those of an earlier process of it are known."""

    def __init__(
        self, path: Path, settings: AlarmSettings, planned: int, store: RunStore, listener: Listener
    ) -> None:
        """`planned` is the number of RL steps that the false-alarm rate is spent over."""
        self._path, self._settings, self._planned = path, settings, planned
        self._store, self._listener = store, listener
        self._raised: set[tuple[str, str]] = set()
        self.quarantined: frozenset[str] = frozenset()
        with RunReader(path) as reader:
            # Steps that an earlier process took are part of the record that alarms look at.
            self._record = read_steps(reader) if settings.on else []
            for event in reader.events(ALARM):
                data = event.data
                self._remember((data["name"], data["subject"]), data["action"], data["tasks"])

    def after_step(self, step: int) -> list[Alarm]:
        """The alarms that step `step` raised for the first time, recorded and announced."""
        if not self._settings.on:
            return []
        began = time.monotonic()
        with RunReader(self._path) as reader:
            known = self._record[-1].step if self._record else 0
            self._record += read_steps(reader, known)
        record = self._record
        if self.quarantined:  # what tasks that are sampled no more did must not raise it again
            record = [s.without(self.quarantined) for s in record]
        alarms = check_alarms(record, self._settings, self._planned, self._raised)
        for alarm in alarms:
            self._store.add_event(ALARM, alarm.text, step=step, **alarm.as_json())
            self._remember(alarm.key, alarm.action, alarm.tasks)
            self._listener.alarm(alarm)
        self._store.add_metrics(step, "rl", {"seconds_watching": time.monotonic() - began})
        return alarms

    def _remember(self, key: tuple[str, str], action: Action, tasks: Sequence[str]) -> None:
        if action == "quarantine" and tasks:
            self.quarantined |= set(tasks)  # it may be raised again, by others
        else:
            self._raised.add(key)


def scan_for_shortcuts(path: Path, tasks: Mapping[str, Task], store: RunStore, step: int) -> None:
    """Scans the episodes recorded since the last scan; what is found lies apart from the data.

    A directory that cannot be written to is not this function's to complain of.
    """
    began = time.monotonic()
    with suppress(OSError), RunReader(path) as reader:
        scan_run(reader, tasks, wait=False)  # another that was stopped must not stop the run
    store.add_metrics(step, "rl", {"seconds_scanning": time.monotonic() - began})


def strongest(alarms: Sequence[Alarm]) -> Alarm | None:
    """The alarm that decides how the run goes on: one that rolls back, else one that pauses."""
    for action in ("rollback", "pause"):
        for alarm in alarms:
            if alarm.action == action:
                return alarm
    return None


def rolled_back_to(path: Path) -> int | None:
    """The step that the run was rolled back to, if it was."""
    with RunReader(path) as reader:
        steps: list[int] = [event.data["to_step"] for event in reader.events(ROLLBACK)]
    return steps[-1] if steps else None
