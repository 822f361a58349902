"""Builders of Harbor task directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .case import Case, Files, encoded, text
from .problems import Problem

JAIL = (Path(__file__).parent / "jail.py").read_text()

_SOLVE = "#!/bin/sh\ncp -R /solution/files/. /app/\n"
_HEAD = "#!/bin/bash\nmkdir -p /logs/verifier\n"


def harbor(
    name: str,
    flaw: str,
    story: str,
    *,
    prompt: str,
    workspace: Files,
    gold: Files,
    tests: Files,
    heldout: Files | None = None,
    others: dict[str, Files] | None = None,
    packages: str = "",
    timeout: float = 30.0,
    copied: str = "workspace",
    **more: Any,
) -> Case:
    """A task directory; `others` are second references, `packages` what pip installs."""
    lines = ["FROM python:3.12.7-slim", "WORKDIR /app"]
    if packages:
        lines.append(f"RUN pip install --no-cache-dir {packages}")
    lines.append(f"COPY {copied}/ /app/")
    config = f"""
        schema_version = "1.4"

        [task]
        name = "audit-bench/{name}"
        description = "A small task of the audit's benchmark."

        [agent]
        timeout_sec = 120.0

        [verifier]
        timeout_sec = {timeout}
        environment_mode = "separate"

        [environment]
        network_mode = "no-network"
        """
    files = {
        "task.toml": config,
        "instruction.md": prompt,
        "environment/Dockerfile": "\n".join(lines) + "\n",
        "solution/solve.sh": _SOLVE,
    }
    return Case(
        name,
        flaw,
        story,
        {
            **encoded(files),
            **encoded(workspace, f"environment/{copied}/"),
            **encoded(gold, "solution/files/"),
            **encoded(tests, "tests/"),
            **encoded(heldout or {}, "heldout/"),
            **{
                path: data
                for key, value in (others or {}).items()
                for path, data in encoded(value, f"solutions/{key}/files/").items()
            },
        },
        **more,
    )


def scripted(
    name: str,
    flaw: str,
    story: str,
    problem: Problem,
    script: str,
    tests: Files | None = None,
    workspace: Files | None = None,
    jail: bool = True,
    **more: Any,
) -> Case:
    """A Problem graded by the lines of a test.sh; `tests` lie beside it."""
    laid: dict[str, str | bytes] = {"test.sh": _HEAD + text(script)}
    if jail:
        laid["jail.py"] = JAIL
    defaults: dict[str, Any] = {
        "prompt": problem.instruction,
        "heldout": {"checks.json": problem.checks(problem.unseen)},
    }
    return harbor(
        name,
        flaw,
        story,
        workspace={problem.file: problem.start, **(workspace or {})},
        gold={problem.file: problem.gold},
        tests={**laid, **(tests or {})},
        **{**defaults, **more},
    )


def verified(name: str, flaw: str, story: str, problem: Problem, verify: str, **more: Any) -> Case:
    """A Problem graded by a trusted tests/verify.py, which writes the reward itself."""
    tests = {"verify.py": verify, **more.pop("tests", {})}
    script = "exec python3 -I -B /tests/verify.py\n"
    return scripted(name, flaw, story, problem, script, tests, **more)


def in_process(name: str, flaw: str, story: str, problem: Problem, check: str, **more: Any) -> Case:
    """A Problem graded by a script in the candidate's own process; its exit code 0 is paid.

    The process is confined and gets the script on its standard input, so that neither the tests
    nor the reward can be reached as files.
    """
    script = (
        "paid=no\n"
        "python3 -I -B /tests/jail.py script < /tests/check.py && paid=yes\n"
        'if [ "$paid" = yes ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt\n'
    )
    return scripted(name, flaw, story, problem, script, {"check.py": check}, **more)


def data(
    name: str,
    flaw: str,
    story: str,
    problem: Problem,
    calls: list[list[Any]] | None = None,
    **more: Any,
) -> Case:
    """A Problem graded by tests/checks.json."""
    defaults: dict[str, Any] = {
        "prompt": problem.instruction,
        "workspace": {problem.file: problem.start},
        "gold": {problem.file: problem.gold},
        "tests": {"checks.json": problem.checks(problem.calls if calls is None else calls)},
        "heldout": {"checks.json": problem.checks(problem.unseen)},
    }
    return harbor(name, flaw, story, **{**defaults, **more})
