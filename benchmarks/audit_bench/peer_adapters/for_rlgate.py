"""rlgate: all its probes on {workspace, gold patch, command}, with our grader as the command."""

from __future__ import annotations

import difflib
import shlex
import tempfile
from pathlib import Path

import yaml
from presenting import ProgramCase, folder_of_case, report


def main() -> None:
    """One audit on its local back end, with its default of five baselines."""
    case = ProgramCase(folder_of_case())
    from rlgate.ingest import spec
    from rlgate.pipeline import audit

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "gold.patch").write_text(_gold_patch(case))
        (folder / "TASK.md").write_text(case.instruction)
        descriptor = {
            "id": "case",
            "instruction_path": "TASK.md",
            "workspace": str(case.workspace),
            "gold_patch": "gold.patch",
            "grader": {"run": f'{shlex.join(case.graded_by())} "$PWD"'},
        }
        (folder / "task.rlgate.yaml").write_text(yaml.safe_dump(descriptor))
        result = audit(spec.load(folder), backend="local")
    report(
        (found.severity.name.lower(), f"{found.probe_id}: {found.title} {found.evidence.detail}")
        for found in result.findings
    )


def _gold_patch(case: ProgramCase) -> str:
    """From the workspace to the reference, as one unified diff."""
    lines: list[str] = []
    for path, after in case.gold.items():
        start = case.workspace / path
        before = start.read_text() if start.exists() else ""
        source = f"a/{path}" if start.exists() else "/dev/null"
        lines += difflib.unified_diff(
            before.splitlines(keepends=True),
            after.splitlines(keepends=True),
            source,
            f"b/{path}",
        )
    return "".join(lines)


if __name__ == "__main__":
    main()
