"""Edits of Python source that leave the text around them as it was."""

from __future__ import annotations

import ast
import io
import re
import threading
import tokenize
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

_PARSING = threading.Lock()
"""Two threads must not parse at once: before Python 3.13 the depth of all trees under way is
counted together (SystemError, "AST constructor recursion depth mismatch"), and filters of warnings
are the process's."""

FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)
"""The node types of a function that has a name."""


@dataclass(frozen=True)
class Edit:
    """Replaces one expression, or consecutive statements of one block, or inserts beside them."""

    nodes: Sequence[ast.AST]
    new: ast.expr | Sequence[ast.stmt]
    place: Literal["instead", "before", "after"] = "instead"


class Source:
    """Python text with its tree. ValueError where it is not Python."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parse(text)
        self._data = text.encode()
        self._line_starts = [0, *(m.end() for m in re.finditer(rb"\r\n|\r|\n", self._data))]
        self.parents: dict[ast.AST, tuple[ast.AST, str]] = {
            child: (parent, field)
            for parent in ast.walk(self.tree)
            for field, child in children(parent)
        }

    def lines(self) -> list[str]:
        """The lines with their ends, as the tokenizer counts them (not as str.splitlines does)."""
        return list(io.StringIO(self.text, newline=""))

    def tokens(self) -> list[tokenize.TokenInfo]:
        """The tokens; none where the tokenizer is stricter than the parser."""
        try:
            readline = io.StringIO(self.text, newline="").readline
            return list(tokenize.generate_tokens(readline))
        except (tokenize.TokenError, SyntaxError):
            return []

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around `node`, innermost first."""
        while node in self.parents:
            node = self.parents[node][0]
            yield node

    def function_of(self, node: ast.AST) -> ast.AST | None:
        """The innermost named function around `node`."""
        return next((up for up in self.ancestors(node) if isinstance(up, FUNCTION)), None)

    def edited(self, edits: Sequence[Edit]) -> str | None:
        """The text after the edits, which must not overlap.

        None where the text around them cannot be kept: it must then parse to exactly the edited
        tree, and compile.
        """
        wanted = substituted(self.tree, _plan(edits))
        try:
            texts = [self._spliced(edits, parenthesised) for parenthesised in (False, True)]
        except ValueError:  # Python 3.11 cannot write every f-string
            return None
        trees = {text: dumped(text) for text in texts if text is not None}
        for written in (ast.dump, _normal):  # the second is slow, and seldom needed
            accepted = written(wanted)
            for text, tree in trees.items():
                if tree and tree == accepted and _compiles(text):
                    return text
        return None

    def _spliced(self, edits: Sequence[Edit], parenthesised: bool) -> str | None:
        spans: dict[tuple[int, int], bytes] = {}
        for edit in edits:
            found = self._span(edit, edits, parenthesised)
            if found is None:
                return None
            start, end, text = found
            spans[start, end] = text.encode()
        data, last = self._data, len(self._data)
        for (start, end), new in sorted(spans.items(), reverse=True):
            if end > last:
                return None
            data, last = data[:start] + new + data[end:], start
        return data.decode()

    def _span(
        self, edit: Edit, edits: Sequence[Edit], parenthesised: bool
    ) -> tuple[int, int, str] | None:
        if isinstance(edit.new, ast.expr):
            # Positions inside f-strings mean nothing before Python 3.12: the whole is rewritten.
            node = edit.nodes[0]
            inside = [up for up in self.ancestors(node) if isinstance(up, ast.JoinedStr)]
            whole = inside[-1] if inside else node
            text = ast.unparse(substituted(whole, _plan(edits)))
            return self._start(whole), self._end(whole), f"({text})" if parenthesised else text
        start, end = self._start(edit.nodes[0]), self._end(edit.nodes[-1])
        line = self._data.rfind(b"\n", 0, start) + 1
        before = self._data[line:start].decode()
        text = "\n".join(ast.unparse(statement) for statement in edit.new)
        if self._data[start : start + 4] == b"elif" and edit.place == "instead":
            text = "else:\n" + "\n".join(f"    {row}" for row in text.split("\n"))
        if before.strip() and ("\n" in text or edit.place != "instead"):
            return None
        text = text.replace("\n", f"\n{before}")
        if edit.place == "before":
            return start, start, f"{text}\n{before}"
        return (end, end, f"\n{before}{text}") if edit.place == "after" else (start, end, text)

    def _start(self, node: Any) -> int:
        return int(self._line_starts[node.lineno - 1] + node.col_offset)

    def _end(self, node: Any) -> int:
        return int(self._line_starts[node.end_lineno - 1] + node.end_col_offset)


def parse(text: str | bytes) -> ast.Module:
    """The tree of Python text. ValueError with one sentence where it is not Python."""
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the text is another's; its escapes are its own matter
        try:
            return ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ValueError(f"this is not Python source: {error}") from None


def dumped(text: str) -> str:
    """The syntax tree of Python text as a string to compare; empty where it is not Python."""
    try:
        return ast.dump(parse(text))
    except ValueError:
        return ""


def _normal(tree: ast.Module) -> str:
    """How a tree made by hand reads once written: -1 is a Constant there and a UnaryOp here."""
    try:
        return dumped(ast.unparse(ast.fix_missing_locations(tree)))
    except ValueError:
        return ""


def _compiles(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "<source>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """The child nodes with the names of the fields that hold them."""
    for name, value in ast.iter_fields(node):
        for item in value if isinstance(value, list) else [value]:
            # ast shares one Load() among all who need it, so contexts have no parent
            if isinstance(item, ast.AST) and not isinstance(item, ast.expr_context):
                yield name, item


_Plan = dict[ast.AST, "ast.expr | list[ast.AST]"]


def _plan(edits: Sequence[Edit]) -> _Plan:
    """What stands in the edited tree where each node stood."""
    plan: _Plan = {}
    for edit in edits:
        first, last = edit.nodes[0], edit.nodes[-1]
        if isinstance(edit.new, ast.expr):
            plan[first] = edit.new
        elif edit.place == "before":
            plan[first] = [*edit.new, first]
        elif edit.place == "after":
            plan[last] = [last, *edit.new]
        else:
            plan |= {node: [] for node in edit.nodes}
            plan[first] = list(edit.new)
    return plan


def substituted(node: ast.AST, plan: _Plan, changed: bool = True) -> Any:
    """A copy of the tree with the plan carried out."""
    if changed and node in plan and isinstance(plan[node], ast.expr):
        return plan[node]
    fields: dict[str, Any] = {}
    for name, value in ast.iter_fields(node):
        if isinstance(value, list):
            items: list[Any] = []
            for item in value:
                new = plan.get(item) if isinstance(item, ast.AST) else None
                if isinstance(new, list):
                    items += [substituted(n, plan, False) if n is item else n for n in new]
                else:
                    items.append(substituted(item, plan) if isinstance(item, ast.AST) else item)
            fields[name] = items
        else:
            fields[name] = substituted(value, plan) if isinstance(value, ast.AST) else value
    copy = type(node)(**fields)
    return ast.copy_location(copy, node)
