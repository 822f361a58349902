"""The second form of task: a JSONL file of prompts and a Python reward function."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from steelyard.tasks.reward_source import RewardSource, find_reward
from steelyard.tasks.task import AnswerForm, RewardFunction, Task

DEFAULT_REWARD = "rewards.py:score"

ANSWER_PATH = "answer.txt"
"""The file of the workspace that holds the text of an answer."""

GOLD_COLUMNS = (
    "expected",
    "answer",
    "solution",
    "target",
    "ground_truth",
    "gold",
    "reference_answer",
    "label",
)
"""Where the right answer is looked for, first to last, if nobody says in which column it is."""

_OWN_COLUMNS = ("prompt", "name", "kind", "split")


def read_jsonl(
    path: str | Path, reward: str = DEFAULT_REWARD, gold: str | None = None
) -> list[Task]:
    """One single-turn Task per line of `path`; blank lines are skipped.

    Each line is a JSON object with `prompt`, and perhaps `name`, `kind` and `split`; every other
    column goes to the reward function. `reward` is `file.py:function` or `module:function`, below
    the folder of the JSONL or the current directory; it is not imported here, only read. The
    column `gold`, or else the first of GOLD_COLUMNS that a line has, is the right answer and
    becomes the task's solution: a string as it is, another value as JSON.
    ValueError names the file, the line, the column and what to write there.
    """
    file = Path(path)
    if not file.is_file():
        raise ValueError(f"{file}: there is no such file")
    source = find_reward(reward, file.parent)
    tasks: list[Task] = []
    lines: dict[str, int] = {}
    for number, row in _rows(file):
        task = _task(row, number, file, source, gold)
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


def _task(
    row: dict[str, Any], number: int, file: Path, source: RewardSource, gold: str | None
) -> Task:
    if "prompt" not in row:
        raise ValueError(f'{file} line {number}: prompt is missing; add "prompt": "…"')
    for column in _OWN_COLUMNS:
        value = row.get(column, "-")
        if not isinstance(value, str) or not value.strip():
            raise ValueError(
                f"{file} line {number}: {column} = {value!r} is not valid; give a string with "
                "text in it"
            )
    if "answer" in row and source.style == "steelyard":
        raise ValueError(
            f"{file} line {number}: a column answer would hide the model's answer from "
            f"{source.function}(prompt, answer, …); rename the column, for example to expected"
        )
    if gold is not None and gold not in row:
        raise ValueError(
            f"{file} line {number}: it has no column {gold!r}, which gold names; add it, or name "
            "another"
        )
    columns = {k: v for k, v in row.items() if k not in _OWN_COLUMNS}
    return Task(
        name=row.get("name", f"{file.stem}-{number:05d}"),
        instruction=row["prompt"],
        verifier=RewardFunction(source.path, source.function, columns, source.style),
        solution=_solution(row, gold),
        answer=AnswerForm(ANSWER_PATH),
        kind=row.get("kind", ""),
        split=row.get("split", ""),
        source=file,
        metadata={} if gold is None else {"gold_column": gold},
    )


def _solution(row: dict[str, Any], gold: str | None) -> dict[str, bytes] | None:
    """The answer file that the right answer would leave; None where no column holds one."""
    column = gold or next((name for name in GOLD_COLUMNS if name in row), None)
    value = None if column is None else row[column]
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return {ANSWER_PATH: text.encode()}
