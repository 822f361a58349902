"""Python that the model wrote, read as a syntax tree and never run."""

from __future__ import annotations

import ast
import re
import threading
import warnings
from dataclasses import dataclass

_MAX_CHARACTERS = 200_000
_LINE_END = re.compile(r"\r\n|\r|\n")
"""As the parser counts lines; by str.splitlines a form feed would hide a line behind another."""
_PARSING = threading.Lock()
"""Before Python 3.13 two threads must not parse at once: the depth of all trees under way is
counted together (SystemError), and filters of warnings are the process's."""


@dataclass(frozen=True, slots=True)
class Code:
    """One parsed program: `place` is its file, or what it was given to; `turn` where known."""

    place: str
    tree: ast.Module
    lines: tuple[str, ...]
    turn: int | None = None

    def line(self, node: ast.AST) -> str:
        """The first line of a node."""
        number = getattr(node, "lineno", 0)
        return self.lines[number - 1].strip() if 0 < number <= len(self.lines) else ""


def parsed(place: str, text: str, turn: int | None = None) -> Code | None:
    """None where the text is too long or not Python."""
    if len(text) > _MAX_CHARACTERS:
        return None
    with _PARSING, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its escapes are its own matter
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
    return Code(place, tree, tuple(_LINE_END.split(text)), turn)


def dotted(node: ast.AST) -> str:
    """`os.path.join` of such a chain of names, else empty."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def imported(tree: ast.Module) -> dict[str, str]:
    """Local name → what it stands for (`p` → `os.path`), by the file's import statements."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.asname:
                    names[alias.asname] = alias.name
                else:
                    names[alias.name.partition(".")[0]] = alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return names


def full_name(node: ast.AST, names: dict[str, str]) -> str:
    """The dotted name with its first part resolved by the imports."""
    first, dot, rest = dotted(node).partition(".")
    return f"{names.get(first, first)}{dot}{rest}"
