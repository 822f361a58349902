"""The ways in which a program is made wrong: each yields edits of one node.

An operator is a mistake that people and models make; the equivalent ones among its results are
told apart later, by running them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from steelyard.auditing.expression_operators import ARITHMETIC, expressions, is_none
from steelyard.auditing.sources import FUNCTION, Edit, Source

Change = tuple[str, list[Edit]]
"""The operator's name and what it does to the source."""


def changes(source: Source, node: ast.AST) -> Iterator[Change]:
    """Every change of this one node, in a fixed order."""
    parent, field = source.parents.get(node, (source.tree, ""))
    if isinstance(node, ast.expr):
        if isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            for name, new in expressions(node, parent, field):
                yield name, [Edit([node], new)]
            if isinstance(node, ast.Call):
                yield from _swapped_arguments(node)
    elif isinstance(node, ast.stmt):
        yield from _statements(node)
        if isinstance(node, FUNCTION):
            yield from _early_returns(node)
    elif isinstance(node, ast.ExceptHandler):
        yield "exception swallowed", [Edit(node.body, [ast.Pass()])]
        yield "handler removed", [Edit(node.body, [ast.Raise()])]


def _swapped_arguments(node: ast.Call) -> Iterator[Change]:
    for left, right in zip(node.args, node.args[1:], strict=False):
        if ast.dump(left) != ast.dump(right) and not isinstance(left, ast.Starred):
            yield "arguments swapped", [Edit([left], right), Edit([right], left)]


def _statements(node: ast.stmt) -> Iterator[Change]:
    nothing = [ast.Pass()]
    match node:
        case ast.Return(value=value) if value is not None and not is_none(value):
            yield "return value", [Edit([node], [ast.Return(ast.Constant(None))])]
        case ast.Expr(value=ast.Constant()) | ast.Return() | ast.Pass() | ast.Global():
            return
        case ast.Expr():
            yield "side effect removed", [Edit([node], nothing)]
        case ast.Raise() | ast.Assert():
            yield "check removed", [Edit([node], nothing)]
        case ast.Break():
            yield "break/continue", [Edit([node], [ast.Continue()])]
        case ast.Continue():
            yield "break/continue", [Edit([node], [ast.Break()])]
            yield "statement removed", [Edit([node], nothing)]
        case ast.AugAssign(target=target, op=op, value=value):
            for other in ARITHMETIC.get(type(op), ()):
                yield "arithmetic", [Edit([node], [ast.AugAssign(target, other(), value)])]
            yield "arithmetic", [Edit([node], [ast.Assign([target], value, lineno=0)])]
            yield "statement removed", [Edit([node], nothing)]
        case ast.Assign() | ast.Delete() | ast.AnnAssign(value=ast.expr()):
            yield "statement removed", [Edit([node], nothing)]
        case ast.If(orelse=orelse):
            yield "branch removed", [Edit([node], nothing)]
            if orelse:
                yield "branch removed", [Edit(orelse, nothing)]
        case ast.For(body=body) | ast.While(body=body):
            yield "loop removed", [Edit([node], nothing)]
            yield "loop cut short", [Edit([body[-1]], [ast.Break()], "after")]


def _early_returns(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[Change]:
    """The function's last return, given before an earlier branch or loop."""
    last = node.body[-1]
    if not isinstance(last, ast.Return):
        return
    needed = {n.id for n in ast.walk(last) if isinstance(n, ast.Name)}
    bound_later = set[str]()
    for statement in reversed(node.body[:-1]):
        bound_later |= {
            n.id
            for n in ast.walk(statement)
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        bound_before = _bound(node, statement)
        if isinstance(statement, (ast.If, ast.For, ast.While)) and (
            not needed & bound_later or needed & bound_later <= bound_before
        ):
            yield "early return", [Edit([statement], [last], "before")]


def _bound(node: ast.FunctionDef | ast.AsyncFunctionDef, before: ast.stmt) -> set[str]:
    names = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
    for statement in node.body[: node.body.index(before)]:
        names |= {n.id for n in ast.walk(statement)
                  if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}  # fmt: skip
    return names
