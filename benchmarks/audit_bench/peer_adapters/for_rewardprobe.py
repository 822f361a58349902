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

    def score(completion: str, task: dict[str, Any]) -> float:
        columns = {}
        for name, value in task["columns"].items():
            columns[name] = task["answer"] if str(value) == task["known"] else value
        return case.score(columns, completion)

    # `answer` is where its probes look for the right one, and change it.
    tasks = [
        {**row, "question": row["prompt"], "answer": row[BARE], "known": row[BARE], "columns": own}
        for row, own in zip(case.rows, case.columns, strict=True)
    ]
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
