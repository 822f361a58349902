"""List comprehensions as loops and the reverse, where nobody can see a difference."""

from __future__ import annotations

import ast
import itertools

from steelyard.auditing.equivalences import apart, assigned, blocks, load
from steelyard.auditing.naming import fresh, names_in
from steelyard.auditing.sources import FUNCTION, Edit, Source

_SCOPES = (*FUNCTION, ast.Lambda, ast.ClassDef)


def comprehensions(source: Source) -> list[Edit]:
    """`r = []` and the loop that only appends to it, as one list comprehension."""
    edits = []
    for block in blocks(source):
        for first, loop in itertools.pairwise(block):
            match first, loop:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=[])),
                    ast.For(target=target, iter=iterated, body=[body], orelse=[]),
                ):
                    pass
                case _:
                    continue
            tests: list[ast.expr] = []
            if isinstance(body, ast.If) and not body.orelse and len(body.body) == 1:
                tests, body = [body.test], body.body[0]
            match body:
                case ast.Expr(value=ast.Call(
                    func=ast.Attribute(value=ast.Name(id=owner), attr="append"),
                    args=[ast.expr() as item], keywords=[])) if owner == name:  # fmt: skip
                    made = ast.ListComp(item, [ast.comprehension(target, iterated, tests, 0)])
                    if _may_change(source, first, made, loop, name):
                        edits.append(Edit([first, loop], [assigned(name, made)]))
    return apart(edits)


def loops(source: Source) -> list[Edit]:
    """`r = [item for ...]`, or the same returned, as a loop that appends."""
    edits = []
    for node in ast.walk(source.tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp() as made):
                end: list[ast.stmt] = []
            case ast.Return(value=ast.ListComp() as made):
                name = fresh("collected", source)
                end = [ast.Return(load(name))]
            case _:
                continue
        if not _may_change(source, node, made, made, name):
            continue
        append = ast.Attribute(load(name), "append", ast.Load())
        body: ast.stmt = ast.Expr(ast.Call(append, [made.elt], []))
        for part in reversed(made.generators):
            for test in reversed(part.ifs):
                body = ast.If(test, [body], [])
            body = ast.For(part.target, part.iter, [body], [], lineno=0)
        edits.append(Edit([node], [assigned(name, ast.List([], ast.Load())), body, *end]))
    return apart(edits)


def _may_change(
    source: Source, statement: ast.AST, made: ast.ListComp, place: ast.AST, name: str
) -> bool:
    """Whether a loop and a comprehension differ in nothing that anyone can see: the names of the
    loop are used in `place` alone, and nobody reads `name` before it is complete."""
    function = source.function_of(statement)
    if function is None or isinstance(source.parents[statement][0], ast.ClassDef):
        return False
    closed = (*_SCOPES, ast.Try, ast.With, ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr,
              ast.AsyncFunctionDef, ast.GeneratorExp, ast.Global, ast.Nonlocal)  # fmt: skip
    if isinstance(function, ast.AsyncFunctionDef) or any(
        isinstance(node, closed) for node in ast.walk(function) if node is not function
    ):
        return False
    targets: set[str] = set()
    for part in made.generators:
        if part.is_async or any(
            not isinstance(n, (ast.Name, ast.Tuple, ast.Store)) for n in ast.walk(part.target)
        ):
            return False
        targets |= names_in(part.target)
    inside = names_in(made) | {n.id for n in ast.walk(place) if isinstance(n, ast.Name)} - {name}
    if name in names_in(made) or "super" in inside or name in targets:
        return False
    if targets & names_in(made.generators[0].iter):
        return False
    arguments = {a.arg for a in ast.walk(function) if isinstance(a, ast.arg)}
    within, first = set(ast.walk(place)), set(ast.walk(made.generators[0].iter))
    names = [n for n in ast.walk(function) if isinstance(n, ast.Name)]
    elsewhere = {n.id for n in names if n not in within}
    # a variable without a value is a NameError in a comprehension, an UnboundLocalError in a loop
    stored = {n.id for n in names if not isinstance(n.ctx, ast.Load)}
    read = {n.id for n in ast.walk(made) if isinstance(n, ast.Name) and n not in first} - targets
    bound = arguments | _bound_before(function, statement)
    return not targets & (elsewhere | arguments) and not (read & stored) - bound


def _bound_before(function: ast.AST, statement: ast.AST) -> set[str]:
    """Variables that have a value whenever `statement` is reached: assigned at the function's top
    level before it, and deleted nowhere."""
    assert isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
    names: set[str] = set()
    for earlier in function.body:
        if statement in set(ast.walk(earlier)):
            break
        if isinstance(earlier, ast.Assign):
            names |= {target.id for target in earlier.targets if isinstance(target, ast.Name)}
    deleted = {n.id for n in ast.walk(function)
               if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Del)}  # fmt: skip
    return names - deleted
