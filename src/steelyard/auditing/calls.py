"""The calls that a task shows: those its verifier makes, and those that an agent can read."""

from __future__ import annotations

import ast
import json
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


def _tabled(text: str) -> Iterator[Call]:
    """Rows of a literal table of cases: (arguments, expected) pairs, or objects with such keys."""
    try:
        roots: list[Any] = [json.loads(text)]
    except ValueError:
        try:
            tree = parse(text)
        except ValueError:
            return
        roots = [value for node in ast.walk(tree) if (value := _literal(node)) is not None]
    for root in roots:
        yield from _rows(root)


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
