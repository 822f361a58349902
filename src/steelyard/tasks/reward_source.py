"""Finds a user's reward function on disk and how it wants to be called; never imports it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

from steelyard.tasks.task import RewardStyle


@dataclass(frozen=True, slots=True)
class RewardSource:
    """A function of the Python file `path`, and the style in which it is called."""

    path: Path
    function: str
    style: RewardStyle


def find_reward(reward: str, folder: Path) -> RewardSource:
    """The function that `reward` names, `file.py:function` or `module:function`.

    Looked for below `folder`, then below the current directory; a dotted module is a path. The
    style is read from the function's parameters: `completions` is TRL's, `completion` that of
    verifiers, anything else ours. ValueError says what is missing and what to write.
    """
    module, colon, function = reward.rpartition(":")
    if not colon or not module or not function.isidentifier():
        raise ValueError(
            f"reward = {reward!r} is not valid; give file.py:function or module:function"
        )
    path = _find_file(module, reward, folder)
    tree = _parse(path)
    if function not in _defined_names(tree):
        raise ValueError(
            f"{path}: it defines no {function}, but reward = {reward!r} names it; define "
            f"{function}(prompt, answer, **row)"
        )
    return RewardSource(path.resolve(), function, _style(_parameters(tree, function, path.parent)))


def _find_file(module: str, reward: str, folder: Path) -> Path:
    name = module if module.endswith(".py") else f"{module.replace('.', '/')}.py"
    for base in (folder, Path.cwd()):
        if (base / name).is_file():
            return base / name
    raise ValueError(
        f"{folder / name}: there is no such file, but reward = {reward!r} names it; give its path "
        "relative to the JSONL's folder or to the current directory"
    )


def _parse(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        raise ValueError(f"{path} line {error.lineno}: {error.msg}; correct it") from None


def _defined_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def _style(parameters: set[str]) -> RewardStyle:
    if "completions" in parameters:
        return "trl"
    return "verifiers" if "completion" in parameters else "steelyard"


def _parameters(tree: ast.Module, function: str, folder: Path) -> set[str]:
    """The names of the function's parameters, followed through imports of files beside it.

    None are known of a function that is made at run time.
    """
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == function:
            arguments = node.args
            named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            return {argument.arg for argument in named}
        if isinstance(node, ast.ImportFrom) and node.module:
            original = {alias.asname or alias.name: alias.name for alias in node.names}
            file = folder / f"{node.module.replace('.', '/')}.py"
            if function in original and file.is_file():
                return _parameters(_parse(file), original[function], file.parent)
    return set()
