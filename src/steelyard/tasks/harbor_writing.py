"""Writes Harbor 1.4 task directories: see harbor.py for their form."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import tomlkit
from pydantic import ValidationError

from steelyard.tasks.checks import dump_checks
from steelyard.tasks.dockerfile import workspace_of, write_dockerfile
from steelyard.tasks.explain import explain
from steelyard.tasks.handover import Handover
from steelyard.tasks.harbor import Answer, TaskDirectory, agent_timeout_seconds
from steelyard.tasks.harbor_schema import SCHEMA_VERSION, HarborConfig
from steelyard.tasks.harbor_steps import read_steps
from steelyard.tasks.harbor_verifier import below, handover_of, variables_of
from steelyard.tasks.task import (
    ChecksFile,
    ReferenceChecks,
    Task,
    TaskStep,
    TestScript,
    Verifier,
)

_ORGANISATION = "local"
"""The organisation of a task that never had one; Harbor asks for `organisation/task`."""


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


def _render(content: TaskDirectory, root: Path) -> dict[str, bytes]:
    """Every file of the directory to write."""
    task = content.task
    owned = {
        "task.toml": tomlkit.dumps(_config_of(content, root)).encode(),
        **_render_environment(content),
    }
    if not task.steps:
        owned["instruction.md"] = f"{task.instruction}\n".encode()
        owned |= _render_verifier(task.verifier, "tests", task.name)
    elif not _steps_are_kept(content):
        for step in task.steps:
            owned |= _render_step(step, task.name)
    if task.heldout is not None:
        owned |= _render_verifier(task.heldout, "heldout", task.name)
    if task.solution is not None:
        owned |= _prefixed("solution/files/", task.solution)
        owned["solution/solve.sh"] = content.files.get("solution/solve.sh", _solve(task))
    return {**_unowned(content), **owned}


def _solve(task: Task) -> bytes:
    return (
        "#!/bin/sh\n# Lays the reference solution over the workspace.\n"
        f"cp -R /solution/files/. {shlex.quote(task.working_directory)}/\n"
    ).encode()


def _unowned(content: TaskDirectory) -> dict[str, bytes]:
    """The files of the old directory that the Task does not speak for."""
    task = content.task
    dropped = ["environment/", "solution/files/"]
    if task.solution is None:
        dropped.append("solution/")
    if not _steps_are_kept(content):
        dropped.append("steps/")
        if task.steps or not isinstance(task.verifier, ChecksFile):
            dropped.append("tests/")
        if task.steps:
            dropped.append("instruction.md")
    if not isinstance(task.heldout, ChecksFile):
        dropped.append("heldout/")
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
        data["metadata"]["answer"] = Answer(
            path=task.answer.path, prefix=task.answer.prefix, defines=task.answer.defines
        ).model_dump(exclude_defaults=True)
    if task.agent_timeout_seconds != agent_timeout_seconds(config):
        data["agent"] = {**data.get("agent", {}), "timeout_sec": task.agent_timeout_seconds}
    if task.verifier_timeout_seconds != config.verifier.timeout_sec:
        data["verifier"] = {
            **data.get("verifier", {}),
            "timeout_sec": task.verifier_timeout_seconds,
        }
    if config.environment.workdir is not None:  # which wins over the Dockerfile's
        data["environment"] = {**data["environment"], "workdir": task.working_directory}
    _say_verifier(data, content)
    if not _steps_are_kept(content):
        data.pop("steps", None)
        data |= {"steps": [_step_table(step, task) for step in task.steps]} if task.steps else {}
    if task.step_reward != (config.multi_step_reward_strategy or "mean"):
        data["multi_step_reward_strategy"] = task.step_reward
    try:
        HarborConfig.model_validate(data)
    except ValidationError as error:
        raise ValueError(explain(error, HarborConfig, f"{root}/task.toml")) from None
    return data


def _say_verifier(data: dict[str, Any], content: TaskDirectory) -> None:
    """The variables of the test scripts and what they get, where the old task.toml differs."""
    task, config = content.task, content.config
    if task.steps and _steps_are_kept(content):
        return
    directory = task.working_directory
    environment = below(content.files, "environment/")
    was = workspace_of(environment, "environment", config.environment.workdir).working_directory
    scripts = [each for each in (task.verifier, task.heldout) if isinstance(each, TestScript)]
    if task.steps:
        scripts = scripts[1:]
    if any(dict(each.variables) != dict(scripts[0].variables) for each in scripts):
        raise ValueError(
            f"task {task.name}: its test scripts have different variables, but Harbor has one "
            "[verifier] env; give both the same"
        )
    variables = dict(scripts[0].variables) if scripts else {}
    verifier = data.get("verifier", {})
    if variables_of(config) != variables:
        verifier = {**verifier, "env": variables}
        verifier.pop("environment", None)
    moved = was != directory
    if task.steps or moved or handover_of(config, directory, "task.toml") != task.handover:
        data.pop("artifacts", None)
        verifier = {k: v for k, v in verifier.items() if k != "collect"}
        verifier |= _handover_tables(task.handover, directory)[0]
        data |= _handover_tables(task.handover, directory)[1]
    if verifier:
        data["verifier"] = verifier


def _handover_tables(handover: Handover, directory: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `[verifier]` says of it, and what stands beside `[verifier]`."""
    verifier: dict[str, Any] = {}
    if handover.collect:
        verifier["collect"] = [
            {"command": hook.command, "timeout_sec": hook.timeout_seconds}
            for hook in handover.collect
        ]
    if not handover.artifacts:
        return verifier, {}
    verifier["environment_mode"] = "separate"
    artifacts = [
        {
            "source": str(PurePosixPath(directory, each.path)),
            **({"exclude": list(each.exclude)} if each.exclude else {}),
        }
        for each in handover.artifacts
    ]
    return verifier, {"artifacts": artifacts}


def _step_table(step: TaskStep, task: Task) -> dict[str, Any]:
    verifier, beside = _handover_tables(step.handover, task.working_directory)
    verifier["timeout_sec"] = step.verifier_timeout_seconds
    if isinstance(step.verifier, TestScript) and step.verifier.variables:
        verifier["env"] = dict(step.verifier.variables)
    return {
        "name": step.name,
        **({"min_reward": dict(step.min_reward)} if step.min_reward else {}),
        **beside,
        "agent": {"timeout_sec": step.agent_timeout_seconds},
        "verifier": verifier,
    }


def _steps_are_kept(content: TaskDirectory) -> bool:
    """Whether the old directory describes the very steps of the Task."""
    if not content.task.steps or not content.config.steps:
        return False
    environment = content.config.environment.workdir
    workspace = workspace_of(below(content.files, "environment/"), "environment", environment)
    old = read_steps(content.config, content.files, Path("task"), workspace)
    return old == content.task.steps


def _render_step(step: TaskStep, name: str) -> dict[str, bytes]:
    folder = f"steps/{step.name}"
    return {
        f"{folder}/instruction.md": f"{step.instruction}\n".encode(),
        **_render_verifier(step.verifier, f"{folder}/tests", name),
        **_prefixed(f"{folder}/workdir/", step.files),
        **_prefixed(f"{folder}/solution/files/", step.solution or {}),
    }


def _render_environment(content: TaskDirectory) -> dict[str, bytes]:
    """The old `environment/` where it still describes the Task, or else a plain new one."""
    task = content.task
    old = below(content.files, "environment/")
    variables = {
        k: v
        for k, v in task.environment_variables.items()
        if content.config.environment.env.get(k) != v
    }
    if old:
        workspace = workspace_of(old, "environment", content.config.environment.workdir)
        merged = {**workspace.variables, **content.config.environment.env}
        files = {**workspace.files, **(task.steps[0].files if task.steps else {})}
        place = workspace.working_directory
        wanted = (task.files, task.environment_variables, task.packages, task.working_directory)
        if (files, merged, workspace.packages, place) == wanted:
            return _prefixed("environment/", old)
    folder = "workspace" if task.files else None
    dockerfile = write_dockerfile(folder, variables, task.packages, task.working_directory)
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
