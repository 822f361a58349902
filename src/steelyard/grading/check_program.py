"""A trusted check program (HumanEval's form): it runs in a helper process, the candidate in a
sandbox."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from steelyard.episodes import Cause, Check, Outcome, Scored, Unscored
from steelyard.grading.settings import GradingSettings
from steelyard.sandbox import Sandbox
from steelyard.tasks.task import CheckProgram

_GRACE_SECONDS = 2.0
# Makes the helper's imports find our files without running the packages' __init__: it needs two
# small modules of the standard library's kind, not pydantic, and must start in milliseconds.
_BOOT = """
import sys, types
for name, path in (("steelyard", 1), ("steelyard.sandbox", 2), ("steelyard.grading", 3)):
    module = types.ModuleType(name)
    module.__path__ = [sys.argv[path]]
    sys.modules[name] = module
from steelyard.grading.checking import main
main()
"""


def grade_check_program(
    sandbox: Sandbox,
    verifier: CheckProgram,
    files: Mapping[str, bytes],
    settings: GradingSettings,
    deadline: float,
) -> Outcome:
    """Reward 1 if `check(candidate)` returns, else 0; one Check named "check".

    A failed assertion, an exception that the candidate raised, a candidate that exits or gives no
    answer in time, and an exception in the check after the candidate was called (TypeError on a
    None that it returned) are failures of the candidate. A check program that cannot be loaded,
    fails before it calls the candidate or never calls it is Unscored(VERIFIER_ERROR); one that is
    still running at the `deadline` without waiting for the candidate, Unscored(VERIFIER_TIMEOUT).
    Raises SandboxError.
    """
    timeout_seconds = max(deadline - time.monotonic(), 0.001)
    with sandbox.program(files, module=verifier.module, function=verifier.function) as program:
        channel = program.channel.fileno()
        request = {
            "source": verifier.source,
            "channel": channel,
            "timeout_seconds": timeout_seconds,
            "call_timeout_seconds": settings.call_timeout_seconds,
        }
        grading = Path(__file__).parent
        packages = (grading.parent, grading.parent / "sandbox", grading)
        try:
            completed = subprocess.run(
                [sys.executable, "-I", "-c", _BOOT, *map(str, packages)],
                input=json.dumps(request).encode(),
                capture_output=True,
                pass_fds=(channel,),
                cwd="/",
                env={"PATH": os.defpath, "LANG": "C.UTF-8"},
                start_new_session=True,  # Ctrl-C is for the trainer
                timeout=timeout_seconds + _GRACE_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Unscored(Cause.VERIFIER_TIMEOUT, "the check program did not come to an end")
    return _outcome(completed)


def _outcome(completed: subprocess.CompletedProcess[bytes]) -> Outcome:
    if completed.returncode != 0 or not completed.stdout:
        said = completed.stderr.decode(errors="replace").strip()[-300:]
        return Unscored(
            Cause.VERIFIER_ERROR,
            f"the check program's process ended with exit code {completed.returncode}: {said}",
        )
    verdict, detail = json.loads(completed.stdout)
    if verdict == "broken":
        return Unscored(Cause.VERIFIER_ERROR, detail)
    passed = verdict == "passed"
    return Scored(float(passed), (Check("check", passed, detail),))
