"""`checks.json`: behavioural checks on one Python function, as data."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from steelyard.tasks.explain import explain
from steelyard.tasks.task import CheckSpec, FunctionChecks


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    name: str = Field(min_length=1, description="the check's name")
    arguments: list[Any] = Field(description="the list of the call's arguments")
    expected: Any = Field(description="the value that the call must return")


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    module: str = Field(
        pattern=r"^[A-Za-z_][\w/]*\.py$",
        description='a Python file of the workspace, "settings.py"',
    )
    function: str = Field(pattern=r"^[A-Za-z_]\w*$", description="the name of a function")
    checks: list[_Entry] = Field(
        min_length=1, description="a list of at least one {name, arguments, expected}, names unique"
    )

    @field_validator("checks")
    @classmethod
    def _names_are_unique(cls, entries: list[_Entry]) -> list[_Entry]:
        counts = Counter(entry.name for entry in entries)
        repeated = [name for name, count in counts.items() if count > 1]
        if repeated:
            raise ValueError(f"the name {repeated[0]!r} occurs {counts[repeated[0]]} times")
        return entries


def parse_checks(text: bytes, file: str) -> FunctionChecks:
    """Reads a `checks.json`; ValueError has one sentence per malformed field.

    Values are JSON, so expected tuples, sets and NaN cannot be written; a test script can.
    """
    try:
        parsed = _File.model_validate(json.loads(text, parse_constant=_refuse_constant))
    except ValidationError as error:
        raise ValueError(explain(error, _File, file)) from None
    except ValueError as error:
        raise ValueError(f"{file}: this is not JSON ({error}); correct the syntax there") from None
    checks = tuple(CheckSpec(e.name, tuple(e.arguments), e.expected) for e in parsed.checks)
    return FunctionChecks(parsed.module, parsed.function, checks)


def dump_checks(checks: FunctionChecks) -> str:
    """The text of a `checks.json` that `parse_checks` reads back to the same checks.

    ValueError where a value is none of JSON's (a tuple, a set, NaN).
    """
    try:
        rows = [
            json.dumps({"name": c.name, "arguments": list(c.arguments), "expected": c.expected})
            for c in checks.checks
        ]
    except TypeError as error:
        raise ValueError(f"checks on {checks.function}: {error}; use JSON values") from None
    body = ",\n    ".join(rows)
    text = (
        f'{{\n  "module": {json.dumps(checks.module)},\n'
        f'  "function": {json.dumps(checks.function)},\n'
        f'  "checks": [\n    {body}\n  ]\n}}\n'
    )
    # repr tells 1 from True and a tuple from a list, which == or JSON would not.
    if repr(parse_checks(text.encode(), f"checks on {checks.function}")) != repr(checks):
        raise ValueError(f"checks on {checks.function}: tuples have no JSON form; use lists")
    return text


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON value")
