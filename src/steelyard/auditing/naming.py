"""Names of a Python source: which may change, and what to call them."""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Collection, Iterator

from steelyard.auditing.sources import FUNCTION, Edit, Source

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_NAMELESS = (*FUNCTION, ast.Lambda)


def names_in(node: ast.AST) -> set[str]:
    """The identifiers of the Name nodes below and at `node`."""
    return {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def fresh(wish: str, source: Source) -> str:
    """`wish`, with underscores after it until nothing in the source's text reads so."""
    while wish in source.text:
        wish += "_"
    return wish


def renamed_locals(source: Source, keep: Collection[str]) -> list[Edit]:
    """Every local variable of every function under another name; parameters stay.

    A name is left alone where it is more than a plain variable (global, nonlocal, an import, a
    caught exception, a pattern, a nested function, a parameter somewhere within). Functions that
    hold classes are left alone.
    """
    edits: list[Edit] = []
    for function in ast.walk(source.tree):
        if isinstance(function, FUNCTION) and source.function_of(function) is None:
            body = [node for statement in function.body for node in ast.walk(statement)]
            if any(isinstance(node, ast.ClassDef) or _is_generic(node) for node in body):
                continue
            uses: dict[str, list[ast.Name]] = {}
            for node in body:
                if isinstance(node, ast.Name):
                    uses.setdefault(node.id, []).append(node)
            fixed = _fixed(function) | set(keep)
            for name, nodes in uses.items():
                if name in fixed or name.startswith("__"):
                    continue
                if _is_local(source, function, nodes):
                    new = fresh(f"{name}_value", source)
                    edits += [Edit([node], ast.Name(new, node.ctx)) for node in nodes]
    return edits


def _is_generic(node: ast.AST) -> bool:
    return bool(getattr(node, "type_params", None))


def _fixed(function: ast.AST) -> set[str]:
    """Names that the function binds otherwise than as plain variables."""
    names: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.arg(arg=name):
                names.add(name)
            case ast.Global(names=several) | ast.Nonlocal(names=several):
                names |= set(several)
            case ast.alias(name=name, asname=other):
                names |= {(other or name).partition(".")[0]}
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
                | ast.MatchMapping(rest=str(name))
            ):
                names.add(name)
    return names


def _is_local(source: Source, function: ast.AST, nodes: list[ast.Name]) -> bool:
    """Whether the function itself binds the name, or else comprehensions do around each use."""
    comprehended: list[ast.AST] = []
    for node in nodes:
        if not isinstance(node.ctx, ast.Store):
            continue
        around = _around(source, node, function)
        comprehension = _comprehension_that_binds(source, node, around)
        if comprehension is not None:
            comprehended.append(comprehension)
        elif not any(isinstance(up, _NAMELESS) for up in around):
            return True
    owned = {inner for c in comprehended for inner in _own_nodes(c)}
    return bool(comprehended) and all(node in owned for node in nodes)


def _around(source: Source, node: ast.AST, function: ast.AST) -> list[ast.AST]:
    found = []
    for up in source.ancestors(node):
        if up is function:
            break
        found.append(up)
    return found


def _comprehension_that_binds(
    source: Source, node: ast.AST, around: list[ast.AST]
) -> ast.AST | None:
    """The comprehension of which the node is a target; := binds outside of it."""
    inner = node
    for up in around:
        if isinstance(up, ast.comprehension):
            return source.parents[up][0] if source.parents[inner][1] == "target" else None
        if not isinstance(up, (ast.Tuple, ast.List, ast.Starred)):
            return None
        inner = up
    return None


def _own_nodes(comprehension: ast.AST) -> Iterator[ast.AST]:
    """What is evaluated in the comprehension's scope: all but its first iterable."""
    assert isinstance(comprehension, _COMPREHENSIONS)
    outside = set(ast.walk(comprehension.generators[0].iter))
    return (node for node in ast.walk(comprehension) if node not in outside)


def renamed_helpers(source: Source, keep: Collection[str]) -> str | None:
    """The text with every private module-level function (`_name`, not in `keep`) renamed.

    None where there is none. A helper stays if its name occurs as anything but its one definition
    and plain uses: in a string, as an attribute, a parameter, a variable.
    """
    renamed: dict[str, str] = {}
    helpers = [n for n in source.tree.body if isinstance(n, FUNCTION) and not n.decorator_list]
    for helper in helpers:
        name = helper.name
        if not name.startswith("_") or name.startswith("__") or name in keep:
            continue
        uses = [n for n in ast.walk(source.tree) if isinstance(n, ast.Name) and n.id == name]
        plain = all(isinstance(node.ctx, ast.Load) for node in uses)
        mentioned = any(
            isinstance(n, ast.Constant) and isinstance(n.value, str) and name in n.value
            for n in ast.walk(source.tree)
        )
        if plain and not mentioned and _count(source, name) == len(uses) + 1:
            renamed[name] = fresh(f"{name}_inner", source)
    return _with_tokens(source, renamed) if renamed else None


def _count(source: Source, name: str) -> int:
    return sum(t.type == tokenize.NAME and t.string == name for t in source.tokens())


def _with_tokens(source: Source, renamed: dict[str, str]) -> str:
    lines = source.lines()
    for token in reversed(source.tokens()):
        if token.type == tokenize.NAME and token.string in renamed:
            row, start = token.start[0] - 1, token.start[1]
            line = lines[row]
            lines[row] = line[:start] + renamed[token.string] + line[start + len(token.string) :]
    return "".join(lines)
