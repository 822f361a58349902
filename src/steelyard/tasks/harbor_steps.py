"""The steps of a multi-step Harbor task: `[[steps]]` and steps/NAME/."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from steelyard.tasks.dockerfile import Workspace
from steelyard.tasks.harbor_schema import HarborConfig, Step
from steelyard.tasks.harbor_verifier import (
    below,
    handover_of,
    read_verifier,
    require_module,
    variables_of,
)
from steelyard.tasks.task import DEFAULT_AGENT_TIMEOUT_SECONDS, TaskStep


def read_steps(
    config: HarborConfig, files: Mapping[str, bytes], root: Path, workspace: Workspace
) -> tuple[TaskStep, ...]:
    """The steps in their order; ValueError with one sentence for what a step lacks."""
    names = [step.name for step in config.steps or []]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{root}/task.toml: two steps are named {name!r}; rename one")
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"{root}/task.toml: step name {name!r} is no folder name; rename it")
    known = dict(workspace.files)
    steps = []
    for table in config.steps or []:
        step = _read_step(table, config, files, root, workspace)
        known |= step.files
        require_module(step.verifier, known, step.solution, root)
        known |= step.solution or {}
        steps.append(step)
    return tuple(steps)


def _read_step(
    table: Step,
    config: HarborConfig,
    files: Mapping[str, bytes],
    root: Path,
    workspace: Workspace,
) -> TaskStep:
    folder = f"steps/{table.name}"
    verifier = read_verifier(
        files,
        f"{folder}/tests",
        root,
        variables=variables_of(config, table),
        shared=below(files, "tests/"),
    )
    if verifier is None:
        raise ValueError(f"{root}/{folder}: the step has no tests; add {folder}/tests/test.sh")
    instruction = files.get(f"{folder}/instruction.md", b"").decode("utf-8", "replace")
    if not instruction.strip():
        raise ValueError(f"{root}/{folder}/instruction.md: it is missing or empty; say what to do")
    least = table.min_reward
    return TaskStep(
        name=table.name,
        instruction=instruction.rstrip("\n"),
        verifier=verifier,
        files=below(files, f"{folder}/workdir/"),
        solution=below(files, f"{folder}/solution/files/") or None,
        min_reward=least if isinstance(least, dict) else {} if least is None else {"reward": least},
        handover=handover_of(config, workspace.working_directory, f"{root}/task.toml", table),
        agent_timeout_seconds=(
            table.agent.timeout_sec or config.agent.timeout_sec or DEFAULT_AGENT_TIMEOUT_SECONDS
        ),
        verifier_timeout_seconds=(
            table.verifier.timeout_sec
            if "timeout_sec" in table.verifier.model_fields_set
            else config.verifier.timeout_sec
        ),
    )
