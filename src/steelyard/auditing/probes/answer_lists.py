"""Answers that are lists, with an item that does not belong there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from steelyard.auditing.probes.examples import differs
from steelyard.auditing.probes.promises import may_name_more

ITEM = re.compile(r"[\"']?[+-]?\w[\w.-]*[\"']?")
"""A number or a word."""
_NUMBER = re.compile(r"[+-]?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class _Listed:
    start: str
    items: tuple[str, ...]
    separator: str
    end: str

    @property
    def of_numbers(self) -> bool:
        return all(_NUMBER.fullmatch(item) for item in self.items)


def with_one_more(*, gold: str, others: Iterable[str], prompt: str) -> str | None:
    """A list of two or more numbers or words with one of `others`' items at its end.

    None where `gold` is no such list, where no other item of its kind is known, and where the
    prompt may allow more items than it stores.
    """
    listed = _listed(gold)
    if listed is None or may_name_more(prompt):
        return None
    elsewhere = [found for other in others if (found := _listed(other))]
    foreign = [
        item
        for found in elsewhere
        if found.of_numbers == listed.of_numbers
        for item in found.items
        if all(differs(item, mine) for mine in listed.items)
    ]
    if not foreign:
        return None
    return listed.start + listed.separator.join([*listed.items, foreign[-1]]) + listed.end


def _listed(text: str) -> _Listed | None:
    text = text.strip()
    bracketed = len(text) > 1 and text[0] + text[-1] in ("[]", "()", "{}")
    inside = text[1:-1] if bracketed else text
    for separator in (", ", ",", "\n", "; "):
        items = tuple(item.strip() for item in inside.split(separator))
        if len(items) > 1 and all(map(ITEM.fullmatch, items)):
            start, end = (text[0], text[-1]) if bracketed else ("", "")
            return _Listed(start, items, separator, end)
    return None
