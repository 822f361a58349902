"""The calls that a task shows: those its verifier makes, and those that an agent can read."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from steelyard.auditing.observing import Call, observed_calls
from steelyard.auditing.sources import parse
from steelyard.auditing.target import Target
from steelyard.tasks import FunctionChecks
from steelyard.tasks.task import CheckProgram

_INPUT_KEYS = ("arguments", "args", "inputs", "input", "call")
_OUTPUT_KEYS = ("expected", "output", "result", "want", "returns")
_ALIAS = "candidate"
"""What a check program calls the function under test."""


def verifier_calls(target: Target, function: str) -> list[Call]:
    """The calls with literal arguments that the verifier is seen to make of a function."""
    verifier = target.task.verifier
    if isinstance(verifier, FunctionChecks):
        return [Call(c.arguments, asserted=True, expected=c.expected) for c in verifier.checks]
    names = (function, _ALIAS) if isinstance(verifier, CheckProgram) else (function,)
    found = [
        call for text in target.tests_texts for name in names for call in observed_calls(text, name)
    ]
    return found or [call for text in target.tests_texts for call in _tabled(text)]


def visible_calls(target: Target, function: str) -> list[Call]:
    """The calls that the instruction and the workspace show."""
    return [call for text in target.visible_texts for call in observed_calls(text, function)]


def memorised(target: Target, function: str) -> dict[str, Any]:
    """What an agent can learn by heart: the value for each call that is shown, by `repr`.

    Beside asserted calls, the rows of literal tables in files that name the function, read both as
    (arguments, value) and as (argument, ..., value): a wrong reading does no harm to a table.
    """
    rows: dict[str, Any] = {}
    for text in target.visible_texts:
        if re.search(rf"\b{re.escape(function)}\b", text):
            for root in _roots(text):
                rows |= {repr(arguments): value for arguments, value in _readings(root)}
    for call in visible_calls(target, function):
        if call.asserted and not call.keywords:
            rows[repr(call.arguments)] = call.expected
    return rows


def _readings(value: Any) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        if len(value) > 1:
            yield tuple(value[:-1]), value[-1]
        if len(value) == 2 and isinstance(value[0], list | tuple):
            yield tuple(value[0]), value[1]
        for item in value:
            yield from _readings(item)


def _tabled(text: str) -> Iterator[Call]:
    """Rows of a literal table of cases: (arguments, expected) pairs, or objects with such keys."""
    for root in _roots(text):
        yield from _rows(root)


def _roots(text: str) -> list[Any]:
    """The data of a JSON text, or every literal display of a Python text."""
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    try:
        tree = parse(text)
    except ValueError:
        return []
    return [value for node in ast.walk(tree) if (value := _literal(node)) is not None]


def _literal(node: ast.AST) -> Any:
    if not isinstance(node, ast.List | ast.Tuple | ast.Dict):
        return None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return None


def _rows(value: Any) -> Iterator[Call]:
    if isinstance(value, dict):
        arguments = next((value[key] for key in _INPUT_KEYS if key in value), None)
        outputs = [value[key] for key in _OUTPUT_KEYS if key in value]
        if isinstance(arguments, list | tuple):
            yield Call(tuple(arguments), asserted=bool(outputs), expected=(outputs or [None])[0])
        for item in value.values():
            yield from _rows(item)
    elif isinstance(value, list | tuple):
        if len(value) == 2 and isinstance(value[0], list | tuple):
            yield Call(tuple(value[0]), asserted=True, expected=value[1])
        for item in value:
            yield from _rows(item)
