"""The inputs that a task has shown to be its own, so that nothing outside them proves anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Domain:
    """The values seen in one place: their types, ranges, characters, lengths, elements and keys.

    `1` and `True` are different kinds; a key may be missing only if it was missing once.
    """

    kinds: set[type] = field(default_factory=set)
    numbers: list[float] = field(default_factory=list)
    characters: set[str] = field(default_factory=set)
    lengths: list[int] = field(default_factory=list)
    elements: Domain | None = None
    keys: dict[Any, Domain] = field(default_factory=dict)
    always: set[Any] | None = None

    def see(self, value: Any) -> None:
        """Widens the domain so that it contains `value`."""
        self.kinds.add(type(value))
        if type(value) in (int, float):
            self.numbers.append(value)
        elif isinstance(value, str):
            self.characters |= {_class_of(character) for character in value}
            self.lengths.append(len(value))
        elif isinstance(value, Mapping):
            self.always = set(value) if self.always is None else self.always & set(value)
            for key, item in value.items():
                self.keys.setdefault(key, Domain()).see(item)
        elif isinstance(value, Sequence | set | frozenset):
            self.lengths.append(len(value))
            self.elements = self.elements or Domain()
            for item in value:
                self.elements.see(item)

    def contains(self, value: Any) -> bool:
        """Whether `value` is of the kinds seen and within the ranges seen."""
        if type(value) not in self.kinds:
            return False
        if type(value) in (int, float):
            return bool(min(self.numbers) <= value <= max(self.numbers))
        if isinstance(value, str):
            seen = {_class_of(character) for character in value} <= self.characters
            return seen and min(self.lengths) <= len(value) <= max(self.lengths)
        if isinstance(value, Mapping):
            known = all(key in self.keys and self.keys[key].contains(v) for key, v in value.items())
            return known and (self.always or set()) <= set(value)
        if isinstance(value, Sequence | set | frozenset):
            elements = self.elements or Domain()
            return min(self.lengths) <= len(value) <= max(self.lengths) and all(
                map(elements.contains, value)
            )
        return True


def domain_of(calls: Iterable[tuple[Any, ...]]) -> list[list[Domain]]:
    """Per number of arguments that was seen, the domain of each position."""
    by_arity: dict[int, list[Domain]] = {}
    for arguments in calls:
        places = by_arity.setdefault(len(arguments), [Domain() for _ in arguments])
        for place, value in zip(places, arguments, strict=True):
            place.see(value)
    return list(by_arity.values())


def within(domains: Sequence[Sequence[Domain]], arguments: Sequence[Any]) -> bool:
    """Whether a call's arguments lie in the domain of their number."""
    return any(
        len(places) == len(arguments)
        and all(place.contains(value) for place, value in zip(places, arguments, strict=True))
        for places in domains
    )


def _class_of(character: str) -> str:
    """Letters of one case, digits and spaces are interchangeable; every other sign is its own."""
    if character.isdigit():
        return "digit"
    if character.isalpha() and character.isascii():
        return "upper" if character.isupper() else "lower"
    return character
