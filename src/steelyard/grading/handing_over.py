"""Takes from a finished workspace what the verifier is to get."""

from __future__ import annotations

from collections.abc import Mapping

from steelyard.grading.test_script import script_sandbox
from steelyard.sandbox import SandboxSettings
from steelyard.tasks.handover import Handover
from steelyard.tasks.task import WORKING_DIRECTORY


def hand_over(
    handover: Handover,
    given: Mapping[str, bytes],
    left: Mapping[str, bytes],
    settings: SandboxSettings,
    variables: Mapping[str, str],
    workspace: str = WORKING_DIRECTORY,
) -> dict[str, bytes]:
    """The files for the verifier, of those `given` to the agent and those that it `left`.

    Collect hooks run in a sandbox of their own among the files that were left, without the tests;
    as in Harbor, one that fails or takes too long does not end the grading. The agent's processes
    have ended by then, so a hook can collect files only. Raises SandboxError, and OSError if the
    files do not fit.
    """
    if handover.collect:
        with script_sandbox(settings, workspace) as sandbox:
            sandbox.put(left)
            for hook in handover.collect:
                sandbox.run(
                    ["bash", "-c", hook.command],
                    timeout_seconds=hook.timeout_seconds,
                    env=variables,
                    keep_background=True,
                )
            left = sandbox.collect()
    return handover.select(given, left)
