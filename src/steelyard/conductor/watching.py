"""What looks at a run while it goes on: alarms, announced and obeyed, and scans for shortcuts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from steelyard.conductor.noting import Notes
from steelyard.monitor.alarms import Action, Alarm, AlarmSettings, check_alarms, read_steps
from steelyard.monitor.alarms.settings import FamilySettings
from steelyard.monitor.scanners import scan_run
from steelyard.store import RunReader, RunStore
from steelyard.tasks import Task

ALARM = "alarm"
PAUSED = "paused"
ROLLBACK = "rollback"
"""Kinds of event. A rollback is an event of no step, so that no later truncation forgets it."""


class Paused(Exception):
    """An alarm ended the run in order. The text says why.

    `resumable` is False where resuming would only end it again.
    """

    def __init__(self, text: str, *, resumable: bool = True) -> None:
        super().__init__(text)
        self.resumable = resumable


class ShortcutScan:
    """Scans the episodes of training and of every evaluation for shortcuts as they are recorded.

    What is found lies apart from the data, and nothing acts on it. A scan that fails is noted.
    """

    def __init__(self, path: Path, tasks: Sequence[Task], notes: Notes) -> None:
        self._path, self._notes = path, notes
        self._tasks = {task.name: task for task in reversed(tasks)}

    def scan(self, when: str) -> float:
        """Scans what was recorded since the last scan, and says how many seconds it took; `when`
        ("step 3") stands in the note where it fails."""
        began = time.monotonic()
        try:
            with RunReader(self._path) as reader:
                # Somebody else who scans and was stopped must not stop the run.
                scan_run(reader, self._tasks, wait=False)
        except Exception as error:
            self._notes.failed("the episodes could not be scanned for shortcuts", when, error)
        return time.monotonic() - began


class Watch:
    """What the alarms of one run have said; those of an earlier process of it are known.

    Where checking them fails, a note says so.
    """

    def __init__(
        self, path: Path, settings: AlarmSettings, planned: int, store: RunStore, notes: Notes
    ) -> None:
        """`planned` is the number of RL steps that the false-alarm rate is spent over."""
        self._path, self._settings, self._planned = path, settings, planned
        self._store, self._notes = store, notes
        self._raised: set[tuple[str, str]] = set()
        self.quarantined: frozenset[str] = frozenset()
        with RunReader(path) as reader:
            # Steps that an earlier process took are part of the record that alarms look at.
            self._record = read_steps(reader) if settings.on else []
            for event in reader.events(ALARM):
                data = event.data
                self._remember((data["name"], data["subject"]), data["action"], data["tasks"])

    def after_step(self, step: int) -> list[Alarm]:
        """The alarms that step `step` raised for the first time, recorded; the caller announces
        them."""
        if not self._settings.on:
            return []
        began = time.monotonic()
        try:
            alarms = self._look()
        except Exception as error:
            self._notes.failed("the alarms could not be checked", f"step {step}", error)
            alarms = []
        for alarm in alarms:
            self._store.add_event(ALARM, alarm.text, step=step, **alarm.as_json())
            self._remember(alarm.key, alarm.action, alarm.tasks)
        self._store.add_metrics(step, "rl", {"seconds_watching": time.monotonic() - began})
        return alarms

    def _look(self) -> list[Alarm]:
        with RunReader(self._path) as reader:
            known = self._record[-1].step if self._record else 0
            self._record += read_steps(reader, known)
        record = self._record
        if self.quarantined:  # what tasks that are sampled no more did must not raise it again
            record = [s.without(self.quarantined) for s in record]
        return check_alarms(record, self._settings, self._planned, self._raised)

    def _remember(self, key: tuple[str, str], action: Action, tasks: Sequence[str]) -> None:
        if action == "quarantine" and tasks:
            self.quarantined |= set(tasks)  # it may be raised again, by others
        else:
            self._raised.add(key)


def strongest(alarms: Sequence[Alarm]) -> Alarm | None:
    """The alarm that decides how the run goes on: one that rolls back, else one that pauses."""
    for action in ("rollback", "pause"):
        for alarm in alarms:
            if alarm.action == action:
                return alarm
    return None


def unheeded(path: Path, step: int) -> Alarm | None:
    """The alarm of step `step` that decides how the run goes on and that nobody has obeyed yet:
    the process ended between its record and its action."""
    with RunReader(path) as reader:
        if reader.events(ROLLBACK):
            return None
        paused = any(event.step == step for event in reader.events(PAUSED))
        recorded = [event for event in reader.events(ALARM) if event.step == step]
    alarms = [
        Alarm(
            name=event.data["name"],
            step=step,
            text=event.text,
            evidence=event.data["evidence"],
            action=event.data["action"],
            subject=event.data["subject"],
        )
        for event in recorded
    ]
    alarm = strongest(alarms)
    return None if alarm is not None and alarm.action == "pause" and paused else alarm


def checkpoints_kept(keep: int, settings: AlarmSettings) -> int:
    """How many of the latest checkpoints stay, of `keep` asked for: where an alarm may roll the
    run back, the newest has an older one beside it, for the newest may be what went wrong."""
    families = [s for _, s in settings if isinstance(s, FamilySettings) and s.on]
    rolls_back = any((f.on_alarm or settings.on_alarm) == "rollback" for f in families)
    return max(keep, 2) if settings.on and rolls_back else keep


def rolled_back_to(path: Path) -> int | None:
    """The step that the run was rolled back to, if it was."""
    with RunReader(path) as reader:
        steps: list[int] = [event.data["to_step"] for event in reader.events(ROLLBACK)]
    return steps[-1] if steps else None
