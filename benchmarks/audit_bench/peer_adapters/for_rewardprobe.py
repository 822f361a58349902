"""rewardprobe: all its families on the function as (completion, task)."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from presenting import BARE, TextCase, folder_of_case, report


def main() -> None:
    """One report; its own type of environment lets every column reach the function."""
    case = TextCase(folder_of_case())
    from rewardprobe.probe import Probe
    from rewardprobe.types import NormalizedEnvironment, NormalizedRewardFn

    rows = {row["prompt"]: row for row in case.rows}

    def score(completion: str, task: dict[str, Any]) -> float:
        # It takes columns away too, which no trainer does: then the function gets those of a row.
        row = rows.get(task.get("prompt", ""), case.rows[0])
        answer = task.get("answer", row[BARE])
        columns = {
            name: answer if str(value) == row[BARE] else value
            for name, value in row.items()
            if name != BARE
        }
        return case.score(columns, completion)

    # Further columns with the right answer would be reported as leaks.
    tasks = [{"prompt": row["prompt"], "answer": row[BARE]} for row in case.rows]
    with contextlib.redirect_stdout(sys.stderr):
        result = Probe()._run_attacks(
            NormalizedEnvironment(
                name="case", reward_fns=[NormalizedRewardFn(name="score", fn=score)], tasks=tasks
            )
        )
    report(
        (found.severity.value, f"{found.attack}: {found.recommendation}")
        for found in result.findings
    )


if __name__ == "__main__":
    main()
