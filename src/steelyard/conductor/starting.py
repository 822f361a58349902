"""How a run begins: its tasks are read and audited, its record is started or opened again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.conductor.listener import Listener
from steelyard.conductor.screening import Screened, refuse_broken, screen
from steelyard.conductor.settings import RunSettings, as_table
from steelyard.conductor.workshop import tasks_of_split
from steelyard.grading import GradingSettings
from steelyard.models import LoadedModel
from steelyard.store import RunDirectory, RunNotFound, RunReader, RunStore, UnknownSchema
from steelyard.tasks import Task


def audited(tasks: RunTasks, listener: Listener, *, accept: bool) -> list[Screened]:
    """What the quick audit says of every task.

    Raises ValueError for a broken verifier, unless `accept`.
    """
    listener.phase("auditing the verifiers", len(tasks.every))
    screened = screen(tasks.every, GradingSettings(), lambda: listener.advance(1))
    if not accept:
        refuse_broken(screened)
    findings = [s for s in screened if s.problems]
    if findings:
        listener.note(
            f"the audit of the tasks proved something of {len(findings)}: {findings[0].sentence}"
        )
    return screened


def record_audit(store: RunStore, screened: Sequence[Screened]) -> None:
    """One event `audit` for each task with findings, and one `audited` that names the sound."""
    findings = [s for s in screened if s.problems]
    for s in findings:
        store.add_event("audit", s.sentence, task=s.task, verdict=s.verdict, kinds=list(s.kinds))
    store.add_event(
        "audited",
        f"the verifiers of {len(screened)} tasks, {len(findings)} of them with findings",
        sound=[s.task for s in screened if not s.problems],
    )


def open_store(settings: RunSettings, model: LoadedModel, *, resume: bool) -> RunStore:
    if resume:
        try:
            _require_same_settings(settings)
            return RunStore.open(settings.path)
        except RunNotFound:
            if not RunDirectory(settings.path).database.exists():
                raise
            # Killed before its record began: there is nothing to continue and nothing to lose.
    return RunStore.start(settings.path, as_table(settings), model=model.name)


def _require_same_settings(settings: RunSettings) -> None:
    """A run continues as it began, or its record would describe another one.

    Where numbers are sent besides the record changes nothing of it: sinks may come and go.

    Raises:
        ValueError: names the first key that differs.
    """
    try:
        with RunReader(settings.path) as reader:
            recorded, given = _flat(reader.config()), _flat(as_table(settings))
    except (RunNotFound, UnknownSchema):
        return  # nothing was recorded, or opening the store says what is wrong
    for key in sorted(recorded.keys() | given.keys()):
        if not key.startswith("sinks.") and recorded.get(key) != given.get(key):
            raise ValueError(
                f"{settings.path}: the run was started with {key} = {recorded.get(key)!r}, now it "
                f"is {given.get(key)!r}; resume with the same settings or start another run.name"
            )


def _flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= (
            _flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {prefix + key: value}
        )
    return flat


class RunTasks:
    """The run's tasks by split, all of them read before anything expensive begins."""

    def __init__(self, settings: RunSettings) -> None:
        section = settings.tasks

        def load(spec: str | None, split: str) -> list[Task]:
            return [] if spec is None else tasks_of_split(spec, split, section.reward)

        self.train = load(section.train, "train")
        self.dev = load(section.dev, "dev")
        self.test = load(section.test, "test")
        self.demonstrations = load(section.demonstrations, "demonstrations")
        if settings.warm_start is not None and not self.demonstrations:
            raise ValueError(
                "warm_start: there is nothing to imitate; name tasks with reference solutions in "
                "tasks.demonstrations, or drop [warm_start]"
            )

    @property
    def every(self) -> list[Task]:
        return [*self.train, *self.dev, *self.test, *self.demonstrations]
