"""Proves the labels of the corpus by execution: what each case's texts say, the grader does."""

from __future__ import annotations

import argparse
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

from attacks import attacks_on
from corpus import CASES, SOUND, Case, write_case
from corpus.case import Change, text

from steelyard.episodes import Outcome, Scored
from steelyard.grading import Grader
from steelyard.tasks import Task, TaskWarning, load_tasks

_TRIES = 40
"""Grades of the reference of a flaky case: one that fails a third of the time hides for long."""


def tasks_of(case: Case, folder: Path) -> list[Task]:
    """Writes the case below `folder` and reads it as a user would."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TaskWarning)
        return load_tasks(write_case(case, folder))


def after(task: Task, change: Change) -> dict[str, bytes]:
    """The workspace with an agent's change."""
    files = dict(task.files)
    for path, content in change.items():
        if content is None:
            del files[path]
        else:
            files[path] = content if isinstance(content, bytes) else text(content).encode()
    return files


def reference_of(case: Case, task: Task) -> dict[str, bytes]:
    """The workspace with the reference: solution/files, or the column of the right answer."""
    if case.is_text:
        row = task.verifier.row  # type: ignore[union-attr]
        return {"answer.txt": str(row.get("expected", row.get("answer"))).encode()}
    assert task.solution is not None
    return {**task.files, **task.solution}


def second_references(case: Case) -> Iterator[tuple[str, Mapping[str, bytes]]]:
    """The files of each of solutions/NAME/files."""
    names = sorted({path.split("/")[1] for path in case.files if path.startswith("solutions/")})
    for name in names:
        prefix = f"solutions/{name}/files/"
        yield (
            name,
            {
                path.removeprefix(prefix): data
                for path, data in case.files.items()
                if path.startswith(prefix)
            },
        )


def reward_of(outcome: Outcome) -> float | None:
    """The reward, or None where there is none."""
    return outcome.reward if isinstance(outcome, Scored) else None


def false_labels(case: Case, folder: Path, grader: Grader) -> list[str]:
    """One sentence for each statement of the case that execution contradicts."""
    tasks = tasks_of(case, folder)
    wrong: list[str] = []

    def expect(what: str, task: Task, files: Mapping[str, bytes], wanted: float | None) -> None:
        outcome = grader.grade(task, files)
        if reward_of(outcome) != wanted:
            wrong.append(f"{case.name}: {what} gets {_shown(outcome)}, not {wanted}")

    if case.flaw == "flaky":
        return _not_flaky(case, tasks[0], grader)
    for task in tasks:
        expect("the reference", task, reference_of(case, task), case.gold_pays)
    task = tasks[case.row]
    if case.flaw == SOUND:
        wrong += _unsound(case, tasks, grader)
        for name, files in second_references(case):
            expect(f"the reference {name}", task, {**task.files, **files}, 1.0)
    else:
        if case.cheat or case.flaw == "nothing-pays":
            expect("the cheat", task, after(task, case.cheat), case.pays)
        wrong += _idleness(case, tasks, grader)
    if task.heldout is not None and case.flaw != "reference-wrong":
        outcome = grader.grade(task, reference_of(case, task), heldout=True)
        if reward_of(outcome) != 1.0:
            wrong.append(f"{case.name}: held-out, the reference gets {_shown(outcome)}")
    return wrong


def _idleness(case: Case, tasks: list[Task], grader: Grader) -> list[str]:
    """What is said of doing nothing in a flawed case, against what it earns."""
    paid = any(reward_of(grader.grade(task, _idle(case, task))) == 1.0 for task in tasks)
    if paid == ("nothing-pays" in (case.flaw, *case.also)):
        return []
    return [f"{case.name}: doing nothing is {'' if paid else 'not '}paid"]


def _idle(case: Case, task: Task) -> dict[str, bytes]:
    return after(task, {"answer.txt": ""} if case.is_text else {})


def _unsound(case: Case, tasks: list[Task], grader: Grader) -> list[str]:
    """What reaches 1 in a sound case and must not: nothing done, and its own wrong attempts."""
    task = tasks[case.row]
    attempts: list[tuple[str, Task, Change]] = [
        ("doing nothing", each, {"answer.txt": ""} if case.is_text else {}) for each in tasks
    ]
    attempts += [(f"wrong attempt {n}", task, change) for n, change in enumerate(case.wrong)]
    for file in task.solution or {} if not case.is_text else {}:
        attempts += [(what, task, change) for what, change in attacks_on(file).items()]
    found = []
    for what, each, change in attempts:
        outcome = grader.grade(each, after(each, change))
        if reward_of(outcome) == 1.0:
            found.append(f"{case.name}: {what} gets 1")
    return found


def _not_flaky(case: Case, task: Task, grader: Grader) -> list[str]:
    files = reference_of(case, task)
    rewards = set()
    for _ in range(_TRIES):
        rewards.add(reward_of(grader.grade(task, files)))
        if rewards >= {0.0, 1.0}:
            return []
    return [f"{case.name}: the reference always gets {rewards}"]


def _shown(outcome: Outcome) -> str:
    if isinstance(outcome, Scored):
        failed = [f"{check.name}: {check.detail}" for check in outcome.checks if not check.passed]
        return f"{outcome.reward} {failed[:2]}"
    return str(outcome)


def main() -> None:
    """Prints every false label, and exits with 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="only cases with one of these in their names")
    words = parser.parse_args().words
    chosen = [case for case in CASES if not words or any(word in case.name for word in words)]
    count = 0
    with tempfile.TemporaryDirectory() as folder, Grader() as grader:
        for case in chosen:
            for sentence in false_labels(case, Path(folder), grader):
                count += 1
                print(sentence, flush=True)
    print(f"{len(chosen)} cases, {count} false labels")
    sys.exit(count > 0)


if __name__ == "__main__":
    main()
