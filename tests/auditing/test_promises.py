"""Sound reward functions of many styles: no text that they pay is called wrong, and no form that
they refuse was promised.

The functions are called here, without a sandbox: what is tested is what the probes hand in.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from steelyard.auditing.probes import answers, hostile_answers, right_work
from steelyard.auditing.submission import Deserves
from steelyard.auditing.target import targets_of
from steelyard.tasks import Task
from steelyard.tasks.task import AnswerForm, RewardFunction

Score = Callable[[str, str], float]
"""(answer, expected) → reward."""
PROBES = (*answers.PROBES, *hostile_answers.PROBES, *right_work.PROBES)


def alarms(score: Score, rows: list[tuple[str, str]]) -> set[str]:
    """The probes that would prove something against this function on these (prompt, gold) rows."""
    verifier = RewardFunction(Path("rewards.py"), "score", {})
    tasks = [
        Task(f"row {i}", prompt, verifier, answer=AnswerForm("answer.txt"),
             solution={"answer.txt": gold.encode()})
        for i, (prompt, gold) in enumerate(rows)
    ]  # fmt: skip
    golds = dict(rows)
    (target,) = targets_of(tasks)
    found = set()
    for probe in PROBES:
        for submission in probe.plan(target):
            text = submission.files["answer.txt"].decode()
            reward = score(text, golds[submission.task.instruction])
            if {
                Deserves.NOTHING: reward > 0,
                Deserves.LESS_THAN_SUCCESS: reward >= 1,
                Deserves.SUCCESS: reward < 1,
            }.get(submission.deserves, False):
                found.add(probe.name)
    return found


def number(text: str) -> float:
    try:
        found = float(text.strip().replace(",", ""))
    except ValueError:
        return math.nan
    return found if math.isfinite(found) and len(text) < 40 else math.nan


def same_text(answer: str, expected: str) -> float:
    return float(answer.strip() == expected)


def same_characters(answer: str, expected: str) -> float:
    return float(answer == expected)


def same_data(answer: str, expected: str) -> float:
    try:
        return float(json.loads(answer) == json.loads(expected))
    except (ValueError, RecursionError):
        return 0.0


def close(relative: float) -> Score:
    def score(answer: str, expected: str) -> float:
        return float(abs(number(answer) / number(expected) - 1) <= relative)

    return score


def graded(answer: str, expected: str) -> float:
    error = abs(number(answer) / number(expected) - 1)
    return 0.0 if math.isnan(error) else max(0.0, 1 - error)


def last_word(answer: str, expected: str) -> float:
    """A verdict: the last line, and nothing but a number on it."""
    return float(answer.rstrip().rpartition(" ")[2].rstrip(".") == expected)


def items(text: str) -> set[str]:
    return {item.strip().casefold() for item in text.split(",")}


def same_items(answer: str, expected: str) -> float:
    return float(items(answer) == items(expected))


def same_numbers(answer: str, expected: str) -> float:
    given, want = ({number(item) for item in text.split(",")} for text in (answer, expected))
    return float(given == want)


def f1(answer: str, expected: str) -> float:
    given, want = items(answer), items(expected)
    return 2 * len(given & want) / (len(given) + len(want))


def nearly_spelt(answer: str, expected: str) -> float:
    if len(answer) > 60:
        return 0.0
    return float(SequenceMatcher(None, answer.strip().lower(), expected.lower()).ratio() >= 0.8)


def prime(answer: str, _: str) -> float:
    n = number(answer)
    if math.isnan(n) or n != int(n) or not 100 < n < 10**6:
        return 0.0
    return float(all(n % i for i in range(2, int(n**0.5) + 1)))


def three_digits(answer: str, _: str) -> float:
    return float(re.fullmatch(r"[1-9]\d\d", answer.strip()) is not None)


SOUND: dict[str, tuple[Score, list[tuple[str, str]]]] = {
    "a measured quantity to one percent": (
        close(0.01),
        [("How fast is sound in air, in m/s?", "343"), ("How high is the tower, in m?", "330")],
    ),
    "a measured quantity to five percent": (
        close(0.05),
        [("What is the speed of light in 10^8 m/s?", "2.998"), ("And gravity in m/s^2?", "9.81")],
    ),
    "a large product compared as floats": (
        close(1e-6),
        [("What is 123456 * 654321?", "80779853376"), ("What is 99999 * 99999?", "9999800001")],
    ),
    "graded closeness": (graded, [("What is 17 times 9?", "153"), ("And 30 times 4?", "120")]),
    "items in any case": (
        same_items,
        [("Name both colours of the flag.", "Red, Blue"), ("And of that one.", "white, blue, red")],
    ),
    "numbers in any form": (
        same_numbers,
        [("Solve (x - 1)(x - 2) = 0.", "1, 2"), ("Solve (x - 3)(x - 2) = 0.", "3, 2.0")],
    ),
    "credit for each item": (
        f1,
        [("List the divisors of 4.", "1, 2, 4"), ("List the divisors of 9.", "1, 3, 9")],
    ),
    "typing errors forgiven": (
        nearly_spelt,
        [(f"Name the capital of {country}. Small spelling mistakes are forgiven.", city)
         for country, city in (("Kenya", "Nairobi"), ("Australia", "Canberra"))],
    ),
    "space around is ignored, space inside is not": (
        same_text,
        [("Give it as JSON. Leading and trailing whitespace is ignored.", '{"a": 1, "b": 2}'),
         ("Give it as JSON. Surrounding spaces do not matter.", '{"a": 3, "b": 4}')],
    ),
    "no white space": (
        same_characters,
        [("Reverse abc, without any whitespace.", "cba"),
         ("Reverse abcd. Do not add whitespace.", "dcba")],
    ),
    "keys in any order, items in this one": (
        same_data,
        [("List both points as JSON, keys in any order.", '[{"x": 1, "y": 2}, {"x": 3, "y": 4}]'),
         ("Give the person as JSON, keys in any order.", '{"name": "Doe, Jo", "age": 3}')],
    ),
    "no commas": (
        same_text,
        [("What is 120 * 100? Do not use commas.", "12000"),
         ("Give both, separated by a comma, or else: what is 150 * 100?", "15000")],
    ),
    "within so many minutes": (
        same_text,
        [("How many of the 3 buses come within 10 minutes?", "2"),
         ("How many trains come within 30 minutes?", "3")],
    ),
    "cards in any order": (
        same_text,
        [("You may play the cards in any order. Which sum gives 2?", "8 - 3 * 2"),
         ("You may use the numbers in any order. Which sum gives 5?", "9 - 2 * 2")],
    ),
    "in any case": (
        same_text,
        [("In any case, write it as in English. What is the capital of Peru?", "Lima"),
         ("In any case, write it as in English. And of Kenya?", "Nairobi")],
    ),
    "any number of three digits": (
        three_digits,
        [("Name any number of three digits.", "153"), ("Give any number in three digits.", "400")],
    ),
    "a prime of many": (
        prime,
        [("Find a prime above 100.", "103"), ("Find a prime greater than 100.", "107")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_function_raises_no_alarm(name: str) -> None:
    score, rows = SOUND[name]
    assert alarms(score, rows) == set()


def test_a_text_to_the_grader_never_names_the_right_answer() -> None:
    """What is last in the text is the answer, as was agreed: an order that ends in it is right."""
    rows = [("What is 5 + 5? The last word counts.", "10"), ("And 10 * 10?", "100")]
    assert "answers/injection" not in alarms(last_word, rows)


@pytest.mark.parametrize(
    ("promise", "form"),
    [
        ("Spacing does not matter.", '{"a":1200,"b":2}'),
        ("The keys may come in any order.", '{"b": 2, "a": 1200}'),
        ("Case is ignored.", '{"A": 1200, "B": 2}'),
    ],
)
def test_a_promised_form_is_handed_in(promise: str, form: str) -> None:
    gold = '{"a": 1200, "b": 2}'
    told = [text for _, text in right_work._promised(f"Write it. {promise}", gold)]
    assert form in told
    assert [text for _, text in right_work._promised("Write it.", gold)] == []


@pytest.mark.parametrize(
    ("promise", "form"),
    [
        ("Anything within 5% is right.", "1224.0"),
        ("Thousands may be separated.", "1,200"),
        ("Commas are optional.", "1,200"),
        ("Within 0.5 of the true value.", "1200.2"),
    ],
)
def test_a_promised_number_is_handed_in(promise: str, form: str) -> None:
    assert form in [text for _, text in right_work._promised(f"How long? {promise}", "1200")]


def test_a_number_a_little_off_is_off_by_one_where_it_is_counted_exactly() -> None:
    rows = [("What is 17 times 9?", "153"), ("What is 30 times 4?", "120")]
    assert "answers/near" in alarms(close(0.01), rows)
    assert "answers/near" in alarms(close(0.1), [("How high, in m?", "330"), ("How far?", "40")])
