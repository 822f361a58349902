"""gameability: mutants of the reference against the calls of checks as data, put as asserts."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from presenting import ProgramCase, folder_of_case, refuse, report


def main() -> None:
    """One `gameability check`, with the hidden asserts that it may be given."""
    folder = folder_of_case()
    case = ProgramCase(folder)
    if not (folder / "tests" / "checks.json").exists() or len(case.gold) != 1:
        refuse("it takes asserts that call one function with literals")
    function, asserts = _asserts(folder / "tests" / "checks.json")
    problem = {
        "id": "case",
        "entry": function,
        "reference": next(iter(case.gold.values())),
        "tests": asserts,
    }
    if (folder / "heldout" / "checks.json").exists():
        problem["hidden"] = _asserts(folder / "heldout" / "checks.json")[1]
    with tempfile.TemporaryDirectory() as name:
        data, out = Path(name, "problem.jsonl"), Path(name, "report.json")
        data.write_text(json.dumps(problem) + "\n")
        command = [sys.executable, "-m", "gameability", "check", str(data), "--json", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=55)
        if not out.exists():
            raise SystemExit(done.stderr[-500:])
        result = json.loads(out.read_text())
    report(_findings(result["rows"]))


def _findings(rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = []
    for row in rows:
        if row["status"] != "ok":
            found.append((row["status"], "the problem was not judged"))
        elif row["n_survived"]:
            text = f"{row['n_survived']} of {row['n_broken']} broken solutions pass"
            found.append(("weak", text))
    return found


def _asserts(path: Path) -> tuple[str, list[str]]:
    checks = json.loads(path.read_text())
    function = checks["function"]
    lines = []
    for check in checks["checks"]:
        if "expected" not in check or "arguments" not in check:
            refuse("it takes asserts that compare with a literal")
        arguments = ", ".join(map(repr, check["arguments"]))
        lines.append(f"assert {function}({arguments}) == {check['expected']!r}")
    return function, lines


if __name__ == "__main__":
    main()
