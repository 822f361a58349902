"""Reads Harbor 1.4 task directories.

    task.toml  instruction.md  environment/  tests/  solution/  heldout/  steps/

`tests/checks.json` (or else `tests/test.sh`) is the verifier and `heldout/`, of the same form, the
held-out checks; `solution/files/` holds what the reference leaves in the workspace; `[metadata]`
of task.toml carries `kind`, `split` and, for single-turn tasks, `answer`. The layout is Harbor's
with `heldout/` and `checks.json` beside it, so Harbor itself runs the same directory where it has
a `tests/test.sh`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard.tasks.dockerfile import workspace_of
from steelyard.tasks.explain import explain
from steelyard.tasks.handover import Handover
from steelyard.tasks.harbor_limits import idle, refuse
from steelyard.tasks.harbor_schema import HarborConfig, parse_config, unknown_keys
from steelyard.tasks.harbor_steps import read_steps
from steelyard.tasks.harbor_verifier import (
    below,
    handover_of,
    read_verifier,
    require_module,
    variables_of,
)
from steelyard.tasks.task import DEFAULT_AGENT_TIMEOUT_SECONDS, AnswerForm, FunctionChecks, Task


class TaskWarning(UserWarning):
    """A part of a task directory that is kept but does nothing here."""


@dataclass(frozen=True, slots=True)
class TaskDirectory:
    """A Task with all that its directory says beyond it, so that nothing is lost in writing.

    `files` is every file of the directory by relative path; `warnings` says which parts do
    nothing here, one sentence each.
    """

    task: Task
    config: HarborConfig = field(default_factory=HarborConfig)
    files: Mapping[str, bytes] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1, description="a file of the workspace")
    prefix: str = Field(default="", description="the text that an answer may continue")
    defines: str = Field(default="", description="the name that an answer must define")


class Metadata(BaseModel):
    """The keys of `[metadata]` that we read; the rest is the task's own."""

    kind: str = Field(default="", description="a string")
    split: str = Field(default="", description='a string, "train", "dev" or "test"')
    answer: Answer | None = Field(default=None, description="a table {path, prefix, defines}")


def read_task(directory: str | Path) -> Task:
    """The Task of a Harbor task directory.

    Emits a TaskWarning for every part that does nothing here (unknown keys among them), and
    raises ValueError with one sentence for every malformed field.
    """
    read = read_task_directory(directory)
    for sentence in read.warnings:
        warnings.warn(sentence, TaskWarning, stacklevel=2)
    return read.task


def read_task_directory(directory: str | Path) -> TaskDirectory:
    """Like `read_task`, with everything else in the directory and the warnings as data."""
    root = Path(directory)
    files = _read_files(root)
    config_file = f"{root}/task.toml"
    config = parse_config(_text(files, "task.toml", root), config_file)
    refuse(config, files, root)
    metadata = _parse_metadata(config, config_file)
    workspace = workspace_of(
        below(files, "environment/"), f"{root}/environment", config.environment.workdir
    )
    steps = read_steps(config, files, root, workspace)
    variables = variables_of(config)
    solution = below(files, "solution/files/") or None
    if steps:
        instruction, verifier = steps[0].instruction, steps[-1].verifier
        given = {**workspace.files, **steps[0].files}
    else:
        instruction, given = _instruction(files, root), dict(workspace.files)
        found = read_verifier(files, "tests", root, variables=variables)
        if found is None:
            raise ValueError(
                f"{root}: the task has no tests; add tests/checks.json (checks as data) or "
                "tests/test.sh (a script that writes /logs/verifier/reward.txt)"
            )
        verifier = found
        require_module(verifier, given, solution, root)
    heldout = read_verifier(files, "heldout", root, variables=variables)
    if not steps:
        require_module(heldout, given, solution, root)
    task = Task(
        name=config.task.name.rpartition("/")[2] if config.task else root.resolve().name,
        instruction=instruction,
        verifier=verifier,
        files=given,
        heldout=heldout,
        solution=solution,
        answer=AnswerForm(**metadata.answer.model_dump()) if metadata.answer else None,
        kind=metadata.kind,
        split=metadata.split,
        metadata={k: v for k, v in config.metadata.items() if k not in Metadata.model_fields},
        agent_timeout_seconds=agent_timeout_seconds(config),
        verifier_timeout_seconds=config.verifier.timeout_sec,
        source=root,
        environment_variables={**workspace.variables, **config.environment.env},
        packages=workspace.packages,
        handover=(
            Handover()  # each step has its own
            if steps
            else handover_of(config, workspace.working_directory, config_file)
        ),
        steps=steps,
        step_reward=config.multi_step_reward_strategy or "mean",
        working_directory=workspace.working_directory,
    )
    said = [
        *unknown_keys(config, config_file),
        *workspace.warnings,
        *idle(config, files, root),
        *_unset_variables(task, root),
    ]
    return TaskDirectory(task, config, files, tuple(said))


def _read_files(root: Path) -> dict[str, bytes]:
    """Every file below `root` by relative path; links and special files are refused."""
    if not root.is_dir():
        raise ValueError(f"{root}: there is no such task directory")
    files = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if "__pycache__" in relative.parts:
            continue
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise ValueError(
                f"{path}: a task holds plain files only; replace the link or special file by a copy"
            )
        if path.is_file():
            files[relative.as_posix()] = path.read_bytes()
    return files


def _text(files: Mapping[str, bytes], name: str, root: Path) -> str:
    if name not in files:
        raise ValueError(f"{root}: {name} is missing; every task needs one")
    try:
        return files[name].decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{root}/{name}: it is not UTF-8 ({error}); save it as UTF-8") from None


def _parse_metadata(config: HarborConfig, file: str) -> Metadata:
    try:
        return Metadata.model_validate(config.metadata)
    except ValidationError as error:
        raise ValueError(explain(error, Metadata, f"{file} [metadata]")) from None


def agent_timeout_seconds(config: HarborConfig) -> float:
    return config.agent.timeout_sec or DEFAULT_AGENT_TIMEOUT_SECONDS


def _instruction(files: Mapping[str, bytes], root: Path) -> str:
    instruction = _text(files, "instruction.md", root).rstrip("\n")
    if not instruction.strip():
        raise ValueError(f"{root}/instruction.md: it is empty; say what is asked")
    return instruction


def _unset_variables(task: Task, root: Path) -> list[str]:
    """Checks as data call a function in a process that has no variables of the task's."""
    names = ", ".join(sorted(task.environment_variables))
    verifiers = [task.verifier, task.heldout, *(step.verifier for step in task.steps)]
    if not names or not any(isinstance(each, FunctionChecks) for each in verifiers):
        return []
    return [f"{root}: the environment variables {names} are not set where checks.json is tried"]
