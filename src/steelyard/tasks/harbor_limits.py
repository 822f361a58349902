"""What of a Harbor task is refused here, and what is kept but does nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from steelyard.tasks.harbor_schema import (
    Artifact,
    Environment,
    HarborConfig,
    Step,
    VerifierSettings,
)
from steelyard.tasks.harbor_verifier import below, is_separate

_STEP_PARTS = frozenset({"instruction.md", "tests", "solution", "workdir"})
"""What of a step's folder Harbor reads."""


def refuse(config: HarborConfig, files: Mapping[str, bytes], root: Path) -> None:
    """Refuses what the sandbox cannot give: leaving it out would change the task."""
    refused = {
        **_environment_refusals("environment", config.environment),
        **_verifier_refusals("verifier", config.verifier),
        "artifacts": (any(map(_is_of_a_service, config.artifacts)), "services beside the main one"),
    }
    for index, step in enumerate(config.steps or []):
        refused |= _step_refusals(f"steps[{index}]", step)
    for key, (value, what) in refused.items():
        if value:
            raise ValueError(
                f"{root}/task.toml: {key} asks for something that the sandbox does not have "
                f"({what}); remove it"
            )
    for step in config.steps or []:
        setup = f"steps/{step.name}/workdir/setup.sh"
        if setup in files:
            raise ValueError(
                f"{root}/{setup}: set-up scripts are not supported; lay what it makes in "
                f"steps/{step.name}/workdir/ and remove it"
            )
    _refuse_verifier_images(config, files, root)


def _refuse_verifier_images(config: HarborConfig, files: Mapping[str, bytes], root: Path) -> None:
    folders = ["tests", *(f"steps/{step.name}/tests" for step in config.steps or [])]
    for folder in folders:
        if f"{folder}/Dockerfile" in files and f"{folder}/checks.json" not in files:
            raise ValueError(
                f"{root}/{folder}/Dockerfile: verifier images are not supported; let test.sh run "
                "in the task's own environment, and remove it"
            )


def _environment_refusals(key: str, environment: Environment) -> dict[str, tuple[Any, str]]:
    return {
        f"{key}.gpus": (environment.gpus, "GPUs"),
        f"{key}.tpu": (environment.tpu, "TPUs"),
        f"{key}.os": (environment.os == "windows", "Windows"),
        f"{key}.docker_image": (environment.docker_image, "container images"),
        f"{key}.mcp_servers": (environment.mcp_servers, "MCP servers of a task"),
        f"{key}.skills_dir": (environment.skills_dir, "skills"),
        f"{key}.healthcheck": (environment.healthcheck, "health checks"),
        f"{key}.env": (_from_host(environment.env), "variables taken from the host"),
    }


def _verifier_refusals(key: str, verifier: VerifierSettings) -> dict[str, tuple[Any, str]]:
    own = verifier.environment
    return {
        f"{key}.env": (_from_host(verifier.env), "variables taken from the host"),
        f"{key}.collect": (
            any(hook.service != "main" for hook in verifier.collect),
            "services beside the main one",
        ),
        **(_environment_refusals(f"{key}.environment", own) if own is not None else {}),
        f"{key}.environment.workdir": (own and own.workdir, "a WORKDIR of the verifier's own"),
    }


def _step_refusals(key: str, step: Step) -> dict[str, tuple[Any, str]]:
    return {
        **_verifier_refusals(f"{key}.verifier", step.verifier),
        f"{key}.healthcheck": (step.healthcheck, "health checks"),
        f"{key}.artifacts": (
            any(map(_is_of_a_service, step.artifacts)),
            "services beside the main one",
        ),
    }


def _from_host(variables: Mapping[str, str]) -> bool:
    return any("$" in value for value in variables.values())


def _is_of_a_service(artifact: str | Artifact) -> bool:
    return isinstance(artifact, Artifact) and artifact.service not in (None, "main")


def idle(config: HarborConfig, files: Mapping[str, bytes], root: Path) -> Iterator[str]:
    """One sentence for each part that was given, is legal, and does nothing here."""
    given = {
        "agent.user": config.agent.user,
        "verifier.user": config.verifier.user,
        "verifier.collect.user": any(hook.user for hook in config.verifier.collect),
        **_machine("environment", config.environment),
        **_machine("verifier.environment", config.verifier.environment),
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
    yield from _isolated(config, files, root)
    yield from _unread(config, files, root)
    for folder in ("", *(f"steps/{step.name}/" for step in config.steps or [])):
        solution = below(files, f"{folder}solution/")
        if solution and not any(path.startswith("files/") for path in solution):
            yield (
                f"{root}/{folder}solution: there is no {folder}solution/files/, so the reference "
                "cannot be tried; put what it leaves in the workspace there"
            )


def _unread(config: HarborConfig, files: Mapping[str, bytes], root: Path) -> Iterator[str]:
    """What of steps/ no step reads, as in Harbor: a misplaced hook would be missed in silence."""
    names = {step.name for step in config.steps or []}
    places = {PurePosixPath(path).parts[:3] for path in files if path.startswith("steps/")}
    strangers = {name for _, name, *_ in places} - names
    for name in sorted(strangers):
        yield f"{root}/steps/{name}: no [[steps]] table of task.toml names it, so it does nothing"
    for _, name, *rest in sorted(places):
        if name not in strangers and rest and rest[0] not in _STEP_PARTS:
            hint = "; the hook that Harbor runs is workdir/setup.sh" if rest == ["setup.sh"] else ""
            yield f"{root}/steps/{name}/{rest[0]}: it is kept but does nothing here{hint}"


def _machine(key: str, environment: Environment | None) -> dict[str, Any]:
    if environment is None:
        return {}
    return {
        f"{key}.cpus": environment.cpus,
        f"{key}.memory_mb": environment.memory_mb or environment.memory,
        f"{key}.storage_mb": environment.storage_mb or environment.storage,
    }


def _isolated(config: HarborConfig, files: Mapping[str, bytes], root: Path) -> Iterator[str]:
    """Where Harbor would run a test script among whatever the agent left behind."""
    steps: list[Step | None] = [*config.steps] if config.steps else [None]
    folders = [f"steps/{step.name}/tests" if step else "tests" for step in steps]
    shared = [
        folder
        for step, folder in zip(steps, folders, strict=True)
        if not is_separate(config, step) and f"{folder}/checks.json" not in files
    ]
    if shared:
        yield (
            f"{root}/task.toml: Harbor would run the tests in the agent's own environment "
            '(environment_mode = "shared", its default); here they run in a fresh sandbox with the '
            'whole workspace; write environment_mode = "separate" in [verifier] to have both alike'
        )
