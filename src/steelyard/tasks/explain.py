"""Turns what pydantic found wrong with a file into sentences that a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError


def explain(error: ValidationError, model: type[BaseModel], file: str) -> str:
    """One sentence per malformed field: the file, the field, its value and what to write there.

    A field's `description` is that last part, so every field of a model that is read from a
    user's file describes its legal values as a noun phrase.
    """
    found: dict[str, str] = {}
    for problem in error.errors():
        field, description = _locate(model, problem["loc"])
        if problem["type"] == "missing":
            sentence = f"{file}: {field} is missing; give {description or 'a value'}"
        elif problem["type"] == "extra_forbidden":
            sentence = f"{file}: {field} is not a known key; remove it"
        else:
            # A union reports one problem per member: the first one speaks for the field.
            wanted = f"give {description}" if description else problem["msg"]
            sentence = f"{file}: {field} = {_shorten(problem['input'])} is not valid; {wanted}"
            if problem["type"] == "value_error":
                sentence = f"{sentence} ({problem['ctx']['error']})"
        found.setdefault(field, sentence)
    # A value that is a table fails as a whole for the other members of its union: noise.
    return "\n".join(
        sentence
        for field, sentence in found.items()
        if not any(other.startswith(f"{field}.") for other in found)
    )


def _locate(model: type[BaseModel], loc: tuple[int | str, ...]) -> tuple[str, str]:
    """The dotted name of the field at `loc`, and its description."""
    name = ""
    description = ""
    current: type[BaseModel] | None = model
    for part in loc:
        if isinstance(part, int):
            name += f"[{part}]"
            continue
        if current is not None and part in current.model_fields:
            info = current.model_fields[part]
            description = info.description or description
            current = next(_models_in(info.annotation), None)
        elif part.startswith("literal["):
            continue
        elif current is not None and part in _member_names(current):
            continue  # the tag of a union member, not a field
        elif current is None and part in ("str", "int", "float"):
            continue
        name = f"{name}.{part}" if name else str(part)
    return name or "the file", description


def _member_names(model: type[BaseModel]) -> set[str]:
    return {model.__name__, "str", "int", "float"}


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _shorten(value: object, limit_characters: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit_characters else f"{text[:limit_characters]}…"
