"""An inventory of what an agent can reach, taken from inside its sandbox.

An explorer runs where an agent's commands run and reports what it reached; this side judges.
A finding is proved only where the explorer really reached the thing.
"""

from __future__ import annotations

import hashlib
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from steelyard.agents.history import repositories
from steelyard.agents.workspace import Workspace
from steelyard.auditing import leak_isolation, leak_judges
from steelyard.auditing.findings import Finding
from steelyard.auditing.hidden import hidden_files, line_hash, new_lines
from steelyard.sandbox import SandboxPool, SandboxSettings
from steelyard.tasks import Task

EXPLORER = Path(__file__).with_name("explorer.py")
TARGETS: tuple[tuple[str, str, int], ...] = (
    ("tcp", "1.1.1.1", 443),
    ("tcp", "8.8.8.8", 53),
    ("tcp", "2606:4700:4700::1111", 443),
    ("udp", "8.8.8.8", 53),
    ("udp", "2001:4860:4860::8888", 53),
    ("resolve", "example.com", 0),
    ("metadata", "169.254.169.254", 80),
    ("metadata", "fd00:ec2::254", 80),
)
"""Public resolvers, and the address at which clouds hand out a machine's credentials."""

_TIMEOUT_SECONDS = 60.0
_MAX_ARGUMENT_BYTES = 100 << 10


@dataclass(frozen=True, slots=True)
class Explored:
    """What the explorer answered, and the files that were in the workspace though not given."""

    answers: Mapping[str, Any]
    leftovers: tuple[str, ...]


def leaks(task: Task, settings: SandboxSettings) -> list[Finding]:
    """What an agent on this task can reach and must not, the proved first.

    The task's files are explored as they are shipped: the pruning of git history, which training
    does by itself, is not applied. Raises as a sandbox does.
    """
    hidden = hidden_files(task)
    explored = explore(task, settings, hidden)
    findings = [
        *leak_isolation.isolation(explored.answers, explored.leftovers),
        *leak_judges.git_history(task, explored.answers),
        *leak_judges.hidden_content(task, hidden, explored.answers),
        *leak_judges.secrets(task, hidden, explored.answers),
        *leak_judges.installed_fix(task, explored.answers),
    ]
    return sorted(findings, key=lambda finding: not finding.proved)


def explore(
    task: Task,
    settings: SandboxSettings,
    hidden: Mapping[str, bytes],
    targets: tuple[tuple[str, str, int], ...] = TARGETS,
) -> Explored:
    """Runs the explorer among the task's files, through the same door as an agent's commands.

    An earlier episode in the same sandbox leaves a mark first, which must not be found.
    """
    marker = uuid.uuid4().hex
    asked = questions(task, hidden, marker, targets)
    pool = SandboxPool(_with_room(settings))
    try:
        _leave_mark(pool, task, marker)
        workspace = Workspace(task.files, pool, directory=task.working_directory)
        try:
            command = ["python3", "-I", "-c", EXPLORER.read_text(), json.dumps(asked)]
            done = workspace.run(command, timeout_seconds=_TIMEOUT_SECONDS)
            leftovers = sorted(workspace.files.keys() - task.files.keys())
        finally:
            workspace.close()
        answers = _answers(done.stdout, done.stderr, done.exit_code)
        if asked["compiled"]:
            answers["sources"] = _compiled_sources(task, pool, asked)
    finally:
        pool.close()
    kept = [path for path in leftovers if ".git" not in PurePosixPath(path).parts]
    answers.setdefault("outside", {}).setdefault("marked", []).extend(
        path for path in kept if marker in path
    )
    return Explored(answers, tuple(path for path in kept if marker not in path))


def questions(
    task: Task,
    hidden: Mapping[str, bytes],
    marker: str,
    targets: tuple[tuple[str, str, int], ...],
) -> dict[str, Any]:
    """What the explorer is asked; of hidden content it is told hashes only."""
    asked: dict[str, Any] = {
        "targets": targets,
        "marker": marker,
        "hidden": [hashlib.sha256(data).hexdigest() for data in hidden.values()],
        "lines": [line_hash(line) for lines in new_lines(task).values() for line in lines],
        "repositories": repositories(task.files),
        "base": str(task.metadata.get("base_commit", "HEAD")),
        "projects": list(_projects(task.files)),
        "compiled": [path for path in task.files if path.endswith(".pyc")],
    }
    for key in ("lines", "hidden"):  # a command's argument has a limit
        while len(json.dumps(asked)) > _MAX_ARGUMENT_BYTES and asked[key]:
            asked[key] = asked[key][: len(asked[key]) // 2]
    return asked


def _with_room(settings: SandboxSettings) -> SandboxSettings:
    """The agent's sandbox, but its answer is kept whole and git may take a moment."""
    return settings.model_copy(update={"output_kb": max(settings.output_kb, 1024)})


def _leave_mark(pool: SandboxPool, task: Task, marker: str) -> None:
    """An episode that writes a mark everywhere it can, and leaves a process running."""
    script = (
        f"for d in . /tmp /dev/shm $HOME; do echo {marker} > $d/{marker}; done 2>/dev/null; "
        f"setsid sh -c 'sleep 600; true' {marker} >/dev/null 2>&1 & true"
    )
    earlier = Workspace({}, pool, directory=task.working_directory)
    try:
        earlier.run(["sh", "-c", script], timeout_seconds=_TIMEOUT_SECONDS)
    finally:
        earlier.close()


def _answers(stdout: bytes, stderr: bytes, exit_code: int) -> dict[str, Any]:
    try:
        answers = json.loads(stdout)
    except ValueError:
        answers = None
    if isinstance(answers, dict):
        return answers
    said = stderr.decode("utf-8", "replace").strip().rpartition("\n")[2] or f"exit code {exit_code}"
    return {"errors": {"explorer": said[:200]}}


def _compiled_sources(task: Task, pool: SandboxPool, asked: dict[str, Any]) -> dict[str, Any]:
    """The functions of given and reference sources, compiled by the same Python, in a sandbox."""
    sources = {f"given/{p}": d for p, d in task.files.items() if p.endswith(".py")}
    sources |= {f"solution/{p}": d for p, d in (task.solution or {}).items() if p.endswith(".py")}
    nothing: dict[str, list[str]] = {
        k: [] for k in ("targets", "hidden", "lines", "repositories", "projects")
    }
    request = {**asked, **nothing, "compiled": list(sources)}
    workspace = Workspace(sources, pool, directory=task.working_directory)
    try:
        command = ["python3", "-I", "-c", EXPLORER.read_text(), json.dumps(request)]
        done = workspace.run(command, timeout_seconds=_TIMEOUT_SECONDS)
    finally:
        workspace.close()
    found = _answers(done.stdout, done.stderr, done.exit_code).get("compiled", {})
    return found if isinstance(found, dict) else {}


def _projects(files: Mapping[str, bytes]) -> Iterator[str]:
    """The distributions whose source the workspace holds, by their own packaging files."""
    patterns = {
        "pyproject.toml": r'(?ms)^\[(?:project|tool\.poetry)\][^\[]*?^name\s*=\s*["\']([\w.-]+)',
        "setup.cfg": r"(?ms)^\[metadata\][^\[]*?^name\s*=\s*([\w.-]+)",
        "setup.py": r'(?s)\bsetup\(.*?\bname\s*=\s*["\']([\w.-]+)',
    }
    for path, pattern in patterns.items():
        match = re.search(pattern, files.get(path, b"").decode("utf-8", "replace"))
        if match:
            yield match[1]
