"""Which named checks pass before anybody has worked: graded once for each content of a task.

A check that passes then and fails after an episode is a regression. The audit's result is taken
where it has one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

import steelyard.grading
from steelyard.conductor.caching import keep
from steelyard.episodes import Check, Scored
from steelyard.grading import Grader
from steelyard.models.places import cache_directory
from steelyard.tasks import Task

Suite: TypeAlias = Literal["training", "heldout"]
Untouched: TypeAlias = dict[tuple[str, Suite], tuple[Check, ...]]
"""(task, suite) → its checks on the untouched workspace."""


def suites(task: Task) -> tuple[Suite, ...]:
    """The suites that an episode can break something of: none where the agent hands in an answer,
    before which there is nothing to be broken."""
    if task.answer is not None:
        return ()
    return ("training",) if task.heldout is None else ("training", "heldout")


def untouched(
    tasks: Sequence[Task], grader: Grader, on_done: Callable[[], None] = lambda: None
) -> Untouched:
    """The checks of every suite of the tasks, from the cache or graded now.

    What could not be scored is left out, and tried again by the next run.
    """

    def measured(wanted: tuple[Task, Suite]) -> tuple[Check, ...] | None:
        task, suite = wanted
        checks = recall(task, suite)
        if checks is None:
            outcome = grader.grade(task, task.files, heldout=suite == "heldout")
            if isinstance(outcome, Scored):
                checks = remember(task, suite, outcome.checks)
        on_done()
        return checks

    wanted = [(task, suite) for task in tasks for suite in suites(task)]
    with ThreadPoolExecutor(grader.settings.workers) as pool:
        found = list(pool.map(measured, wanted))
    return {
        (task.name, suite): checks
        for (task, suite), checks in zip(wanted, found, strict=True)
        if checks is not None
    }


def recall(task: Task, suite: Suite) -> tuple[Check, ...] | None:
    """What the cache knows of this content; None for nothing."""
    try:
        rows = json.loads(_place(task, suite).read_text())
        return tuple(Check(str(name), bool(passed)) for name, passed in rows)
    except (OSError, ValueError, TypeError):
        return None


def remember(task: Task, suite: Suite, checks: Sequence[Check]) -> tuple[Check, ...]:
    """Puts the verdicts, without their details, into the cache, and returns them."""
    verdicts = tuple(Check(check.name, check.passed) for check in checks)
    keep(_place(task, suite), json.dumps([[check.name, check.passed] for check in verdicts]))
    return verdicts


def _place(task: Task, suite: Suite) -> Path:
    digest = hashlib.sha256(_grading_code())
    digest.update(repr(replace(task, source=None)).encode())
    return cache_directory() / "untouched" / f"{digest.hexdigest()}.{suite}.json"


@cache
def _grading_code() -> bytes:
    """The grader's own sources: another grader may judge otherwise."""
    folder = Path(steelyard.grading.__file__).parent
    return b"".join(path.read_bytes() for path in sorted(folder.rglob("*.py")))
