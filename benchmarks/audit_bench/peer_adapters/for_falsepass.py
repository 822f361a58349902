"""falsepass: its probe runner on the reward function, called as TRL's trainer would."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from presenting import BARE, TextCase, folder_of_case, report

_REWARDS = """
import sys
sys.path.insert(0, {here!r})
from pathlib import Path
from presenting import TextCase

CASE = TextCase(Path({folder!r}))


def score(completions, {bare}, prompts, **columns):
    rewards = []
    for number, completion in enumerate(completions):
        row = {{name: values[number] for name, values in columns.items()
               if name in CASE.columns[0]}}
        rewards.append(CASE.score({{**row, "prompt": prompts[number]}}, completion))
    return rewards
"""


def main() -> None:
    """One audit, in this process, with its automatic adapter."""
    case = TextCase(folder_of_case())
    from falsepass import runner

    with tempfile.TemporaryDirectory() as name:
        audit = Path(name, "audit")
        audit.mkdir()
        data = Path(name, "data.jsonl")
        data.write_text("".join(json.dumps(row) + "\n" for row in case.rows))
        rewards = Path(name, "wrapped.py")
        rewards.write_text(
            _REWARDS.format(
                here=str(Path(__file__).parent), folder=str(folder_of_case()), bare=BARE
            )
        )
        settings = {
            "id": "local/case",
            "framework": "reward",
            "task": str(rewards),
            "dataset": str(data),
            "answer_column": BARE,
            "prompt_column": "prompt",
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
        (audit / "env.toml").write_text("[env]\n" + "\n".join(lines) + "\n")
        with contextlib.redirect_stdout(sys.stderr):
            payload = runner.run(audit, jobs=1)
    report(_failing(payload))


def _failing(payload: dict[str, Any]) -> list[tuple[str, str]]:
    """Rows that failed, less those that falsepass itself takes out of its count."""
    adapter = payload["meta"]["adapter"]
    inconclusive = isinstance(adapter, dict) and adapter["validity"].startswith("inconclusive")
    found = []
    if inconclusive:
        found.append(("inconclusive", adapter["validity"]))
    for row in payload["results"]:
        skipped = row.get("same_as_good") or row.get("no_control")
        if row["passed"] or skipped or (inconclusive and not row.get("answer_free")):
            continue
        text = f"{row['probe']} {row['name']}/{row['variant']}: {row['score']} {row['detail']}"
        found.append((_level(row), text))
    return list(dict.fromkeys(found))


def _level(row: dict[str, Any]) -> str:
    if row["errors"]:
        return "error"
    if row["expected"] == "zero":
        above = row["score"] is not None and row["score"] > 0.1
        return "false pass" if above else "false pass up to 0.1"
    return "false fail" if row["expected"] == "full" else "unstable or hygiene"


if __name__ == "__main__":
    main()
