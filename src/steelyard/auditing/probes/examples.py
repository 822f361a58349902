"""The examples of a reward function: prompts with stored answers, and what differs from those."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from steelyard.auditing.answer_format import undressed
from steelyard.auditing.probes.promises import has_many_answers
from steelyard.auditing.submission import Deserves, Submission
from steelyard.auditing.target import Target
from steelyard.tasks import Task

_OPTION = re.compile(r"^\s*\(?([A-Z])[).:]\s+\S", re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class Example:
    """One prompt with its stored answer, the other stored answers, and the promised format."""

    task: Task
    gold: str
    others: tuple[str, ...]
    wrap: Callable[[str], str]

    @property
    def prompt(self) -> str:
        return self.task.instruction

    @property
    def options(self) -> list[str]:
        """The letters of a multiple choice whose right one is stored; none for anything else."""
        options = list(dict.fromkeys(_OPTION.findall(self.prompt)))
        return options if len(options) > 1 and self.gold.strip() in options else []

    @property
    def wrong(self) -> str | None:
        """An answer of the same make that is wrong: another option, number, or stored answer."""
        number = as_number(self.gold)
        if number is not None:
            wrong = number * 2 + 7 if number != -7 else 8.0
            return f"{wrong:g}" if wrong != int(wrong) else str(int(wrong))
        for option in self.options:
            if option != self.gold.strip():
                return option
        lowered = self.gold.strip().lower()
        for pair in (("true", "false"), ("yes", "no"), ("valid", "invalid")):
            if lowered in pair:
                return pair[1 - pair.index(lowered)]
        return next((other for other in self.others if differs(other, self.gold)), None)


def differs(left: str, right: str) -> bool:
    """Whether two answers differ in value, beyond case, spaces, punctuation and number form."""
    numbers = as_number(left), as_number(right)
    if None not in numbers:
        return numbers[0] != numbers[1]
    return _bare(left) != _bare(right)


def as_number(text: str) -> float | None:
    """The finite number that a text is, however it is written; None for any other text."""
    try:
        number = float(text.strip().replace(",", "").rstrip("%").lstrip("$"))
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def says(text: str, gold: str) -> bool:
    """Whether a text names the answer: a verifier that looks for it there may be in the right."""
    number = as_number(gold)
    if number is not None:
        return any(as_number(found) == number for found in NUMBER.findall(text))
    return re.search(rf"(?<!\w){re.escape(gold.strip())}(?!\w)", text, re.IGNORECASE) is not None


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).lower()


def examples_of(target: Target) -> Iterator[Example]:
    """The examples that have a stored answer."""
    golds = {id(task): text for task in target.examples if (text := gold_text(task)) is not None}
    for task in target.examples:
        if id(task) in golds:
            gold, dress = undressed(golds[id(task)])
            others = tuple(undressed(text)[0] for key, text in golds.items() if key != id(task))
            yield Example(task, gold, others, partial(_dressed, target.form.wrap, dress))


def _dressed(outer: Callable[[str], str], inner: Callable[[str], str], text: str) -> str:
    return outer(inner(text))


def unanswered(target: Target) -> Iterator[Example]:
    """The examples that have no stored answer: only what answers nothing can be judged there."""
    for task in target.examples:
        if gold_text(task) is None:
            yield Example(task, "", (), target.form.wrap)


def gold_text(task: Task) -> str | None:
    """The stored answer of a text task; None where there is none."""
    if task.answer is None or not task.solution:
        return None
    data: bytes | None = task.solution.get(task.answer.path)
    return None if data is None else data.decode("utf-8", "replace")


def answer(task: Task, text: str, label: str, deserves: Deserves) -> Submission:
    assert task.answer is not None
    return Submission(label, deserves, task, {task.answer.path: text.encode("utf-8", "replace")})


Texts = Callable[[Example], Iterable[tuple[str, str]]]
"""(label, text) pairs for one example."""


def plan(
    texts: Texts, deserves: Deserves, *, also_unanswered: bool = False
) -> Callable[[Target], Iterable[Submission]]:
    """The plan of a probe that hands in these texts for every example that has a stored answer,
    and with `also_unanswered` for the others too.

    Where a prompt has several right answers, to differ from the stored one is not to be wrong.
    """

    def planned(target: Target) -> Iterable[Submission]:
        if not target.grades_text:
            return
        for example in [*examples_of(target), *(unanswered(target) if also_unanswered else ())]:
            doubtful = deserves is Deserves.LESS_THAN_SUCCESS and has_many_answers(example.prompt)
            deserved = Deserves.SEPARATED if doubtful else deserves
            for label, text in texts(example):
                yield answer(example.task, text, label, deserved)

    return planned
