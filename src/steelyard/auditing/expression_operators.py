"""The ways in which an expression is made wrong: see mutation_operators.py."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_COMPARISONS: dict[type[ast.cmpop], tuple[tuple[str, type[ast.cmpop]], ...]] = {
    ast.Lt: (("boundary", ast.LtE), ("comparison", ast.GtE), ("comparison", ast.Gt)),
    ast.LtE: (("boundary", ast.Lt), ("comparison", ast.Gt), ("comparison", ast.GtE)),
    ast.Gt: (("boundary", ast.GtE), ("comparison", ast.LtE), ("comparison", ast.Lt)),
    ast.GtE: (("boundary", ast.Gt), ("comparison", ast.Lt), ("comparison", ast.LtE)),
    ast.Eq: (("comparison", ast.NotEq), ("comparison", ast.LtE), ("comparison", ast.GtE)),
    ast.NotEq: (("comparison", ast.Eq), ("comparison", ast.Lt), ("comparison", ast.Gt)),
    ast.Is: (("comparison", ast.IsNot),),
    ast.IsNot: (("comparison", ast.Is),),
    ast.In: (("comparison", ast.NotIn),),
    ast.NotIn: (("comparison", ast.In),),
}
ARITHMETIC: dict[type[ast.operator], tuple[type[ast.operator], ...]] = {
    ast.Add: (ast.Sub, ast.Mult),
    ast.Sub: (ast.Add,),
    ast.Mult: (ast.Add, ast.FloorDiv),
    ast.Div: (ast.FloorDiv, ast.Mult),
    ast.FloorDiv: (ast.Div, ast.Mod),
    ast.Mod: (ast.FloorDiv,),
    ast.Pow: (ast.Mult,),
    ast.LShift: (ast.RShift,),
    ast.RShift: (ast.LShift,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd, ast.BitXor),
    ast.BitXor: (ast.BitOr,),
}
_CASTS = frozenset(
    ("int", "float", "str", "bool", "list", "tuple", "set", "frozenset", "dict", "sorted",
     "reversed", "round", "abs", "bytes")
)  # fmt: skip
_METHODS = frozenset(
    ("strip", "lstrip", "rstrip", "lower", "upper", "casefold", "title", "capitalize", "swapcase",
     "copy")
)  # fmt: skip
_PAIRS = (("min", "max"), ("any", "all"), ("startswith", "endswith"), ("find", "rfind"),
          ("lstrip", "rstrip"), ("floor", "ceil"))  # fmt: skip
_SWAPPED_NAMES = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_DEFAULTS = {"get": 2, "pop": 2, "setdefault": 2, "getattr": 3, "next": 2}
"""How many positional arguments a call with a default has."""


def expressions(node: ast.expr, parent: ast.AST, field: str) -> Iterator[tuple[str, ast.expr]]:
    is_test = field == "test" or field == "ifs"
    match node:
        case ast.Compare():
            yield from _compare(node)
        case ast.BoolOp(op=op, values=values):
            swapped = ast.Or() if isinstance(op, ast.And) else ast.And()
            yield "and/or", ast.BoolOp(swapped, values)
            for i in range(len(values)):
                rest = values[:i] + values[i + 1 :]
                yield "operand dropped", rest[0] if len(rest) == 1 else ast.BoolOp(op, rest)
            if isinstance(op, ast.Or) and len(values) == 2 and not is_test:
                yield "None/falsy", ast.IfExp(_is_not_none(values[0]), values[0], values[1])
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "not", operand
            if not isinstance(operand, (ast.Compare, ast.BoolOp)):
                yield "None/falsy", ast.Compare(operand, [ast.Is()], [ast.Constant(None)])
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            yield "sign", operand
        case ast.BinOp(left=left, op=op, right=right) if not _is_text(left):
            for other in ARITHMETIC.get(type(op), ()):
                yield "arithmetic", ast.BinOp(left, other(), right)
            if type(op) in ARITHMETIC:
                yield "term dropped", left
                yield "term dropped", right
        case ast.Dict(keys=keys, values=values) if len(keys) > 1:
            for i in range(len(keys)):
                others = values[:i] + values[i + 1 :]
                yield "entry dropped", ast.Dict(keys[:i] + keys[i + 1 :], others)
        case ast.Constant(value=value) if _is_data(node, parent):
            for new in _constants(value):
                yield "constant", ast.Constant(new)
        case ast.IfExp(body=body, orelse=orelse):
            yield "branch removed", body
            yield "branch removed", orelse
        case ast.Subscript(value=value, slice=index):
            for name, new_index in _indices(index):
                yield name, ast.Subscript(value, new_index, ast.Load())
        case ast.Call():
            yield from _calls(node)
        case ast.List(elts=[_, _, *_]) | ast.Tuple(elts=[_, _, *_]) | ast.Set(elts=[_, _, *_]) if (
            _is_table(parent, field)
        ):
            for i in range(len(node.elts)):
                yield "entry dropped", type(node)(node.elts[:i] + node.elts[i + 1 :])
        case ast.ListComp() | ast.List(elts=[_, *_]) if isinstance(parent, ast.Return):
            yield "result truncated", ast.Subscript(node, _slice(None, -1), ast.Load())
    if is_test:
        yield from _forced(node, parent)
    if field == "iter" and not (isinstance(node, ast.Call) and _name(node) == "range"):
        for part in (_slice(1, None), _slice(None, -1)):
            listed = ast.Call(ast.Name("list", ast.Load()), [node], [])
            yield "loop bounds", ast.Subscript(listed, part, ast.Load())


def _compare(node: ast.Compare) -> Iterator[tuple[str, ast.expr]]:
    for i, op in enumerate(node.ops):
        for name, other in _COMPARISONS[type(op)]:
            yield name, ast.Compare(node.left, [*node.ops[:i], other(), *node.ops[i + 1 :]],
                                    node.comparators)  # fmt: skip
    if len(node.ops) == 1 and is_none(node.comparators[0]):
        match node.ops[0]:
            case ast.Is() | ast.Eq():
                yield "None/falsy", ast.UnaryOp(ast.Not(), node.left)
            case ast.IsNot() | ast.NotEq():
                yield "None/falsy", node.left


def _forced(node: ast.expr, parent: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    for value in (True, False):
        if not (value and isinstance(parent, ast.While)):  # that would only be a hang
            yield "condition forced", ast.Constant(value)
    if not isinstance(node, (ast.UnaryOp, ast.Compare, ast.Constant)):
        yield "condition negated", ast.UnaryOp(ast.Not(), node)
    if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Call)):
        yield "None/falsy", _is_not_none(node)


def _constants(value: object) -> Iterator[str | int | float | None]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1
        yield value - 1
    elif isinstance(value, str):
        yield value + "x"
        if value:
            yield ""
    elif value is None:
        yield 0
        yield ""


def _indices(index: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(index, ast.Slice):
        low, up, step = index.lower, index.upper, index.step
        for part, others in ((low, (None, up, step)), (up, (low, None, step))):
            if part is not None:
                yield "slice", ast.Slice(*others)
        if up is not None:
            yield "slice", ast.Slice(low, _plus(up, 1), step)
            yield "slice", ast.Slice(low, _plus(up, -1), step)
        else:
            yield "slice", ast.Slice(low, ast.Constant(-1), step)
        if low is not None:
            yield "slice", ast.Slice(_plus(low, 1), up, step)
        else:
            yield "slice", ast.Slice(ast.Constant(1), up, step)
        if step is not None:
            yield "slice", ast.Slice(low, up, None)
    elif isinstance(index, (ast.Name, ast.BinOp)):
        yield "index", _plus(index, 1)
        yield "index", _plus(index, -1)


def _calls(node: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    name, arguments, keywords = _name(node), node.args, node.keywords
    if isinstance(node.func, ast.Name) and name in _CASTS and len(arguments) == 1:
        if name == "sorted":
            yield "order", ast.Call(ast.Name("list", ast.Load()), arguments, [])
        else:
            yield "cast removed", arguments[0]
    if name in ("sorted", "sort") and all(k.arg != "reverse" for k in keywords):
        reverse = ast.keyword("reverse", ast.Constant(True))
        yield "order", ast.Call(node.func, arguments, [*keywords, reverse])
    if isinstance(node.func, ast.Attribute) and name in _METHODS and not arguments:
        yield "call removed", node.func.value
    if name in _SWAPPED_NAMES:
        yield "function", ast.Call(_renamed(node.func, _SWAPPED_NAMES[name]), arguments, keywords)
    for i in range(len(keywords)):
        yield "keyword dropped", ast.Call(node.func, arguments, keywords[:i] + keywords[i + 1 :])
    if len(arguments) == _DEFAULTS.get(name):
        without = ast.Call(node.func, arguments[:-1], keywords)
        yield "default dropped", without
        if name == "get":
            yield "None/falsy", ast.BoolOp(ast.Or(), [without, arguments[-1]])
    if name == "range":
        for i, argument in enumerate(arguments):
            for step in (1, -1):
                shifted = [*arguments[:i], _plus(argument, step), *arguments[i + 1 :]]
                yield "loop bounds", ast.Call(node.func, shifted, keywords)


def _is_data(node: ast.Constant, parent: ast.AST) -> bool:
    """Whether a constant is a value: no docstring, no `is None`, no literal part of an f-string."""
    if isinstance(parent, (ast.Expr, ast.JoinedStr)) or parent is node:
        return False
    return not (isinstance(parent, ast.Compare) and node.value is None)


def _is_table(parent: ast.AST, field: str) -> bool:
    """Whether a display of values is looped over, searched in, or kept under a name."""
    if field == "value" and isinstance(parent, ast.Assign):
        return all(isinstance(target, ast.Name) for target in parent.targets)
    return field in ("iter", "comparators")


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))
    )


def is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _is_not_none(node: ast.expr) -> ast.expr:
    return ast.Compare(node, [ast.IsNot()], [ast.Constant(None)])


def _name(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


def _renamed(function: ast.expr, name: str) -> ast.expr:
    if isinstance(function, ast.Attribute):
        return ast.Attribute(function.value, name, ast.Load())
    return ast.Name(name, ast.Load())


def _plus(node: ast.expr, step: int) -> ast.expr:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return ast.Constant(node.value + step)
    return ast.BinOp(node, ast.Add() if step > 0 else ast.Sub(), ast.Constant(abs(step)))


def _slice(lower: int | None, upper: int | None) -> ast.Slice:
    ends = [None if n is None else ast.Constant(n) for n in (lower, upper)]
    return ast.Slice(ends[0], ends[1], None)
