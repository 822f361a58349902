"""Reads and writes Harbor 1.4 task directories.

    task.toml  instruction.md  environment/  tests/  solution/  heldout/

`tests/checks.json` (or else `tests/test.sh`) is the verifier and `heldout/`, of the same form, the
held-out checks; `solution/files/` holds what the reference leaves in the workspace; `[metadata]`
of task.toml carries `kind`, `split` and, for single-turn tasks, `answer`. The layout is Harbor's
with `heldout/` and `checks.json` beside it, so Harbor itself runs the same directory where it has
a `tests/test.sh`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import tomlkit
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from steelyard.tasks.checks import dump_checks, parse_checks
from steelyard.tasks.dockerfile import (
    WORKING_DIRECTORY,
    Workspace,
    workspace_of,
    write_dockerfile,
)
from steelyard.tasks.explain import explain
from steelyard.tasks.harbor_schema import SCHEMA_VERSION, HarborConfig, parse_config, unknown_keys
from steelyard.tasks.task import (
    DEFAULT_AGENT_TIMEOUT_SECONDS,
    AnswerForm,
    ChecksFile,
    FunctionChecks,
    ProgramChecks,
    ReferenceChecks,
    Task,
    TestScript,
    Verifier,
)

_ORGANISATION = "local"
"""The organisation of a task that never had one; Harbor asks for `organisation/task`."""

_SOLVE = f"#!/bin/sh\n# Lays the reference solution over the workspace.\n\
cp -R /solution/files/. {WORKING_DIRECTORY}/\n".encode()


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


class _Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1, description="a file of the workspace")
    prefix: str = Field(default="", description="the text that an answer may continue")
    defines: str = Field(default="", description="the name that an answer must define")


class _Metadata(BaseModel):
    """The keys of `[metadata]` that we read; the rest is the task's own."""

    kind: str = Field(default="", description="a string")
    split: str = Field(default="", description='a string, "train", "dev" or "test"')
    answer: _Answer | None = Field(default=None, description="a table {path, prefix, defines}")


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
    _refuse(config, files, root)
    metadata = _parse_metadata(config, config_file)
    workspace = workspace_of(
        _below(files, "environment/"), f"{root}/environment", config.environment.workdir
    )
    verifier = _read_verifier(files, "tests", root)
    if verifier is None:
        raise ValueError(
            f"{root}: the task has no tests; add tests/checks.json (checks as data) or "
            "tests/test.sh (a script that writes /logs/verifier/reward.txt)"
        )
    heldout = _read_verifier(files, "heldout", root)
    solution = _below(files, "solution/files/") or None
    instruction = _text(files, "instruction.md", root).rstrip("\n")
    if not instruction.strip():
        raise ValueError(f"{root}/instruction.md: it is empty; say what is asked")
    for checks in (verifier, heldout):
        _require_module(checks, workspace, solution, root)
        _require_script_directory(checks, workspace, root)
    task = Task(
        name=config.task.name.rpartition("/")[2] if config.task else root.resolve().name,
        instruction=instruction,
        verifier=verifier,
        files=workspace.files,
        heldout=heldout,
        solution=solution,
        answer=AnswerForm(**metadata.answer.model_dump()) if metadata.answer else None,
        kind=metadata.kind,
        split=metadata.split,
        metadata={k: v for k, v in config.metadata.items() if k not in _Metadata.model_fields},
        agent_timeout_seconds=_agent_timeout_seconds(config),
        verifier_timeout_seconds=config.verifier.timeout_sec,
        environment_variables={**workspace.variables, **config.environment.env},
        source=root,
    )
    found = [*unknown_keys(config, config_file), *workspace.warnings, *_idle(config, files, root)]
    if task.environment_variables:
        names = ", ".join(sorted(task.environment_variables))
        found.append(f"{root}: the environment variables {names} are kept but not set anywhere yet")
    return TaskDirectory(task, config, files, tuple(found))


def write_task(task: Task, directory: str | Path) -> None:
    """Writes a new task directory; `read_task` gives the same Task back, `source` aside.

    ValueError where the directory is not empty, or where the task has no Harbor form: a verifier
    that is neither a ChecksFile nor TestScript, or a name that Harbor does not allow. For
    a ChecksFile no `tests/test.sh` is made up, so Harbor itself needs one added.
    """
    write_task_directory(TaskDirectory(task), directory)


def write_task_directory(content: TaskDirectory, directory: str | Path) -> None:
    """Like `write_task`, keeping every other file and every unknown key of `content`.

    The Task wins where it differs from what the files say.
    """
    root = Path(directory)
    if root.exists() and (not root.is_dir() or any(root.iterdir())):
        raise ValueError(f"{root}: it exists and is not empty; choose a new directory")
    for path, data in _render(content, root).items():
        assert not PurePosixPath(path).is_absolute()
        assert ".." not in PurePosixPath(path).parts
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if target.suffix == ".sh":
            target.chmod(0o755)


# --- reading ---------------------------------------------------------------------------------


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


def _below(files: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    return {path[len(prefix) :]: data for path, data in files.items() if path.startswith(prefix)}


def _parse_metadata(config: HarborConfig, file: str) -> _Metadata:
    try:
        return _Metadata.model_validate(config.metadata)
    except ValidationError as error:
        raise ValueError(explain(error, _Metadata, f"{file} [metadata]")) from None


def _read_verifier(files: Mapping[str, bytes], folder: str, root: Path) -> Verifier | None:
    """The checks of `tests/` or `heldout/`; None where there is no such folder."""
    inside = _below(files, f"{folder}/")
    if not inside:
        return None
    if "checks.json" in inside:
        return parse_checks(inside["checks.json"], f"{root}/{folder}/checks.json", inside)
    if "test.sh" in inside:
        return TestScript(inside)
    raise ValueError(f"{root}/{folder}: it holds neither checks.json nor test.sh; add one of them")


def _require_module(
    checks: Verifier | None,
    workspace: Workspace,
    solution: Mapping[str, bytes] | None,
    root: Path,
) -> None:
    """Without this, a misspelt module would fail every episode without a word."""
    if isinstance(checks, FunctionChecks | ReferenceChecks):
        key, names = "module", [checks.module]
    elif isinstance(checks, ProgramChecks):
        key, names = "command", [word for word in checks.command if word.endswith((".py", ".sh"))]
    else:
        return
    for name in names:
        if name in workspace.files or solution is None or name in solution:
            continue  # without a solution: the agent is to create it
        raise ValueError(
            f"{root}: the checks call {name}, which is neither in the workspace nor in the "
            f"solution; correct {key} in checks.json"
        )


def _require_script_directory(checks: Verifier | None, workspace: Workspace, root: Path) -> None:
    if isinstance(checks, TestScript) and workspace.working_directory != WORKING_DIRECTORY:
        raise ValueError(
            f"{root}: WORKDIR is {workspace.working_directory}, but a test.sh finds the workspace "
            f"at {WORKING_DIRECTORY}; write WORKDIR {WORKING_DIRECTORY}"
        )


def _agent_timeout_seconds(config: HarborConfig) -> float:
    return config.agent.timeout_sec or DEFAULT_AGENT_TIMEOUT_SECONDS


def _refuse(config: HarborConfig, files: Mapping[str, bytes], root: Path) -> None:
    """Refuses what the sandbox cannot give: leaving it out would change the task."""
    environment = config.environment
    script_only = "checks.json" not in _below(files, "tests/")
    refused = {
        "steps": (config.steps, "multi-step tasks"),
        "environment.gpus": (environment.gpus, "GPUs"),
        "environment.tpu": (environment.tpu, "TPUs"),
        "environment.os": (environment.os == "windows", "Windows"),
        "environment.docker_image": (environment.docker_image, "container images"),
        "environment.mcp_servers": (environment.mcp_servers, "MCP servers of a task"),
        "environment.skills_dir": (environment.skills_dir, "skills"),
        "environment.healthcheck": (environment.healthcheck, "health checks"),
        "environment.env": (
            any("$" in value for value in environment.env.values()),
            "variables taken from the host",
        ),
        "verifier.collect": (config.verifier.collect, "collect hooks"),
        "verifier.environment": (
            script_only and config.verifier.environment,
            "verifier environments of their own",
        ),
        "verifier.env": (script_only and config.verifier.env, "variables of the verifier"),
    }
    for key, (value, what) in refused.items():
        if value:
            raise ValueError(
                f"{root}/task.toml: {key} asks for something that the sandbox does not have "
                f"({what}); remove it"
            )
    if script_only and "tests/Dockerfile" in files:
        raise ValueError(
            f"{root}/tests/Dockerfile: verifier images are not supported; let tests/test.sh run "
            "in the task's own environment, and remove it"
        )


def _idle(config: HarborConfig, files: Mapping[str, bytes], root: Path) -> Iterator[str]:
    """One sentence for each part that was given, is legal, and does nothing here."""
    given = {
        "agent.user": config.agent.user,
        "verifier.user": config.verifier.user,
        "environment.cpus": config.environment.cpus,
        "environment.memory_mb": config.environment.memory_mb or config.environment.memory,
        "environment.storage_mb": config.environment.storage_mb or config.environment.storage,
        "solution.env": config.solution.env,
    }
    for key, value in given.items():
        if value:
            yield f"{root}/task.toml: {key} is kept but does nothing here"
    for key, mode in {
        "agent": config.agent.network_mode,
        "verifier": config.verifier.network_mode,
        "environment": config.environment.network_mode,
    }.items():
        if mode in ("public", "allowlist"):
            yield f"{root}/task.toml: {key}.network_mode is {mode}, but the sandbox has no network"
    for name in (".harborignore", "trajectory.json"):
        if name in files:
            yield f"{root}/{name}: it is kept but does nothing here"
    solution = _below(files, "solution/")
    if solution and not any(path.startswith("files/") for path in solution):
        yield (
            f"{root}/solution: there is no solution/files/, so the reference cannot be tried; "
            "put what it leaves in the workspace there"
        )


# --- writing ---------------------------------------------------------------------------------


def _render(content: TaskDirectory, root: Path) -> dict[str, bytes]:
    """Every file of the directory to write."""
    task = content.task
    owned = {
        "task.toml": tomlkit.dumps(_config_of(content, root)).encode(),
        "instruction.md": f"{task.instruction}\n".encode(),
        **_render_environment(content),
        **_render_verifier(task.verifier, "tests", task.name),
    }
    if task.heldout is not None:
        owned |= _render_verifier(task.heldout, "heldout", task.name)
    if task.solution is not None:
        owned |= _prefixed("solution/files/", task.solution)
        owned["solution/solve.sh"] = content.files.get("solution/solve.sh", _SOLVE)
    return {**_unowned(content), **owned}


def _unowned(content: TaskDirectory) -> dict[str, bytes]:
    """The files of the old directory that the Task does not speak for."""
    task = content.task
    dropped = ["environment/", "solution/files/"]
    if task.solution is None:
        dropped.append("solution/")
    for folder, checks in (("tests/", task.verifier), ("heldout/", task.heldout)):
        if not isinstance(checks, ChecksFile):
            dropped.append(folder)
    return {p: d for p, d in content.files.items() if not p.startswith(tuple(dropped))}


def _config_of(content: TaskDirectory, root: Path) -> dict[str, Any]:
    """The old task.toml with what the Task says differently."""
    task, config = content.task, content.config
    data: dict[str, Any] = config.model_dump(exclude_unset=True)
    if "version" not in data:
        data = {"schema_version": SCHEMA_VERSION, **data}
    organisation = config.task.name.partition("/")[0] if config.task else _ORGANISATION
    data["task"] = {**data.get("task", {}), "name": f"{organisation}/{task.name}"}
    metadata = {"kind": task.kind, "split": task.split}
    data["metadata"] = {k: v for k, v in metadata.items() if v} | dict(task.metadata)
    if task.answer is not None:
        data["metadata"]["answer"] = _Answer(
            path=task.answer.path, prefix=task.answer.prefix, defines=task.answer.defines
        ).model_dump(exclude_defaults=True)
    if task.agent_timeout_seconds != _agent_timeout_seconds(config):
        data["agent"] = {**data.get("agent", {}), "timeout_sec": task.agent_timeout_seconds}
    if task.verifier_timeout_seconds != config.verifier.timeout_sec:
        data["verifier"] = {
            **data.get("verifier", {}),
            "timeout_sec": task.verifier_timeout_seconds,
        }
    try:
        HarborConfig.model_validate(data)
    except ValidationError as error:
        raise ValueError(explain(error, HarborConfig, f"{root}/task.toml")) from None
    return data


def _render_environment(content: TaskDirectory) -> dict[str, bytes]:
    """The old `environment/` where it still describes the Task, or else a plain new one."""
    task = content.task
    old = _below(content.files, "environment/")
    variables = {
        k: v
        for k, v in task.environment_variables.items()
        if content.config.environment.env.get(k) != v
    }
    if old:
        workspace = workspace_of(old, "environment", content.config.environment.workdir)
        merged = {**workspace.variables, **content.config.environment.env}
        if workspace.files == task.files and merged == task.environment_variables:
            return _prefixed("environment/", old)
    dockerfile = write_dockerfile("workspace" if task.files else None, variables)
    return {
        "environment/Dockerfile": dockerfile.encode(),
        **_prefixed("environment/workspace/", task.files),
    }


def _render_verifier(verifier: Verifier, folder: str, name: str) -> dict[str, bytes]:
    if isinstance(verifier, ChecksFile):
        files = verifier.files if isinstance(verifier, ReferenceChecks) else {}
        return _prefixed(f"{folder}/", {**files, "checks.json": dump_checks(verifier).encode()})
    if isinstance(verifier, TestScript):
        return _prefixed(f"{folder}/", verifier.files)
    raise ValueError(
        f"task {name}: a {type(verifier).__name__} has no Harbor form; give it a test.sh"
    )


def _prefixed(prefix: str, files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{prefix}{path}": data for path, data in files.items()}
