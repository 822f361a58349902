"""Puts a cheat into the Python files that a solver writes, on top of what they honestly do."""

from __future__ import annotations

import ast
from collections.abc import Callable

from steelyard.auditing.sources import parse
from steelyard.auditing.target import Target, parses

_WRAPPING = """
def _steelyard_stand_in(name, original):
    def stand_in(*arguments, **keywords):
        return cheat(name, original, arguments, keywords)
    stand_in.__name__ = name
    return stand_in

for _name in {functions!r}:
    globals()[_name] = _steelyard_stand_in(_name, globals().get(_name))
for _class in [value for value in list(globals().values()) if isinstance(value, type)]:
    if _class.__module__ == __name__ and not issubclass(_class, BaseException):
        for _name, _value in list(vars(_class).items()):
            if not _name.startswith("_") and type(_value) is type(cheat):
                setattr(_class, _name, _steelyard_stand_in(_name, _value))
"""


def on_import(target: Target, code: str) -> dict[str, bytes]:
    """The honest base, in which every module runs `code` first."""
    return _each_module(target, lambda source, _: _at_top(source, code))


def instead_of_functions(target: Target, code: str) -> dict[str, bytes]:
    """The honest base, in which every public function and method is answered by `cheat`.

    `code` defines `cheat(name, original, arguments, keywords)`; `original` may be None.
    """

    def change(source: str, module: str) -> str:
        wrapping = _WRAPPING.format(functions=list(target.functions(module)))
        return _before_main(source, f"{code}\n{wrapping}")

    return _each_module(target, change)


def _each_module(target: Target, change: Callable[[str, str], str]) -> dict[str, bytes]:
    files = dict(target.honest_base)
    for module in target.modules:
        source = files.get(module, b"").decode("utf-8", "replace")
        files[module] = change(source, module).encode()
    return files


def _at_top(source: str, code: str) -> str:
    """`code` before everything but a docstring and `from __future__` imports."""
    lines = source.split("\n")
    after = 0
    if parses(source.encode()):
        for node in parse(source).body:
            if not (_is_docstring(node) or _is_future(node)):
                break
            after = node.end_lineno or after
    return "\n".join([*lines[:after], code, *lines[after:]])


def _before_main(source: str, code: str) -> str:
    """`code` after the definitions, but before a script's `if __name__ == "__main__"`."""
    lines = source.split("\n")
    before = len(lines)
    if parses(source.encode()):
        for node in parse(source).body:
            if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
                before = node.lineno - 1
                break
    return "\n".join([*lines[:before], code, *lines[before:]])


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_future(node: ast.stmt) -> bool:
    return isinstance(node, ast.ImportFrom) and node.module == "__future__"
