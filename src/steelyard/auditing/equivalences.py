"""Other ways to write the same thing: each finds the places where the meaning cannot change.

Every finder takes a source and returns edits that do not overlap. What "cannot change" rests on:
names have no side effects when they are read, comparisons of plain data are symmetric (sources
that define their own, or import what might, are passed over by `rewrites`), and nobody looks at
local variables from outside.
"""

from __future__ import annotations

import ast
import string
from collections.abc import Iterator

from steelyard.auditing.naming import fresh
from steelyard.auditing.sources import FUNCTION, Edit, Source

_MIRRORED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.Gt: ast.Lt,
    ast.LtE: ast.GtE,
    ast.GtE: ast.LtE,
}
_NEGATED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}


def mirrored_comparisons(source: Source) -> list[Edit]:
    """`a < b` as `b > a`, of names and literals only: both sides are then free of effects."""
    return [
        _replaced(node, node.comparators[0], _MIRRORED[type(node.ops[0])], node.left)
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Compare) and len(node.ops) == 1
        and type(node.ops[0]) in _MIRRORED
        and _is_plain(node.left) and _is_plain(node.comparators[0])
    ]  # fmt: skip


def negated_comparisons(source: Source) -> list[Edit]:
    """`not a == b` as `a != b` and the reverse; likewise `in` and `is`."""
    edits = []
    for node in ast.walk(source.tree):
        match node:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Compare(ops=[op]) as inner):
                if type(op) in _NEGATED:
                    other = _NEGATED[type(op)]()
                    edits.append(Edit([node], ast.Compare(inner.left, [other], inner.comparators)))
            case ast.Compare(ops=[ast.NotEq() | ast.NotIn() | ast.IsNot() as op]):
                if not isinstance(source.parents[node][0], ast.UnaryOp):
                    other = _NEGATED[type(op)]()
                    plain = ast.Compare(node.left, [other], node.comparators)
                    edits.append(Edit([node], ast.UnaryOp(ast.Not(), plain)))
    return apart(edits)


def none_first(source: Source) -> list[Edit]:
    """`x is None` as `None is x`."""
    edits = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Compare(ops=[ast.Is() | ast.IsNot()], comparators=[ast.Constant(value=None)]):
                edits.append(Edit([node], ast.Compare(node.comparators[0], node.ops, [node.left])))
    return apart(edits)


def conditional_expressions(source: Source) -> list[Edit]:
    """`if t: x = a else: x = b`, and the same with return, as one conditional expression."""
    edits = []
    for node in ast.walk(source.tree):
        match node:
            case ast.If(test=t, body=[ast.Return(value=ast.expr() as a)],
                        orelse=[ast.Return(value=ast.expr() as b)]):  # fmt: skip
                edits.append(Edit([node], [ast.Return(ast.IfExp(t, a, b))]))
            case ast.If(test=t, body=[ast.Assign(targets=[ast.Name(id=x)], value=a)],
                        orelse=[ast.Assign(targets=[ast.Name(id=y)], value=b)]):  # fmt: skip
                if x == y:
                    edits.append(Edit([node], [assigned(x, ast.IfExp(t, a, b))]))
    return apart(edits)


def if_statements(source: Source) -> list[Edit]:
    """`return a if t else b`, and the same with an assigned name, as if and else."""
    edits = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Return(value=ast.IfExp(test=t, body=a, orelse=b)):
                edits.append(Edit([node], [ast.If(t, [ast.Return(a)], [ast.Return(b)])]))
            case ast.Assign(targets=[ast.Name()], value=ast.IfExp(test=t, body=a, orelse=b)):
                one, two = (ast.Assign(node.targets, value, lineno=0) for value in (a, b))
                edits.append(Edit([node], [ast.If(t, [one], [two])]))
    return apart(edits)


def else_after_return(source: Source) -> list[Edit]:
    """What follows `if t: return a`, to the block's end, as its else."""
    edits = []
    for block in blocks(source):
        for i, node in enumerate(block[:-1]):
            if isinstance(node, ast.If) and not node.orelse and _leaves(node.body):
                moved = ast.If(node.test, node.body, block[i + 1 :])
                edits.append(Edit(block[i:], [moved]))
                break
    return apart(edits)


def no_else_after_return(source: Source) -> list[Edit]:
    """The else of `if t: return a` as the statements that follow it."""
    edits = []
    for block in blocks(source):
        for node in block:
            if isinstance(node, ast.If) and node.orelse and _leaves(node.body):
                edits.append(Edit([node], [ast.If(node.test, node.body, []), *node.orelse]))
    return apart(edits)


def single_return(source: Source) -> list[Edit]:
    """`if t: return a` and the final `return b` after it, with one return for both."""
    edits = []
    for function in ast.walk(source.tree):
        if not isinstance(function, FUNCTION):
            continue
        match function.body[-2:]:
            case [ast.If(test=t, body=[ast.Return(value=ast.expr() as a)], orelse=[]) as first,
                  ast.Return(value=ast.expr() as b) as last]:  # fmt: skip
                name = fresh("answer", source)
                branches = (assigned(name, a), assigned(name, b))
                joined = ast.If(t, [branches[0]], [branches[1]])
                edits.append(Edit([first, last], [joined, ast.Return(load(name))]))
    return apart(edits)


def named_results(source: Source) -> list[Edit]:
    """`return a` as `answer = a` and `return answer`, where a is more than a name or constant."""
    name = fresh("answer", source)
    edits = []
    for block in blocks(source):
        for node in block:
            match node:
                case ast.Return(value=ast.expr() as a) if not _is_plain(a):
                    edits.append(Edit([node], [assigned(name, a), ast.Return(load(name))]))
    return apart(edits)


def format_calls(source: Source) -> list[Edit]:
    """f"{x:>3}" as "{:>3}".format(x), where only names and literals are formatted."""
    edits = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.JoinedStr) and source.parents[node][1] != "format_spec":
            made = _format_call(node)
            if made is not None:
                edits.append(Edit([node], made))
    return apart(edits)


def _format_call(node: ast.JoinedStr) -> ast.expr | None:
    text, arguments = "", list[ast.expr]()
    for part in node.values:
        match part:
            case ast.Constant(value=str(literal)):
                text += literal.replace("{", "{{").replace("}", "}}")
            case ast.FormattedValue(value=value, conversion=conversion, format_spec=spec) if (
                _is_plain(value)
            ):
                match spec:
                    case None:
                        tail = ""
                    case ast.JoinedStr(values=[ast.Constant(value=str(given))]) if (
                        "{" not in given and "}" not in given
                    ):
                        tail = f":{given}"
                    case _:
                        return None
                text += "{" + (f"!{chr(conversion)}" if conversion > 0 else "") + tail + "}"
                arguments.append(value)
            case _:
                return None
    if not arguments:
        return None
    return ast.Call(ast.Attribute(ast.Constant(text), "format", ast.Load()), arguments, [])


def f_strings(source: Source) -> list[Edit]:
    """ "{} of {}".format(a, b) as an f-string, for names and fields in order."""
    edits = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format"),
                args=arguments,
                keywords=[],
            ) if arguments and all(isinstance(a, ast.Name) for a in arguments):
                made = _f_string(text, arguments)
                if made is not None:
                    edits.append(Edit([node], made))
    return apart(edits)


def _f_string(text: str, arguments: list[ast.expr]) -> ast.expr | None:
    parts, waiting = list[ast.expr](), list(arguments)
    try:
        for literal, field, spec, conversion in string.Formatter().parse(text):
            if literal:
                parts.append(ast.Constant(literal))
            if field is None:
                continue
            if field or not waiting or "{" in (spec or "") or conversion not in (None, *"rsa"):
                return None
            given = ast.JoinedStr([ast.Constant(spec)]) if spec else None
            code = ord(conversion) if conversion else -1
            parts.append(ast.FormattedValue(waiting.pop(0), code, given))
    except ValueError:  # the call itself raises
        return None
    return None if waiting else ast.JoinedStr(parts)


def _replaced(node: ast.expr, left: ast.expr, operator: type[ast.cmpop], right: ast.expr) -> Edit:
    return Edit([node], ast.Compare(left, [operator()], [right]))


def blocks(source: Source) -> Iterator[list[ast.stmt]]:
    """Every list of statements that are carried out one after another."""
    for node in ast.walk(source.tree):
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                yield value


def apart(edits: list[Edit]) -> list[Edit]:
    """Those of the edits that do not lie in one another, outer first."""
    taken: set[ast.AST] = set()
    kept = []
    for edit in edits:
        nodes = {inner for node in edit.nodes for inner in ast.walk(node)
                 if not isinstance(inner, (ast.expr_context, ast.operator, ast.cmpop,
                                           ast.unaryop, ast.boolop))}  # fmt: skip
        if not nodes & taken:
            taken |= nodes
            kept.append(edit)
    return kept


def _leaves(body: list[ast.stmt]) -> bool:
    return isinstance(body[-1], (ast.Return, ast.Raise))


def _is_plain(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, (ast.Name, ast.Constant))


def load(name: str) -> ast.expr:
    """The name, read."""
    return ast.Name(name, ast.Load())


def assigned(name: str, value: ast.expr) -> ast.stmt:
    """`name = value`."""
    return ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)
