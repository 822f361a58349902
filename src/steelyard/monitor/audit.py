"""The view `audit`: what the audit of the verifiers, before the run began, said of each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from steelyard.monitor.scores import Json
from steelyard.store import Event, RunReader

_WORST_FIRST = ("broken", "weak", None, "sound")
_SOUND = "the quick audit proved nothing against it"


def audit(reader: RunReader, ids: Sequence[str]) -> Json:
    """The audited tasks, worst first, and one sentence on all of them. ids: names of tasks.

    `sentence` of a task holds its proved findings, `kinds` what kinds they are of. A reward
    function is one task, whatever its examples. `sound` of `verdicts` is null where the record
    names only the tasks with findings, or no audit at all: nothing is called sound that was not
    looked at. `recorded` tells the two apart.

    Raises: ValueError for a task that the record of the audit does not name.
    """
    found = [_with_findings(event) for event in reader.events("audit")]
    whole = reader.events("audited")
    found += [_sound(task) for event in whole for task in event.data["sound"]]
    found.sort(key=lambda row: _WORST_FIRST.index(row["verdict"]))
    counts = Counter(row["verdict"] for row in found)
    named = {row["task"] for row in found}
    for name in ids:
        if name not in named:
            raise ValueError(f"the run's record of the audit names no task {name!r}")
    return {
        "recorded": "all" if whole else "findings" if found else "nothing",
        "sentence": _sentence(len(found), counts, whole=bool(whole)),
        "verdicts": {
            "broken": counts["broken"],
            "weak": counts["weak"],
            "sound": counts["sound"] if whole else None,
        },
        "tasks": [row for row in found if not ids or row["task"] in ids],
    }


def _with_findings(event: Event) -> Json:
    """A task of which something was proved; records of old name neither task nor verdict."""
    task, verdict = event.data.get("task"), event.data.get("verdict")
    return {
        "task": task,
        "verdict": verdict,
        "kinds": event.data.get("kinds", []),
        "sentence": event.text.removeprefix(f"{verdict}: {task}: "),
    }


def _sound(task: str) -> Json:
    return {"task": task, "verdict": "sound", "kinds": [], "sentence": _SOUND}


def _sentence(n: int, counts: Counter[str | None], *, whole: bool) -> str:
    began = "The quick audit of the verifiers, before the run began,"
    bad = n - counts["sound"]
    tasks = "1 task" if n == 1 else f"{n} tasks"
    named = ", ".join(f"{counts[v]} {v}" for v in ("broken", "weak") if counts[v])
    if not n and not whole:
        return "The record holds no finding of an audit, and does not say whether there was one."
    if not whole:
        return f"{began} proved something of {tasks}. Which others were sound is not recorded."
    if not bad:
        return f"{began} proved nothing against any of {tasks}: all sound."
    others = "; the rest are sound" if bad < n else ""
    return f"{began} proved something of {bad} of {tasks}: {named}{others}."
