"""Programs that are wrong in one place, made from a right one."""

from __future__ import annotations

import ast
import difflib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from steelyard.auditing.mutation_operators import changes
from steelyard.auditing.sources import FUNCTION, Source, children, dumped

_UNTOUCHED_FIELDS = frozenset(("annotation", "returns", "decorator_list", "type_comment"))
_SHOWN_CHARACTERS = 60


@dataclass(frozen=True, slots=True)
class Mutant:
    """One program with one change: `line` (from 1) is where, `description` shows before → after.

    `source` differs from the original in that place alone.
    """

    operator: str
    line: int
    source: str
    description: str


def mutants(source: str, functions: Collection[str] = ()) -> list[Mutant]:
    """Every one-place mutant of Python source, in source order; none twice, none equal in syntax
    to the original.

    With `functions`, only code inside those (names, or `Class.method`). Docstrings, annotations
    and decorators stay. ValueError where the text is not Python or defines no such function.
    """
    whole = Source(source)
    seen = {ast.dump(whole.tree)}
    found: list[Mutant] = []
    for root in _roots(whole, functions):
        for node in _nodes(root):
            for operator, edits in changes(whole, node):
                text = whole.edited(edits)
                if text is None:
                    continue
                key = dumped(text)
                if key not in seen:
                    seen.add(key)
                    line, description = _difference(source, text)
                    found.append(Mutant(operator, line, text, description))
    return sorted(found, key=lambda mutant: mutant.line)


def spread(candidates: Sequence[Mutant], n: int) -> list[Mutant]:
    """At most `n` of them, so that operators and lines are covered evenly; the first are the
    most varied. Deterministic."""
    operators: Counter[str] = Counter()
    lines: Counter[int] = Counter()
    waiting = dict(enumerate(candidates))
    chosen: list[Mutant] = []
    while waiting and len(chosen) < n:
        i = min(waiting, key=lambda i: (operators[waiting[i].operator] + lines[waiting[i].line], i))
        mutant = waiting.pop(i)
        operators[mutant.operator] += 1
        lines[mutant.line] += 1
        chosen.append(mutant)
    return chosen


def reverted_hunks(before: bytes, after: bytes) -> list[bytes]:
    """The file `after` with each run of changed lines of the diff undone alone.

    Where there is one run only, undoing it gives `before`. Left out: runs whose undoing changes
    nothing in the syntax tree (comments, blank lines), where both texts are Python.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    blocks = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    texts = [
        b"".join([*new[:low], *old[first:last], *new[high:]])
        for tag, first, last, low, high in blocks
        if tag != "equal"
    ]
    kept = _tree(after)
    return [t for t in dict.fromkeys(texts) if t != after and (not kept or _tree(t) != kept)]


def _tree(data: bytes) -> str:
    """The dumped syntax tree; empty where the bytes are not Python."""
    try:
        return dumped(data.decode())
    except UnicodeDecodeError:
        return ""


def _roots(whole: Source, functions: Collection[str]) -> list[ast.AST]:
    if not functions:
        return [whole.tree]
    named: dict[str, list[ast.AST]] = {name: [] for name in functions}
    for node in ast.walk(whole.tree):
        if isinstance(node, FUNCTION):
            up = whole.parents[node][0]
            prefix = f"{up.name}." if isinstance(up, ast.ClassDef) else ""
            for name in {node.name, prefix + node.name} & named.keys():
                named[name].append(node)
    missing = sorted(name for name, nodes in named.items() if not nodes)
    if missing:
        raise ValueError(f"the source defines no function {missing[0]}; name one that it defines")
    chosen = [node for nodes in named.values() for node in nodes]
    return [n for n in chosen if not any(up in chosen for up in whole.ancestors(n))]


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes to mutate, outer before inner, in source order."""
    yield node
    for field, child in children(node):
        if field not in _UNTOUCHED_FIELDS and not _is_entry_point(child):
            yield from _nodes(child)


def _is_entry_point(node: ast.AST) -> bool:
    """`if __name__ == "__main__":`, which no import runs."""
    return isinstance(node, ast.If) and any(
        isinstance(n, ast.Name) and n.id == "__name__" for n in ast.walk(node.test)
    )


def _difference(before: str, after: str) -> tuple[int, str]:
    old, new = before.splitlines(), after.splitlines()
    same = 0
    while same < min(len(old), len(new)) and old[same] == new[same]:
        same += 1
    tail = 0
    while tail < min(len(old), len(new)) - same and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    left = " ".join(" ".join(old[same : len(old) - tail]).split())
    right = " ".join(" ".join(new[same : len(new) - tail]).split())
    pairs = enumerate(zip(left, right, strict=False))
    start = next((i for i, (a, b) in pairs if a != b), min(len(left), len(right)))
    return same + 1, f"{_short(left, start)} → {_short(right, start)}"


def _short(text: str, start: int) -> str:
    """The part of a line in which it differs, with what stands around it."""
    if not text:
        return "(nothing)"
    start = max(0, min(start - _SHOWN_CHARACTERS // 3, len(text) - _SHOWN_CHARACTERS))
    shown = text[start : start + _SHOWN_CHARACTERS]
    left, right = "…" if start else "", "…" if start + len(shown) < len(text) else ""
    return f"{left}{shown}{right}"
