"""A Harbor test script: run in a fresh sandbox, judged by the reward file that it leaves."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from steelyard.episodes import Cause, Check, Outcome, Scored, Unscored
from steelyard.grading.reading import MalformedReward, read_reward_json, read_reward_text
from steelyard.sandbox import Completed, Sandbox, SandboxSettings
from steelyard.tasks.task import TestScript

_WORKSPACE = "/app"
_TESTS = "/tests"
_LOGS = "/logs"
_REWARD_JSON = f"{_LOGS}/verifier/reward.json"
_REWARD_TEXT = f"{_LOGS}/verifier/reward.txt"


def grade_test_script(
    verifier: TestScript,
    files: Mapping[str, bytes],
    timeout_seconds: float,
    settings: SandboxSettings,
) -> Outcome:
    """Lays the workspace at /app and the tests at /tests of a new sandbox, runs /tests/test.sh.

    As in Harbor the script's exit code is ignored, and reward.json wins over reward.txt in
    /logs/verifier. A reward that is missing or is not a finite number within [0, 1] is
    Unscored(MALFORMED_REWARD), never 0. Every key of reward.json beside "reward" is a Check, passed
    at 1. The script and the graded code share the sandbox, so a program that the script runs could
    write the reward itself (tier B or C, not A). Raises SandboxError.
    """
    with Sandbox(settings, workspace=_WORKSPACE, directories=(_TESTS, _LOGS)) as sandbox:
        try:
            sandbox.put(files)
            sandbox.put({f"{_TESTS}/{path}": data for path, data in verifier.files.items()})
            sandbox.put({f"{_LOGS}/verifier/.keep": b""})
        except OSError as error:
            return Unscored(Cause.VERIFIER_ERROR, f"the files could not be laid out: {error}")
        completed = sandbox.run(["bash", f"{_TESTS}/test.sh"], timeout_seconds=timeout_seconds)
        if completed.timed_out:
            return Unscored(
                Cause.VERIFIER_TIMEOUT, f"tests/test.sh was not done in {timeout_seconds:g} seconds"
            )
        try:
            rewards = _read_rewards(sandbox)
        except MalformedReward as error:
            return Unscored(Cause.MALFORMED_REWARD, f"{error}{_last_words(completed)}")
    reward = rewards.pop("reward")
    checks = tuple(Check(name, value >= 1.0, f"{value:g}") for name, value in rewards.items())
    return Scored(reward, checks)


def _read_rewards(sandbox: Sandbox) -> dict[str, float]:
    data = _read_if_there(sandbox, _REWARD_JSON)
    if data is not None:
        return read_reward_json(data)
    data = _read_if_there(sandbox, _REWARD_TEXT)
    if data is not None:
        return {"reward": read_reward_text(data)}
    raise MalformedReward("tests/test.sh left neither reward.json nor reward.txt")


def _read_if_there(sandbox: Sandbox, path: str) -> bytes | None:
    try:
        return sandbox.read(path)
    except FileNotFoundError:
        return None
    except OSError as error:  # a link, a pipe, a directory in its place
        reason = error.strerror or errno.errorcode.get(error.errno or 0, "unreadable")
        raise MalformedReward(reason) from None


def _last_words(completed: Completed) -> str:
    said = (completed.stderr or completed.stdout).decode(errors="replace").strip()
    return f"; it printed: {said[-200:]}" if said else ""
