"""A timeout is held against a verifier only if the machine is not to blame."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.auditing import AuditSettings, TaskAudit, audit
from steelyard.tasks import Task, TestScript

REWARD = "/logs/verifier/reward.txt"
GOLD = b"def double(n):\n    return n * 2\n"
OTHER = b"def double(n):\n    return n + n\n"


def audited(wait: str, folder: Path) -> TaskAudit:
    """A script that pays both solutions, and runs `wait` where it sees the second one."""
    second = folder / "solutions" / "other" / "files"
    second.mkdir(parents=True)
    (second / "calc.py").write_bytes(OTHER)
    body = f"if grep -q 'n + n' /app/calc.py; then {wait}; fi\necho 1 > {REWARD}\n"
    task = Task(
        "double", "Write double(n).", TestScript({"test.sh": body.encode()}),
        {"calc.py": b""}, solution={"calc.py": GOLD}, source=folder,
        verifier_timeout_seconds=20.0,
    )  # fmt: skip
    return audit([task], AuditSettings(only="right-work/second-solution")).tasks[0]


@pytest.mark.parametrize(
    ("wait", "found"),
    [
        ("sleep 7", False),  # longer than the audit waits, and in time by the task's own limit
        ("sleep 60", True),
    ],
)
def test_right_work_gets_the_tasks_own_time(wait: str, found: bool, tmp_path: Path) -> None:
    result = audited(wait, tmp_path)
    assert not result.error
    names = {finding.probe for finding in result.findings if finding.proved}
    assert ("right-work/second-solution" in names) == found
