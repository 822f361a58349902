"""Checks on the untouched workspace are graded once for each content, the audit's included."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.conductor import screening
from steelyard.conductor.untouched import recall, suites, untouched
from steelyard.episodes import Check
from steelyard.grading import Grader, GradingSettings
from steelyard.tasks import Task, load_tasks

TASKS = Path(__file__).parents[2] / "examples" / "falsy-defaults" / "tasks" / "train"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def tasks() -> list[Task]:
    return load_tasks(str(TASKS))[:2]


@pytest.fixture
def graded(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Grader, list[str]]]:
    """A grader, and what it was asked to grade."""
    grader = Grader()
    asked: list[str] = []
    real = grader.grade

    def counting(task: Task, files: dict[str, bytes], *, heldout: bool = False) -> object:
        asked.append(f"{task.name} {'heldout' if heldout else 'training'}")
        return real(task, files, heldout=heldout)

    monkeypatch.setattr(grader, "grade", counting)
    yield grader, asked
    grader.close()


def test_both_suites_are_graded_once_and_remembered(
    tasks: list[Task], graded: tuple[Grader, list[str]]
) -> None:
    grader, asked = graded
    done: list[int] = []
    first = untouched(tasks, grader, lambda: done.append(1))
    assert sorted(asked) == sorted(f"{t.name} {s}" for t in tasks for s in suites(t))
    assert len(done) == len(asked) == 4
    assert untouched(tasks, grader) == first
    assert len(asked) == 4
    for task in tasks:
        # A bug that only falsy values show: the rest of the behaviour works before any work.
        verdicts = {check.passed for check in first[task.name, "training"]}
        assert verdicts == {True, False}, "something works already, and something does not"
        assert len(first[task.name, "heldout"]) > len(verdicts)


def test_another_content_is_graded_anew(
    tasks: list[Task], graded: tuple[Grader, list[str]]
) -> None:
    grader, _ = graded
    task = tasks[0]
    before = untouched([task], grader)[task.name, "training"]
    assert task.solution is not None
    mended = replace(task, files={**task.files, **task.solution})
    after = untouched([mended], grader)[task.name, "training"]
    assert not all(check.passed for check in before)
    assert all(check.passed for check in after)


def test_the_audit_leaves_its_result_to_the_run(
    tasks: list[Task], graded: tuple[Grader, list[str]]
) -> None:
    grader, asked = graded
    screening.screen(tasks, GradingSettings())
    assert all(recall(task, "training") for task in tasks)
    found = untouched(tasks, grader)
    assert {name.rpartition(" ")[2] for name in asked} == {"heldout"}
    fresh = grader.grade(tasks[0], tasks[0].files)
    expected = tuple(Check(c.name, c.passed) for c in fresh.checks)  # type: ignore[union-attr]
    assert found[tasks[0].name, "training"] == expected


def test_an_answer_breaks_nothing(tmp_path: Path, graded: tuple[Grader, list[str]]) -> None:
    (tmp_path / "rewards.py").write_text("def score(prompt, answer, **row):\n    return 0.0\n")
    (tmp_path / "rows.jsonl").write_text('{"prompt": "1 + 1?"}\n')
    rows = load_tasks(str(tmp_path / "rows.jsonl"), reward="rewards.py:score")
    grader, asked = graded
    assert untouched(rows, grader) == {}
    assert not asked
