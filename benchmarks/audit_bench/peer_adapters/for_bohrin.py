"""bohrin: its wrong programs and right rewritings, sent by this driver to our grader.

bohrin runs nothing: the loop is ours, the submissions and their grounds are its own. Templates of
workspaces are filled in where a parameter has one obvious value; the others are left out.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from grade_client import reward_of
from presenting import ProgramCase, folder_of_case, refuse, report


def main() -> None:
    """Every submission of its battery, for a reference that is one Python file."""
    case = ProgramCase(folder_of_case())
    if len(case.gold) != 1 or not next(iter(case.gold)).endswith(".py"):
        refuse("the reference is not one Python file")
    file, reference = next(iter(case.gold.items()))
    from bohrin.ir.task import Shape, Source, Task
    from bohrin.mutate.battery import battery
    from bohrin.relations import positive_controls

    program = Task("case", case.instruction, reference, shape=Shape.PROGRAM)
    container = Task("case", case.instruction, reference, shape=Shape.CONTAINER)
    findings = []
    for control in positive_controls(program):
        if not solved(case, {file: control.payload.text}):
            level = "baseline" if control.baseline else "rejected control"
            findings.append((level, f"{control.relation} is refused"))
    for candidate in (*battery(program).candidates, *battery(container).candidates):
        payload = candidate.payload
        if isinstance(payload, Source):
            changes = {file: payload.text}
        elif payload.commands:
            continue
        else:
            filled = {_filled(path, file): text for path, text in payload.files.items()}
            if None in filled:
                continue
            changes = filled
        if solved(case, changes):
            level = "exploit" if candidate.known_wrong else "lead"
            findings.append(
                (level, f"{candidate.provenance.operator}: {candidate.provenance.detail}")
            )
    report(findings)


def _filled(path: str, source: str) -> str | None:
    """A path of a template, or None where its parameter has no obvious value here."""
    path = path.replace("{source_path}", source).replace("{test_root}/", "")
    return None if "{" in path else path


def solved(case: ProgramCase, changes: dict[str, str]) -> bool:
    """Whether our grader pays the full reward for the workspace with these changes."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name, "workspace")
        shutil.copytree(case.workspace, root, symlinks=True)
        for path, text in changes.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return reward_of(os.environ["PEERS_GRADER"], str(root)) == "1.0"


if __name__ == "__main__":
    main()
