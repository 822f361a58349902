"""Checks as data on a command-line program: run in an emptied sandbox, compared out here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping

from steelyard.episodes import Check, Scored
from steelyard.grading.comparing import matches, shown
from steelyard.grading.settings import GradingSettings
from steelyard.sandbox import Completed, Sandbox, SandboxError
from steelyard.tasks.task import ProgramCheck, ProgramChecks


def grade_program_checks(
    sandbox: Sandbox,
    verifier: ProgramChecks,
    files: Mapping[str, bytes],
    settings: GradingSettings,
    deadline: float,
) -> Scored:
    """Reward 1 if every check passes, else 0.

    Each check runs the command once in a workspace that holds `files` and the check's own, and
    nothing of an earlier check; what is expected never enters the sandbox. Whatever the program
    does (fail to start, hang, print too much) fails the check during which it does so. `deadline`,
    on the monotonic clock, bounds all of it: checks that it leaves untried have failed, and their
    detail says so. Raises SandboxError, and ValueError for a verifier without checks.
    """
    if not verifier.checks:
        raise ValueError(
            f"{' '.join(verifier.command)} has no checks, so anything would pass; give it one"
        )
    verdicts: list[Check] = []
    hung_runs = 0
    with contextlib.ExitStack() as extra:
        for check in verifier.checks:
            untried = _why_untried(hung_runs, settings, deadline)
            if untried:
                verdicts.append(Check(check.name, False, untried))
                continue
            if verdicts:
                sandbox = _emptied(sandbox, extra)
            else:
                sandbox.wipe()
            problem, hung = _run(sandbox, verifier.command, check, files, settings, deadline)
            verdicts.append(Check(check.name, not problem, problem))
            hung_runs += hung
        with contextlib.suppress(SandboxError):  # it is dead then, and the grader replaces it
            sandbox.wipe()
    return Scored(float(all(check.passed for check in verdicts)), tuple(verdicts))


def _emptied(sandbox: Sandbox, extra: contextlib.ExitStack) -> Sandbox:
    """The sandbox, or a new one where a program left what cannot be removed: its next check must
    not lose its verdict by that."""
    try:
        sandbox.wipe()
    except SandboxError:
        return extra.enter_context(Sandbox(sandbox.settings))
    return sandbox


def _why_untried(hung_runs: int, settings: GradingSettings, deadline: float) -> str:
    if hung_runs >= settings.max_hung_calls:
        return f"not tried: {hung_runs} earlier checks gave no answer in time"
    if time.monotonic() >= deadline:
        return "not tried: the time for all checks had run out"
    return ""


def _run(
    sandbox: Sandbox,
    command: tuple[str, ...],
    check: ProgramCheck,
    files: Mapping[str, bytes],
    settings: GradingSettings,
    deadline: float,
) -> tuple[str, bool]:
    """What is wrong, empty if nothing is, and whether the program had to be ended."""
    own = {path: text.encode() for path, text in check.files.items()}
    sandbox.put({**_making_room(files, own), **own})
    timeout_seconds = max(min(settings.call_timeout_seconds, deadline - time.monotonic()), 0.001)
    completed = sandbox.run(
        [*command, *check.arguments], timeout_seconds=timeout_seconds, stdin=check.stdin.encode()
    )
    if completed.timed_out:
        return "no end in time", True
    return _problem(sandbox, check, completed), False


def _making_room(files: Mapping[str, bytes], own: Mapping[str, bytes]) -> dict[str, bytes]:
    """The workspace without what stands where a file of the check, or its folder, must be.

    Or else a program could keep its checks from being laid, and so from being failed.
    """
    return {
        path: data
        for path, data in files.items()
        if not any(f"{name}/".startswith(f"{path}/") or path.startswith(f"{name}/") for name in own)
    }


def _problem(sandbox: Sandbox, check: ProgramCheck, completed: Completed) -> str:
    if completed.exit_code != check.exit_code:
        said = completed.stderr.decode(errors="replace").strip()[-200:]
        ending = f"exit code {completed.exit_code}, not {check.exit_code}"
        return f"{ending}: {said}" if said else ending
    limit = sandbox.settings.output_kb << 10
    if check.stdout is not None:
        if completed.truncated and len(completed.stdout) >= limit:
            return f"printed more than {sandbox.settings.output_kb} KiB"
        if not matches(completed.stdout, check.stdout, check.comparison, check.tolerance):
            return f"printed {shown(completed.stdout)}, not {shown(check.stdout)}"
    for path, expected in check.expected_files.items():
        try:
            data = sandbox.read(path)
        except OSError as error:
            return f"{path} cannot be read: {error.strerror}"
        if not matches(data, expected, check.comparison, check.tolerance):
            return f"{path} holds {shown(data)}, not {shown(expected)}"
    return ""
