"""Which alarms hold after the last step of a record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

from steelyard.monitor.alarms import (
    auxiliary,
    divergence,
    exploration,
    length,
    mismatch,
    numerics,
    staleness,
    unscored,
    verifier,
)
from steelyard.monitor.alarms.alarm import Alarm, Finding
from steelyard.monitor.alarms.facts import History, StepFacts
from steelyard.monitor.alarms.settings import AlarmSettings, FamilySettings

Family: TypeAlias = Callable[[History, Any, float], Iterable[Finding]]

_FAMILIES: dict[str, tuple[float, Family]] = {
    "divergence": (0.4, divergence.findings),
    "verifier": (0.15, verifier.findings),
    "exploration": (0.1, exploration.findings),
    "auxiliary": (0.1, auxiliary.findings),
    "length": (0.1, length.findings),
    "unscored": (0.05, unscored.findings),
    "numerics": (0.05, numerics.findings),
    "mismatch": (0.025, mismatch.findings),
    "staleness": (0.025, staleness.findings),
}
"""Each family with its share of the run's false-alarm rate. They sum to 1."""

_NO_TASK = (
    "no task is to blame, so none is quarantined and the run goes on "
    '(alarms.{}.on_alarm = "pause" would end it)'
)


def check_alarms(
    record: Sequence[StepFacts],
    settings: AlarmSettings,
    planned: int,
    known: Collection[tuple[str, str]] = (),
) -> list[Alarm]:
    """The alarms that hold after the last step of `record`, of a run of `planned` steps.

    P(any alarm in an honest run) ≤ false_alarm_rate: each family spends its share, divided evenly
    over its checks in the run (Bonferroni, which holds however the checks depend on each other; at
    most 50 checks a run, spread evenly). A pure function: an alarm that goes on to hold is returned
    again, unless its (name, subject) is `known`. Where the run file asks for a quarantine and no
    task is to blame, the alarm warns, and its text says so.
    """
    if not record or not settings.on:
        return []
    history = History(record, planned, settings.reference_steps, known)
    alarms = []
    for name, (share, family) in _FAMILIES.items():
        section: FamilySettings = getattr(settings, name)
        if not section.on:
            continue
        for found in family(history, section, share * settings.false_alarm_rate):
            if (found.name, found.subject) in known:
                continue
            action, text = section.on_alarm or settings.on_alarm, found.text
            if action == "quarantine" and not found.tasks:
                action, text = "warn", f"{text}; {_NO_TASK.format(name)}"
            alarms.append(
                Alarm(
                    name=found.name,
                    step=history.now.step,
                    text=text,
                    evidence=found.evidence,
                    episodes=found.episodes,
                    action=action,
                    subject=found.subject,
                    tasks=found.tasks,
                )
            )
    return alarms
