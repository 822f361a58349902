"""A Harbor test script: run in a fresh sandbox, judged by the reward file that it leaves."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

from steelyard.episodes import Cause, Check, Outcome, Scored, Unscored
from steelyard.grading.reading import MalformedReward, read_reward_json, read_reward_text
from steelyard.sandbox import Completed, Sandbox, SandboxSettings
from steelyard.tasks.task import WORKING_DIRECTORY, TestScript

_TESTS = "/tests"
_LOGS = "/logs"
_HOME = "/home/verifier"
_MAX_READ_ONLY_FILES = 128
"""Each is a descriptor of this process while a sandbox starts, and several start at once."""
_REWARD_JSON = f"{_LOGS}/verifier/reward.json"
_REWARD_TEXT = f"{_LOGS}/verifier/reward.txt"
_REMOVE_SECONDS = 10.0


def grade_test_script(
    verifier: TestScript,
    files: Mapping[str, bytes],
    timeout_seconds: float,
    settings: SandboxSettings,
    *,
    variables: Mapping[str, str] | None = None,
    workspace: str = WORKING_DIRECTORY,
    shared: Sandbox | None = None,
) -> Outcome:
    """Lays the files at `workspace` and the tests at /tests of a new sandbox, runs /tests/test.sh.

    Its HOME is an empty directory outside the workspace, where an agent could have left start-up
    files; it starts in the workspace. /tests is read-only, so a script writes elsewhere (/tmp,
    /logs, the workspace); where it has more than 128 files it is writable: a change of one is then
    seen afterwards, an addition is not.

    As in Harbor the script's exit code is ignored, and reward.json wins over reward.txt in
    /logs/verifier. A reward that is missing or is not a finite number within [0, 1] is
    Unscored(MALFORMED_REWARD), never 0. Every key of reward.json beside "reward" is a Check, passed
    at 1. The script and the graded code share the sandbox, so a program that the script runs could
    write the reward itself (tier B or C, not A); where it could change a file of the tests and did,
    the episode is Unscored(VERIFIER_ERROR). `variables` are the task's; the verifier's own win.

    With `shared`, a sandbox of `script_sandbox` that an agent has used, the script runs in that one
    instead (tier D), among all that the agent left: its files, what it planted in /tests, its
    processes, which live until the script ends, its HOME. Only the reward files are removed first.
    Raises SandboxError.
    """
    environment = {**(variables or {}), **verifier.variables}
    command = script_command(verifier.files["test.sh"], f"{_TESTS}/test.sh")
    tests = {f"{_TESTS}/{path}": data for path, data in verifier.files.items()}
    if shared is not None:
        return _graded_in(shared, command, {}, tests, timeout_seconds, environment, clear=True)
    environment = {"HOME": _HOME, **environment}
    if _can_be_read_only(verifier, settings):
        with _verifier_sandbox(settings, workspace, verifier.files) as sandbox:
            return _graded_in(sandbox, command, files, {}, timeout_seconds, environment)
    with script_sandbox(settings, workspace) as sandbox:
        return _graded_in(sandbox, command, files, tests, timeout_seconds, environment)


def script_sandbox(settings: SandboxSettings, workspace: str = WORKING_DIRECTORY) -> Sandbox:
    """A sandbox with the places that Harbor has, all writable: the workspace, /tests and /logs."""
    return Sandbox(settings, workspace=workspace, directories=(_TESTS, _LOGS, _HOME))


def _verifier_sandbox(
    settings: SandboxSettings, workspace: str, tests: Mapping[str, bytes]
) -> Sandbox:
    return Sandbox(
        settings, workspace=workspace, directories=(_LOGS, _HOME), read_only={_TESTS: tests}
    )


def _can_be_read_only(verifier: TestScript, settings: SandboxSettings) -> bool:
    """What is not laid out at the start is laid by name, and refused there if it cannot be."""
    known = settings.backend == "bubblewrap" and len(verifier.files) <= _MAX_READ_ONLY_FILES
    return known and all(
        len(data) <= settings.file_mb << 20
        and path.isprintable()
        and not {"", ".", ".."} & set(path.split("/"))
        for path, data in verifier.files.items()
    )


def script_command(script: bytes, path: str) -> list[str]:
    """What runs a script that lies at `path`: its interpreter, else bash.

    As the kernel reads a first line `#!INTERPRETER [ARGUMENT]`: what follows the interpreter is one
    argument. The file itself need not be executable.
    """
    first = script.split(b"\n", 1)[0].decode(errors="replace")
    words = first.removeprefix("#!").strip().split(None, 1) if first.startswith("#!") else []
    return [*(word.strip() for word in words), path] if words else ["bash", path]


def rewards_of(outcome: Scored) -> dict[str, float]:
    """The rewards by key that a reward.json held; a check that is no number counts 1 or 0."""
    rewards = {"reward": outcome.reward}
    for check in outcome.checks:
        try:
            rewards[check.name] = float(check.detail)
        except ValueError:
            rewards[check.name] = float(check.passed)
    return rewards


def _graded_in(
    sandbox: Sandbox,
    command: Sequence[str],
    files: Mapping[str, bytes],
    tests: Mapping[str, bytes],
    timeout_seconds: float,
    environment: Mapping[str, str],
    *,
    clear: bool = False,
) -> Outcome:
    """Lays `files` and `tests` out and runs `command`; `tests` are then compared."""
    try:
        if clear:
            _remove_rewards(sandbox)
        sandbox.put({**files, **tests, f"{_LOGS}/verifier/.keep": b""})
    except OSError as error:
        return Unscored(Cause.VERIFIER_ERROR, f"the files could not be laid out: {error}")
    completed = sandbox.run(command, timeout_seconds=timeout_seconds, env=environment)
    if completed.timed_out:
        return Unscored(
            Cause.VERIFIER_TIMEOUT, f"tests/test.sh was not done in {timeout_seconds:g} seconds"
        )
    changed = [path for path, data in tests.items() if not _is_still(sandbox, path, data)]
    if changed:
        # Whatever they said, they were not the tests that the task has. Files that tests add
        # beside themselves, such as caches, are no change of theirs.
        named = ", ".join(changed[:3]) + (" ..." if len(changed) > 3 else "")
        return Unscored(Cause.VERIFIER_ERROR, f"the tests were changed while they ran: {named}")
    try:
        rewards = _read_rewards(sandbox)
    except MalformedReward as error:
        return Unscored(Cause.MALFORMED_REWARD, f"{error}{_last_words(completed)}")
    reward = rewards.pop("reward")
    return Scored(reward, tuple(Check(k, v >= 1.0, _shown(v)) for k, v in rewards.items()))


def _remove_rewards(sandbox: Sandbox) -> None:
    """As Harbor does, without ending what the agent left running. Raises OSError."""
    completed = sandbox.run(
        ["/bin/rm", "-f", "--", _REWARD_JSON, _REWARD_TEXT],
        timeout_seconds=_REMOVE_SECONDS,
        keep_background=True,
    )
    if completed.exit_code != 0 or completed.timed_out:
        said = completed.stderr.decode(errors="replace").strip()[-200:]
        raise OSError(errno.EBUSY, f"the old reward could not be removed: {said}")


def _is_still(sandbox: Sandbox, path: str, data: bytes) -> bool:
    try:
        return sandbox.read(path) == data
    except OSError:  # removed, or a link in its place
        return False


def _shown(value: float) -> str:
    """The number in full, so that `rewards_of` reads it back; 1 and not 1.0."""
    return repr(value).removesuffix(".0")


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
