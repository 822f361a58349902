"""A right program written otherwise: a verifier that rejects one of these rejects right work."""

from __future__ import annotations

import ast
import sys
import tokenize
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

from steelyard.auditing import equivalences, looping
from steelyard.auditing.naming import fresh, renamed_helpers, renamed_locals
from steelyard.auditing.sources import Edit, Source, dumped

_SELF_READING = frozenset(
    ("locals", "vars", "globals", "dir", "eval", "exec", "compile", "help", "inspect", "linecache",
     "tokenize", "ast", "dis", "traceback", "doctest", "symtable", "getsource", "_getframe",
     "currentframe", "settrace", "setprofile", "gc", "__file__", "__doc__", "__code__", "__dict__",
     "__annotations__", "get_type_hints", "signature", "trace", "pdb", "tb_lineno", "f_lineno")
)  # fmt: skip
"""What lets a program see its own text, names or frames. `x.compile` and `x.dir` are no such."""
_BUILTINS_ONLY = frozenset(("compile", "dir", "vars", "help", "eval", "exec", "trace"))
_OWN_COMPARISON = frozenset(("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"))
_OWN_FORMAT = frozenset(("__format__", "__str__", "__repr__"))


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One program that does the same as the original; `name` says how it differs."""

    name: str
    source: str


def rewrites(source: str, keep: Collection[str] = ()) -> list[Rewrite]:
    """Rewrites of Python source that mean exactly the same to whoever imports and calls it.

    Each applies one idea everywhere it is safe; what is not provably safe is left as it was, and
    an idea that changes nothing is left out. Parameters, public names and the names in `keep` stay:
    give there the private names that other files use. A program that looks at itself (locals(),
    eval, inspect, __doc__, ...) has none. Messages of exceptions may differ, their types do not.
    ValueError where the text is not Python.
    """
    whole = Source(source)
    if _mentions(whole, _SELF_READING):
        return []
    found: dict[str, str] = {}
    for name, text in _texts(whole, keep):
        if text is not None and text != source:
            found.setdefault(text, name)
    return [Rewrite(name, text) for text, name in found.items()]


def _texts(whole: Source, keep: Collection[str]) -> Iterator[tuple[str, str | None]]:
    tree = ast.dump(whole.tree)
    for name, restyle in _STYLES.items():
        text = restyle(whole)
        yield name, text if text is not None and dumped(text) == tree else None
    for name, finder in _finders(whole).items():
        yield name, _applied(whole, finder(whole))
    if not _mentions(whole, frozenset(("NameError", "UnboundLocalError"))):
        yield "locals renamed", _applied(whole, renamed_locals(whole, keep))
        if not _mentions(whole, frozenset(("__name__", "__qualname__")), attributes_only=True):
            yield "private helpers renamed", renamed_helpers(whole, keep)
    yield "docstrings removed", _applied(whole, _without_docstrings(whole))
    yield "docstrings added", _applied(whole, _with_docstrings(whole))
    name = fresh("_unused_helper", whole)
    end = "" if whole.text.endswith("\n") else "\n"
    yield "unused helper added", f"{whole.text}{end}\n\ndef {name}(value):\n    return value\n"


def _finders(whole: Source) -> dict[str, Callable[[Source], list[Edit]]]:
    """The equivalences that are safe in this source."""
    found: dict[str, Callable[[Source], list[Edit]]] = {
        "None compared first": equivalences.none_first,
        "conditional expressions": equivalences.conditional_expressions,
        "if statements": equivalences.if_statements,
        "else after return": equivalences.else_after_return,
        "no else after return": equivalences.no_else_after_return,
        "single return": equivalences.single_return,
        "results named": equivalences.named_results,
        "comprehensions": looping.comprehensions,
        "loops": looping.loops,
    }
    if not _imports_others(whole) and not any(name in whole.text for name in _OWN_COMPARISON):
        found["comparisons negated"] = equivalences.negated_comparisons
        # a TypeError names the operands in their order
        if not any(isinstance(n, ast.ExceptHandler) and n.name for n in ast.walk(whole.tree)):
            found["comparisons mirrored"] = equivalences.mirrored_comparisons
    if not any(name in whole.text for name in _OWN_FORMAT):
        found["format calls"] = equivalences.format_calls
        found["f-strings"] = equivalences.f_strings
    return found


def _applied(whole: Source, edits: Sequence[Edit]) -> str | None:
    """The text after all edits, or else after those that the text allows."""
    if not edits:
        return None
    text = whole.edited(edits)
    if text is None:
        possible = [edit for edit in edits if whole.edited([edit]) is not None]
        text = whole.edited(possible) if possible else None
    return text


def _mentions(whole: Source, words: frozenset[str], attributes_only: bool = False) -> bool:
    for node in ast.walk(whole.tree):
        match node:
            case ast.Attribute(attr=name) if name in words - _BUILTINS_ONLY:
                return True
            case ast.Name(id=name) if name in words and not attributes_only:
                return True
            case ast.Import(names=aliases) if any(
                part in words for alias in aliases for part in alias.name.split(".")
            ):
                return True
            case ast.ImportFrom(module=module, names=aliases) if words & {
                *(module or "").split("."),
                *(alias.name for alias in aliases),
            }:
                return True
            case ast.Constant(value=str(text)) if text in words:  # getattr(f, "__code__")
                return True
    return False


def _imports_others(whole: Source) -> bool:
    """Whether it imports what is not of the standard library, whose objects may compare oddly."""
    for node in ast.walk(whole.tree):
        match node:
            case ast.Import(names=aliases):
                modules = [alias.name for alias in aliases]
            case ast.ImportFrom(module=module, level=level):
                modules = ["." if level else module or "."]
            case _:
                continue
        if any(name.partition(".")[0] not in sys.stdlib_module_names for name in modules):
            return True
    return False


def _without_docstrings(whole: Source) -> list[Edit]:
    return [
        Edit(node.body[:2], [node.body[1]] if len(node.body) > 1 else [ast.Pass()])
        for node in _plain_functions(whole)
        if ast.get_docstring(node, clean=False) is not None
    ]


def _with_docstrings(whole: Source) -> list[Edit]:
    text = ast.Expr(ast.Constant("Does what its name says."))
    return [
        Edit([node.body[0]], [text], "before")
        for node in _plain_functions(whole)
        if ast.get_docstring(node, clean=False) is None
    ]


def _plain_functions(whole: Source) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Outermost functions without decorators, which could read what they decorate."""
    for node in ast.walk(whole.tree):
        if (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            and not node.decorator_list
            and whole.function_of(node) is None
        ):
            yield node


def _reformatted(whole: Source) -> str | None:
    try:
        return ast.unparse(whole.tree) + "\n"
    except ValueError:  # Python 3.11 cannot write every f-string
        return None


def _other_quotes(whole: Source) -> str | None:
    """'text' as "text" and the reverse, where the text holds neither quotes nor backslashes."""
    lines = whole.lines()
    for token in reversed(whole.tokens()):
        text = token.string
        if token.type == tokenize.STRING and token.start[0] == token.end[0]:
            body = text[1:-1]
            if text[0] in "'\"" and not set(body) & set("'\"\\"):
                quote = '"' if text[0] == "'" else "'"
                row, start, end = token.start[0] - 1, token.start[1], token.end[1]
                lines[row] = f"{lines[row][:start]}{quote}{body}{quote}{lines[row][end:]}"
    return "".join(lines)


def _other_indentation(whole: Source) -> str | None:
    """Twice the leading spaces; lines that begin inside a string stay."""
    within = {
        row
        for token in whole.tokens()
        if token.type not in (tokenize.NEWLINE, tokenize.NL)
        for row in range(token.start[0] + 1, token.end[0] + 1)
    }
    lines = whole.lines()
    for row, line in enumerate(lines, start=1):
        if row not in within:
            lines[row - 1] = line[: len(line) - len(line.lstrip(" "))] + line
    return "".join(lines)


def _commented(whole: Source) -> str | None:
    """A comment above each top-level statement."""
    lines = whole.lines()
    for statement in reversed(whole.tree.body):
        decorators = getattr(statement, "decorator_list", [])
        row = min([statement.lineno, *(d.lineno for d in decorators)]) - 1
        lines.insert(row, "# As it should be.\n")
    return "".join(lines)


_STYLES: dict[str, Callable[[Source], str | None]] = {
    "reformatted": _reformatted,
    "other quotes": _other_quotes,
    "other indentation": _other_indentation,
    "comments added": _commented,
}
