"""Runs Harbor trials for harbor_compat.py, under Harbor's own interpreter.

    python harbor_trials.py ORDER.json RESULTS.json

The order is {"trials_dir", "kwargs" of the environment, "trials": [{"task", "agent"}]}; the results
are {"harbor": version, "trials": [{"folder", "seconds", "rewards", "error", "steps"}]}, in the same
order.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from harbor.models.trial.config import AgentConfig, EnvironmentConfig, TaskConfig, TrialConfig
from harbor.trial.trial import Trial


async def run_trial(order: dict[str, Any], task: str, agent: str, number: int) -> dict[str, Any]:
    config = TrialConfig(
        task=TaskConfig(path=Path(task)),
        trials_dir=Path(order["trials_dir"]),
        trial_name=f"trial-{number}",
        agent=AgentConfig(name=agent),
        environment=EnvironmentConfig(
            import_path="harbor_bwrap:BubblewrapEnvironment", kwargs=order["kwargs"]
        ),
    )
    began = time.perf_counter()
    result = await (await Trial.create(config)).run()
    seconds = time.perf_counter() - began
    return {
        "folder": str(Path(order["trials_dir"]) / config.trial_name),
        "seconds": seconds,
        **said(result),
        "steps": [{"name": step.step_name, **said(step)} for step in result.step_results or []],
    }


def said(result: Any) -> dict[str, Any]:
    """What a trial or a step of one came to: its rewards, and the error if it had one."""
    verified, error = result.verifier_result, result.exception_info
    return {
        "rewards": verified and verified.rewards,
        "error": error and f"{error.exception_type}: {error.exception_message}",
    }


async def run_all(order: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        await run_trial(order, trial["task"], trial["agent"], number)
        for number, trial in enumerate(order["trials"])
    ]


def main() -> None:
    order = json.loads(Path(sys.argv[1]).read_text())
    trials = asyncio.run(run_all(order))
    Path(sys.argv[2]).write_text(json.dumps({"harbor": version("harbor"), "trials": trials}))


if __name__ == "__main__":
    main()
