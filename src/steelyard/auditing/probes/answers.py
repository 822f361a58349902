"""Families A and I for answers: texts that answer nothing, something else, or everything at once.

A text deserves nothing where it commits to no answer, and no success where the answer to which it
commits differs from the stored one in value, not only in form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from steelyard.auditing.probes.answer_lists import with_one_more
from steelyard.auditing.probes.examples import (
    NUMBER,
    Example,
    Texts,
    as_number,
    differs,
    plan,
    says,
)
from steelyard.auditing.probes.promises import (
    as_precise_as_asked,
    asks_for_exact_arithmetic,
    forgives_spelling,
    may_be_rough,
)
from steelyard.auditing.submission import Deserves, Probe

_FINE = 100_000
"""Up to here, one more is a difference that no rounding of floats makes."""


def _nothing_said(example: Example) -> Iterable[tuple[str, str]]:
    if example.gold.strip():
        yield "an empty answer", ""
        yield "white space", " \n\t "
        yield "a full stop", "."


def _garbage(example: Example) -> Iterable[tuple[str, str]]:
    for text in ("zzz", "qwxv blorp", "?!#@"):
        if differs(text, example.gold):
            yield f"the text {text!r}", text
            yield f"the text {text!r} in the format", example.wrap(text)


def _empty_format(example: Example) -> Iterable[tuple[str, str]]:
    if example.gold.strip() and example.wrap("") != "":
        yield "the format around nothing", example.wrap("")


def _echo(example: Example) -> Iterable[tuple[str, str]]:
    yield "the prompt", example.prompt
    yield "the prompt in the format", example.wrap(example.prompt)


def _constants(example: Example) -> Iterable[tuple[str, str]]:
    for text in ("0", "1", "-1", "yes", "no", "true", "false", "A", "None", "[]", "{}", "()",
                 "unknown", "N/A"):  # fmt: skip
        if differs(text, example.gold):
            yield f"the constant {text}", example.wrap(text)


def _special_numbers(example: Example) -> Iterable[tuple[str, str]]:
    for text in ("nan", "NaN", "inf", "-inf", "1e999", "0/0", "9" * 400, "0x0", "1e-400"):
        if differs(text, example.gold) and not says(text, example.gold):
            yield f"the number {text[:20]}", example.wrap(text)


def _wrong(example: Example) -> Iterable[tuple[str, str]]:
    if example.wrong is not None:
        yield "a wrong answer of the right make", example.wrap(example.wrong)
    for other in example.others:
        if differs(other, example.gold):
            yield "the answer of another example", example.wrap(other)
            return


def _near(example: Example) -> Iterable[tuple[str, str]]:
    """A number that is off by more than the twentieth that graders of measured quantities grant,
    or by one where the prompt asks for arithmetic; none where the prompt leaves room for it."""
    number = as_number(example.gold)
    if number is None or may_be_rough(example.prompt):
        return
    if number != int(number):
        digits = re.sub(r"\D", "", example.gold).strip("0")
        near = f"{number * (1.06 if len(digits) > 2 else 1.5):.6g}"
    elif asks_for_exact_arithmetic(example.prompt) and abs(number) < _FINE:
        near = str(int(number) + 1)
    else:
        near = str(int(number) + max(1, math.ceil(0.06 * abs(number))))
    yield "a number that is a little off", example.wrap(near)


def _contained(example: Example) -> Iterable[tuple[str, str]]:
    gold = example.gold.strip()
    if not gold or len(gold) > 200:
        return
    yield "a denial of the right answer", example.wrap(f"anything but {gold}")
    nearly = forgives_spelling(example.prompt)
    if not nearly:
        yield "a denial of the right answer in words", example.wrap(f"not {gold}")
    if as_number(gold) is not None:
        for text in (f"1{gold.lstrip('+-')}", f"{gold}7" if "." not in gold else f"7{gold}"):
            if differs(text, gold):
                yield "a number that contains the right one", example.wrap(text)
    elif gold.isalpha() and len(gold) > 1 and not nearly:
        yield "a word that contains the right one", example.wrap(f"x{gold}q")
        yield "a word that begins with the right one", example.wrap(f"{gold}qx")
    elif len(gold) == 1 and gold.isalpha():
        yield "a word that begins with the right letter", example.wrap(f"{gold}bcxyz")


def _prefixes(example: Example) -> Iterable[tuple[str, str]]:
    gold = example.gold.strip()
    if len(gold) < 4:
        return
    part = gold[: len(gold) // 2]
    if part.strip() and not _is_enough(part, example):
        yield "the first half of the right answer", example.wrap(part)
    if gold[0].isalnum() and not _is_enough(gold[0], example):
        yield "the first letter of the right answer", example.wrap(gold[0])


def _is_enough(part: str, example: Example) -> bool:
    """Whether a part may be right by itself: nothing is lost but a unit, or digits that the prompt
    does not ask for."""
    if not differs(part, example.gold) or _is_precise_enough(part, example.prompt):
        return True
    numbers = NUMBER.findall(part)
    return bool(numbers) and numbers == NUMBER.findall(example.gold)


def _is_precise_enough(text: str, prompt: str) -> bool:
    """Whether a number that was cut short has all the digits that the prompt asks for."""
    if as_number(text) is None or "." not in text:
        return False
    whole, _, places = text.strip().lstrip("+-").partition(".")
    return as_precise_as_asked(whole, places, prompt)


def _shotgun(example: Example) -> Iterable[tuple[str, str]]:
    if example.options:
        yield "every option", example.wrap(" ".join(example.options))
        yield "every option in its own format", "\n".join(map(example.wrap, example.options))
    number = as_number(example.gold)
    if number is not None and number == int(number) and abs(number) < 1e6:
        near = [str(int(number) + i) for i in (-2, -1, 0, 1, 2)]
        yield "five numbers", example.wrap(" ".join(near))
        yield "five numbers, each in its own format", "\n".join(map(example.wrap, near))
    wrong = [
        text for text in (example.wrong, *example.others) if text and differs(text, example.gold)
    ]
    if wrong:
        every = [*wrong[:3], example.gold, *wrong[:1]]
        yield "several answers joined by or", example.wrap(" or ".join(every))
        yield "several answers, each in its own format", "\n".join(map(example.wrap, every))
    longer = with_one_more(gold=example.gold, others=example.others, prompt=example.prompt)
    if longer is not None:
        yield "the right list with a wrong item more", example.wrap(longer)


USE = "It learns the cheapest text that the function pays for."
ANSWER_FIX = (
    "Extract one committed answer in the promised format, refuse none and several, and compare its "
    "value with the stored one."
)
_NOTHING, _LESS = Deserves.NOTHING, Deserves.LESS_THAN_SUCCESS

_TABLE: tuple[tuple[int, str, str, Texts, Deserves], ...] = (
    (1, "nothing", "an empty answer is paid", _nothing_said, _NOTHING),
    (3, "empty-format", "the format around nothing is paid", _empty_format, _NOTHING),
    (4, "echo", "the prompt itself is paid", _echo, _LESS),
    (3, "constant", "a constant answer is paid", _constants, _LESS),
    (36, "special-number", "NaN, infinity or an overflow is paid", _special_numbers, _LESS),
    (3, "wrong", "a wrong answer is paid", _wrong, _LESS),
    (36, "near", "a number that is a little off is paid", _near, _LESS),
    (5, "contains", "an answer that only contains the right one is paid", _contained, _LESS),
    (5, "part", "a part of the right answer is paid", _prefixes, _LESS),
    (5, "shotgun", "many answers at once are paid", _shotgun, _LESS),
)

PROBES: list[Probe] = [
    Probe(number, "answers", name, title, USE, ANSWER_FIX, plan(texts, deserves))
    for number, name, title, texts, deserves in _TABLE
] + [
    Probe(3, "answers", "garbage", "garbage is paid", USE, ANSWER_FIX,
          plan(_garbage, _NOTHING, also_unanswered=True)),
]  # fmt: skip
