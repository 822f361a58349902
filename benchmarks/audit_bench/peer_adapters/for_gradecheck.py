"""gradecheck: its workspace attacks with our grader as the command, or its completion attacks."""

from __future__ import annotations

import json
import shlex
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from presenting import BARE, ProgramCase, TextCase, folder_of_case, report


def main() -> None:
    """All its attacks on the case."""
    folder = folder_of_case()
    findings = on_text(folder) if (folder / "rewards.py").exists() else on_workspace(folder)
    report((found.verdict, f"{found.attack}: {found.summary}") for found in findings)


def on_workspace(folder: Path) -> list[Any]:
    """`gradecheck run` on {workspace, command}; it may read the Python of the tests."""
    from gradecheck.runner import run

    case = ProgramCase(folder)
    command = " ".join([*map(shlex.quote, case.graded_by()), "{workspace}"])
    sources = [str(path) for path in sorted((folder / "tests").glob("*.py"))]
    with tempfile.TemporaryDirectory() as name:
        config = Path(name, "gradecheck.toml")
        config.write_text(
            f"[env]\nname = 'case'\nworkspace = {json.dumps(str(case.workspace))}\n"
            f"[grade]\ncmd = {json.dumps(command)}\npass_marker = 'RESULT: PASS'\n"
            f"source = {json.dumps(sources)}\n"
        )
        return run(config).findings


def on_text(folder: Path) -> list[Any]:
    """The attacks of `gradecheck verifiers` on an object with what they read of an environment."""
    from gradecheck.completion_attacks import run_all
    from gradecheck.verifiers_env import VerifiersEnv

    case = TextCase(folder)
    rows = [
        {"prompt": row["prompt"], "answer": row[BARE], "number": number}
        for number, row in enumerate(case.rows)
    ]

    def reward(completion: str, number: int) -> float:
        return case.score(case.rows[number], completion)

    def dressed(text: str) -> str:
        return case.dressed(case.rows[0], text)

    environment = SimpleNamespace(
        message_type="completion",
        rubric=SimpleNamespace(funcs=[reward], weights=[1.0]),
        parser=SimpleNamespace(answer_field="text", format=dressed),
        get_dataset=lambda: rows,
    )
    return run_all(VerifiersEnv(environment))


if __name__ == "__main__":
    main()
