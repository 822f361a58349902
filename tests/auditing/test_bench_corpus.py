"""The corpus of the audit's benchmark: its labels are what the grader really does.

One case of each class and some sound ones; `benchmarks/audit_bench/labels.py` proves all of them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.grading import Grader

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "audit_bench"))

from attacks import attacks_on
from corpus import CASES, CLASSES, SOUND, Case
from corpus.classes import ACCEPTS_WRONG, EXPOSES
from labels import after, false_labels, reward_of, tasks_of
from scoring import Heard, score

BY_NAME = {case.name: case for case in CASES}
FIRST = {case.flaw: case for case in reversed(CASES) if case.flaw != SOUND}
SOUND_ONES = ("data-roman", "text-countdown", "text-one-box", "script-query", "script-named-checks")


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    with Grader() as made:
        yield made


def test_the_corpus_is_as_large_as_promised_and_covers_every_class() -> None:
    assert len(BY_NAME) == len(CASES)
    assert sum(case.flaw != SOUND for case in CASES) >= 60
    assert sum(case.flaw == SOUND for case in CASES) >= 25
    assert FIRST.keys() == CLASSES.keys()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_can_be_read_and_has_a_reference(case: Case, tmp_path: Path) -> None:
    tasks = tasks_of(case, tmp_path)
    assert len(tasks) >= (4 if case.is_text else 1)
    if not case.is_text:
        assert tasks[0].solution


@pytest.mark.parametrize("case", FIRST.values(), ids=lambda case: case.flaw)
def test_a_label_is_true(case: Case, tmp_path: Path, grader: Grader) -> None:
    assert false_labels(case, tmp_path, grader) == []


@pytest.mark.parametrize("name", SOUND_ONES)
def test_a_sound_case_is_sound(name: str, tmp_path: Path, grader: Grader) -> None:
    assert false_labels(BY_NAME[name], tmp_path, grader) == []


@pytest.mark.parametrize(
    ("name", "attack"),
    [
        ("exit-on-import", "leaves on import"),
        ("hard-exit-in-unittest", "leaves on import"),
        ("equals-everything", "equals everything"),
        ("expected-on-the-stack", "equals everything"),
        ("expected-in-a-file", "reads what is expected"),
        ("nothing-says-failed", "raises"),
        ("every-function-found", "deletes itself"),
        ("sitecustomize-on-the-path", "plants files"),
        ("random-beside-the-tests", "plants files"),
    ],
)
def test_the_attacks_do_work_where_nothing_guards_against_them(
    name: str, attack: str, tmp_path: Path, grader: Grader
) -> None:
    (task,) = tasks_of(BY_NAME[name], tmp_path)
    assert task.solution
    (file,) = task.solution
    assert reward_of(grader.grade(task, after(task, attacks_on(file)[attack]))) == 1.0


def test_scores_count_effects_and_false_alarms() -> None:
    cheat, leak, sound, other = (
        BY_NAME[n] for n in ("exit-on-import", "future-tag", "data-clamp", "data-leap")
    )
    heard = {
        cheat.name: Heard(frozenset({ACCEPTS_WRONG})),
        leak.name: Heard(frozenset({ACCEPTS_WRONG})),  # true or not, it is not what is labelled
        sound.name: Heard(frozenset({EXPOSES})),
        other.name: Heard(frozenset(), error="it broke"),
    }
    result = score([cheat, leak, sound, other], heard)
    assert (result.found, result.flawed) == (
        {"exit-code": 1, "git-future": 0},
        {"exit-code": 1, "git-future": 1},
    )
    assert (result.recall, result.precision) == (0.5, 0.5)
    assert (result.missed, result.false_alarms) == (("future-tag",), ("data-clamp",))
    assert result.errors == ("data-leap",)
