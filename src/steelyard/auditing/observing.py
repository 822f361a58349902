"""Calls of a function that tests, doctests and instructions show, with what they say it gives."""

from __future__ import annotations

import ast
import doctest
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from steelyard.auditing.sources import FUNCTION, parse

_SAYS = re.compile(
    r"\s*`{0,2}\s*(?:==|=>|->|→|⇒|➞|➜|#\s*(?:=>|->|→)?|is equal to|equals|is|"
    r"(?:should|must|will|would|has to)\s+(?:return|be|give|equal)|"
    r"returns?|gives?|yields?|evaluates to|\n(?!\s*\n))\s*:?\s*`{0,2}",
)
"""What stands between a call and its value in prose."""
_MAX_SHOWN = 2000
_EQUAL = frozenset(("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual",
                    "assertTupleEqual", "assertSequenceEqual", "assertSetEqual", "assertIs",
                    "assert_equal", "assertCountEqual", "eq_"))  # fmt: skip
_TRUTH = {"assertTrue": True, "assertFalse": False, "assertIsNone": None}


@dataclass(frozen=True, slots=True)
class Call:
    """One call with literal arguments. `expected` means something only where `asserted`."""

    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...] = ()
    asserted: bool = False
    expected: Any = None


def observed_calls(text: str, function: str) -> list[Call]:
    """The literal calls of `function` in Python source, doctests or prose, in order, none twice.

    `assert f(1) == 2`, `assertEqual(f(1), 2)`, `assert f(1) is None`, `assert not f(1)`,
    parametrized `assert f(a) == b`, `>>> f(1)` and its output, "f(1) == 2", "f(1) returns 2" and
    "f(1) -> 2" give an expected value. For `assert f(x)` and `assert not f(x)` that is True and
    False, where 1 and 0 might do. A call whose arguments are not literals is not one of them, nor
    is anything that is computed.
    """
    try:
        tree = parse(text)
    except ValueError:
        found = list(_in_prose(text, function))
    else:
        found = list(_in_python(tree, function))
    merged: dict[str, Call] = {}
    for call in found:
        key = repr((call.arguments, call.keywords))
        if key not in merged or (call.asserted and not merged[key].asserted):
            merged[key] = call
    return list(merged.values())


def _in_python(tree: ast.AST, function: str) -> Iterator[Call]:
    for node in ast.walk(tree):
        if isinstance(node, FUNCTION):
            yield from _parametrized(node, function)
        if isinstance(node, ast.Compare):
            yield from _compared(node, function)
        elif isinstance(node, ast.Assert):
            yield from _asserted(node.test, function)
        elif isinstance(node, ast.Call):
            yield from _method(node, function)
            yield from _call(node, function)
        elif isinstance(node, (*FUNCTION, ast.ClassDef, ast.Module)):
            yield from _in_prose(ast.get_docstring(node) or "", function)


def _compared(node: ast.Compare, function: str) -> Iterator[Call]:
    if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.Is)):
        left, right = node.left, node.comparators[0]
        yield from _pair(left, right, function)
        yield from _pair(right, left, function)


def _asserted(test: ast.expr, function: str) -> Iterator[Call]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _call(test.operand, function, expected=(False,))
    else:
        yield from _call(test, function, expected=(True,))


def _method(node: ast.Call, function: str) -> Iterator[Call]:
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), args=[left, right, *_]):
            if name in _EQUAL:
                yield from _pair(left, right, function)
                yield from _pair(right, left, function)
        case ast.Call(func=ast.Attribute(attr=name), args=[inner, *_]) if name in _TRUTH:
            yield from _call(inner, function, expected=(_TRUTH[name],))


def _pair(called: ast.expr, value: ast.expr, function: str) -> Iterator[Call]:
    known, expected = _literal(value)
    if known:
        yield from _call(called, function, expected=(expected,))


def _call(node: ast.AST, function: str, expected: tuple[Any, ...] = ()) -> Iterator[Call]:
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name == function:
            values = [_literal(argument) for argument in node.args]
            named = [(keyword.arg, _literal(keyword.value)) for keyword in node.keywords]
            if all(known for known, _ in values) and all(a and v[0] for a, v in named):
                yield Call(
                    tuple(value for _, value in values),
                    tuple((str(name), value) for name, (_, value) in named),
                    bool(expected),
                    expected[0] if expected else None,
                )


def _parametrized(node: ast.AST, function: str) -> Iterator[Call]:
    """`@parametrize("a, b", [(1, 2)])` over a body that compares: the rows put in its place."""
    assert isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    for decorator in node.decorator_list:
        match decorator:
            case ast.Call(
                func=ast.Attribute(attr="parametrize"),
                args=[names, ast.List() | ast.Tuple() as rows],
            ):
                pass
            case _:
                continue
        known, given = _literal(names)
        if not known:
            continue
        parts = given.split(",") if isinstance(given, str) else given
        wanted = [str(part).strip() for part in parts]
        for row in rows.elts:
            known, values = _literal(row)
            if known and len(wanted) == 1:
                values = (values,)
            if known and isinstance(values, (tuple, list)) and len(values) == len(wanted):
                filled = _Filled(dict(zip(wanted, values, strict=True)))
                for statement in node.body:
                    yield from _in_python(filled.visit(parse(ast.unparse(statement))), function)


class _Filled(ast.NodeTransformer):
    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self.values:
            statement = parse(repr(self.values[node.id])).body[0]
            assert isinstance(statement, ast.Expr)
            return statement.value
        return node


def _in_prose(text: str, function: str) -> Iterator[Call]:
    """Doctests, and calls that are followed by a word such as "returns" and a literal."""
    try:
        examples = doctest.DocTestParser().get_examples(text)
    except ValueError:  # a prompt with odd indentation
        examples = []
    for example in examples:
        known, expected = _literal_of(example.want.strip())
        for node in _expressions(example.source):
            yield from _call(node, function, expected=(expected,) if known else ())
            yield from _in_python(ast.Module([ast.Expr(node)], []), function)
    for match in re.finditer(rf"(?<![\w.]){re.escape(function)}\(", text):
        end = _closing(text, match.end())
        nodes = _expressions(text[match.start() : end])
        if not nodes:
            continue
        says = _SAYS.match(text, end)
        known, expected = _leading_literal(text, says.end()) if says else (False, None)
        yield from _call(nodes[0], function, expected=(expected,) if known else ())


def _expressions(source: str) -> list[ast.expr]:
    try:
        return [node.value for node in parse(source.strip()).body if isinstance(node, ast.Expr)]
    except ValueError:
        return []


def _closing(text: str, start: int) -> int:
    """Where the bracket that was opened before `start` closes; `start` where it does not."""
    depth, quote, i = 1, "", start
    while i < min(len(text), start + _MAX_SHOWN):
        character = text[i]
        if quote:
            if character == "\\":
                i += 1
            elif character == quote:
                quote = ""
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
            if not depth:
                return i + 1
        i += 1
    return start


_SCALAR = re.compile(r"-?\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?|True\b|False\b|None\b")


def _leading_literal(text: str, start: int) -> tuple[bool, Any]:
    """The literal that begins at `start` of a text."""
    opening = text[start : start + 1]
    if opening and opening in "([{":
        return _literal_of(text[start : _closing(text, start + 1)])
    if opening and opening in "'\"":
        for match in re.finditer(opening, text[start + 1 : start + _MAX_SHOWN]):
            known, value = _literal_of(text[start : start + 1 + match.end()])
            if known:
                return known, value
        return False, None
    scalar = _SCALAR.match(text, start)
    return _literal_of(scalar.group()) if scalar else (False, None)


def _literal_of(text: str) -> tuple[bool, Any]:
    nodes = _expressions(text)
    return _literal(nodes[0]) if len(nodes) == 1 else (False, None)


def _literal(node: ast.AST) -> tuple[bool, Any]:
    """Whether a node is a literal, and its value."""
    try:
        return True, ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False, None
