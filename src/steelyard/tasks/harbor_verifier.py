"""The verifier of a Harbor task or of one of its steps, and what it gets of the workspace."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from steelyard.tasks.checks import parse_checks
from steelyard.tasks.handover import Artifact, CollectHook, Handover
from steelyard.tasks.harbor_schema import Artifact as ArtifactTable
from steelyard.tasks.harbor_schema import HarborConfig, Step, VerifierSettings
from steelyard.tasks.task import (
    FunctionChecks,
    ProgramChecks,
    ReferenceChecks,
    TestScript,
    Verifier,
)


def below(files: Mapping[str, bytes], prefix: str) -> dict[str, bytes]:
    """The files under a folder, by their path in it."""
    return {path[len(prefix) :]: data for path, data in files.items() if path.startswith(prefix)}


def read_verifier(
    files: Mapping[str, bytes],
    folder: str,
    root: Path,
    *,
    variables: Mapping[str, str],
    shared: Mapping[str, bytes] | None = None,
) -> Verifier | None:
    """The checks of a folder; None where there is none.

    A step's tests lie over `shared`, those of its task, which also serve where it has none.
    """
    own = below(files, f"{folder}/")
    inside = {**(shared or {}), **own}
    if not inside:
        return None
    if "checks.json" in own or ("checks.json" in inside and "test.sh" not in own):
        return parse_checks(inside["checks.json"], f"{root}/{folder}/checks.json", inside)
    if "test.sh" in inside:
        return TestScript(inside, variables)
    raise ValueError(f"{root}/{folder}: it holds neither checks.json nor test.sh; add one of them")


def require_module(
    checks: Verifier | None,
    workspace: Mapping[str, bytes],
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
        if name in workspace or solution is None or name in solution:
            continue  # without a solution: the agent is to create it
        raise ValueError(
            f"{root}: the checks call {name}, which is neither in the workspace nor in the "
            f"solution; correct {key} in checks.json"
        )


def is_separate(config: HarborConfig, step: Step | None = None) -> bool:
    """Whether Harbor would grade in an environment of the verifier's own; its default is not to."""
    if step is not None:
        mode = _mode(step.verifier)
        if mode is not None:
            return mode == "separate"
    return _mode(config.verifier) == "separate"


def _mode(verifier: VerifierSettings) -> str | None:
    if verifier.environment_mode is not None:
        return verifier.environment_mode
    return "separate" if verifier.environment is not None else None


def variables_of(config: HarborConfig, step: Step | None = None) -> dict[str, str]:
    """The test script's own variables; a step's win over its task's."""
    variables: dict[str, str] = {}
    for verifier in (config.verifier, *([step.verifier] if step else [])):
        if verifier.environment is not None:
            variables |= verifier.environment.env
        variables |= verifier.env
    return variables


def handover_of(
    config: HarborConfig, working_directory: str, file: str, step: Step | None = None
) -> Handover:
    """What the verifier gets; a shared one sees the whole workspace, whatever is declared.

    ValueError where a separate one would need what lies outside the workspace.
    """
    hooks = [*config.verifier.collect, *(step.verifier.collect if step else [])]
    collect = tuple(CollectHook(hook.command, hook.timeout_sec) for hook in hooks)
    if not is_separate(config, step):
        return Handover((), collect)
    declared = [*config.artifacts, *(step.artifacts if step else [])]
    return Handover(tuple(_artifact(each, working_directory, file) for each in declared), collect)


def _artifact(declared: str | ArtifactTable, working_directory: str, file: str) -> Artifact:
    table = ArtifactTable(source=declared) if isinstance(declared, str) else declared
    path = PurePosixPath(working_directory, table.source)
    if not path.is_relative_to(working_directory):
        raise ValueError(
            f"{file}: artifacts names {table.source}, but only what lies below WORKDIR "
            f"{working_directory} is handed to the verifier; let the agent leave it there"
        )
    inside = str(path.relative_to(working_directory))
    return Artifact("" if inside == "." else inside, tuple(table.exclude))
