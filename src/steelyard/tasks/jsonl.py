"""The second form of task: a JSONL file of prompts and a Python reward function."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steelyard.tasks.task import AnswerForm, RewardFunction, Task

DEFAULT_REWARD = "rewards.py:score"

ANSWER_PATH = "answer.txt"
"""The file of the workspace that holds the text of an answer."""

_OWN_COLUMNS = ("prompt", "name", "kind", "split")


def read_jsonl(path: str | Path, reward: str = DEFAULT_REWARD) -> list[Task]:
    """One single-turn Task per line of `path`; blank lines are skipped.

    Each line is a JSON object with `prompt`, and perhaps `name`, `kind` and `split`; every other
    column goes to the reward function as a keyword. `reward` is `file.py:function` or
    `module:function`, relative to the folder of the JSONL; it is not imported here, only read.
    ValueError names the file, the line, the column and what to write there.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{file}: there is no such file")
    module, function = _resolve_reward(reward, file.parent)
    tasks: list[Task] = []
    lines: dict[str, int] = {}
    for number, row in _rows(file):
        task = _task(row, number, file, module, function)
        if task.name in lines:
            raise ValueError(
                f"{file} line {number}: name {task.name!r} is taken by line {lines[task.name]}; "
                "give every line a name of its own"
            )
        lines[task.name] = number
        tasks.append(task)
    if not tasks:
        raise ValueError(f"{file}: it holds no prompts; write one JSON object per line")
    return tasks


def _rows(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(
                f"{file} line {number}: this is not JSON ({error}); write one object per line"
            ) from None
        if not isinstance(row, dict):
            raise ValueError(
                f"{file} line {number}: this is {line.decode()[:40]!r}, not an object; write "
                '{"prompt": "…"}'
            )
        yield number, row


def _task(row: dict[str, Any], number: int, file: Path, module: Path, function: str) -> Task:
    if "prompt" not in row:
        raise ValueError(f'{file} line {number}: prompt is missing; add "prompt": "…"')
    for column in _OWN_COLUMNS:
        value = row.get(column, "-")
        if not isinstance(value, str) or not value.strip():
            raise ValueError(
                f"{file} line {number}: {column} = {value!r} is not valid; give a string with "
                "text in it"
            )
    if "answer" in row:
        raise ValueError(
            f"{file} line {number}: a column answer would hide the model's answer from "
            f"{function}(prompt, answer, …); rename the column, for example to expected"
        )
    return Task(
        name=row.get("name", f"{file.stem}-{number:05d}"),
        instruction=row["prompt"],
        verifier=RewardFunction(
            module, function, {k: v for k, v in row.items() if k not in _OWN_COLUMNS}
        ),
        answer=AnswerForm(ANSWER_PATH),
        kind=row.get("kind", ""),
        split=row.get("split", ""),
        source=file,
    )


def _resolve_reward(reward: str, folder: Path) -> tuple[Path, str]:
    """The file and the function that `reward` names; both must be there."""
    module, colon, function = reward.rpartition(":")
    if not colon or not module or not function.isidentifier():
        raise ValueError(
            f"reward = {reward!r} is not valid; give file.py:function or module:function"
        )
    name = module if module.endswith(".py") else f"{module.replace('.', '/')}.py"
    path = folder / name
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file, but reward = {reward!r} names it")
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except SyntaxError as error:
        raise ValueError(f"{path} line {error.lineno}: {error.msg}; correct it") from None
    if function not in _top_level_names(tree):
        raise ValueError(
            f"{path}: it defines no {function}, but reward = {reward!r} names it; define "
            f"{function}(prompt, answer, **row)"
        )
    return path.resolve(), function


def _top_level_names(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names
