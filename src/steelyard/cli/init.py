"""`steelyard init`: a folder with a task, a run file and nothing else, ready to train."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_RUN_FILE = """\
# Train with:    steelyard train run.toml
# Check first:   steelyard validate tasks && steelyard train run.toml --dry-run

[run]
name = "first"

[model]
path = "smollm2-135m-instruct"  # or a Hugging Face directory, a hub id, a .gguf file

[tasks]
train = "tasks"
demonstrations = "tasks"  # their reference solutions are imitated first

[warm_start]
epochs = 8
learning_rate = 1.5e-4

[rl]
steps = 5
groups_per_step = 4
episodes_per_group = 8
learning_rate = 5e-5

[evaluation]
every_steps = 0
"""


def init(
    directory: Annotated[Path, typer.Argument(help="The new folder.")],
) -> None:
    """Write a small example task and a run file into a new folder."""
    from steelyard.tasks import CheckSpec, FunctionChecks, Task, write_task

    if directory.exists() and any(directory.iterdir()):
        raise ValueError(f"{directory}: exists and is not empty; choose another folder")
    task = Task(
        name="clamp",
        instruction=(
            "Fix `clamp(value, low, high)` in clamp.py. It must return value, or low where value "
            "is less than low, or high where value is greater than high."
        ),
        verifier=FunctionChecks(
            module="clamp.py",
            function="clamp",
            checks=(
                CheckSpec("inside", (3, 1, 5), 3),
                CheckSpec("below", (0, 1, 5), 1),
                CheckSpec("above", (9, 1, 5), 5),
                CheckSpec("edge", (5, 1, 5), 5),
            ),
        ),
        heldout=FunctionChecks(
            module="clamp.py",
            function="clamp",
            checks=(
                CheckSpec("negative", (-7, -3, -1), -3),
                CheckSpec("point", (4, 2, 2), 2),
            ),
        ),
        files={"clamp.py": b"def clamp(value, low, high):\n    return max(value, low)\n"},
        solution={
            "clamp.py": b"def clamp(value, low, high):\n    return min(max(value, low), high)\n"
        },
    )
    directory.mkdir(parents=True, exist_ok=True)
    write_task(task, directory / "tasks" / task.name)
    (directory / "run.toml").write_text(_RUN_FILE)
    print(f"{directory}: one task and run.toml; next: cd {directory} && steelyard validate tasks")
