"""The classes of flaw that the corpus labels."""

from __future__ import annotations

CLASSES: dict[str, str] = {
    # what is paid without the work
    "nothing-pays": "the untouched workspace, or an empty answer, reaches the full reward",
    "empty-pays": "an empty file, list or answer passes because nothing in it can fail",
    "constant-pays": "one constant value passes",
    "echo-pays": "giving the input back passes",
    "visible-table": "a table of the examples that the agent can see passes",
    "too-few-checks": "wrong code passes because the checks miss its behaviour",
    "loose-tolerance": "the comparison is so wide that wrong values pass",
    "special-number": "NaN or infinity passes a numeric comparison",
    "format-only": "only shape, type or markup is checked, not the content",
    "self-reported": "the verifier believes a score that the candidate states",
    # how a program can end
    "exit-code": "the candidate decides the exit code that is taken for the verdict",
    "fake-pass-line": "the candidate can print what the verifier takes for success",
    "silence-pays": "success is the absence of a failure message",
    "skip": "skipped tests count as passed",
    "timeout-pays": "running out of time is paid",
    "error-pays": "an exception or unreadable answer is paid",
    "lost-status": "the shell loses the status that should decide",
    # what the verifier trusts
    "tests-in-workspace": "the agent can overwrite or delete the tests",
    "conftest": "pytest loads a conftest.py of the agent",
    "pytest-config": "pytest obeys a configuration file or variable of the agent",
    "shadowed-module": "a module of the agent is imported in place of the verifier's",
    "interpreter": "Python start-up or bytecode files of the agent run in the verifier",
    "shell-environment": "shell files, variables or programs of the agent run in the verifier",
    "equality-spoof": "an object that equals everything passes",
    "patches-verifier": "the candidate changes the verifier's functions in its own process",
    "reads-expected": "the candidate can read the expected values or call the reference",
    "input-mutation": "the candidate changes the input from which the expectation is computed",
    "clock": "the candidate controls the clock that measures it",
    "forged-report": "the candidate can write the test report",
    "reward-file": "the candidate can write the reward",
    # texts
    "substring": "the right text anywhere in the answer, or a part of it, passes",
    "any-of-many": "an answer that lists every candidate passes",
    "lenient-parser": "a wrong answer is read as the right one",
    "eval-answer": "the answer is executed",
    "keyword-stuffing": "words that the judge looks for are paid wherever they stand",
    "judge-injection": "text in the answer is taken for the judge's verdict or instruction",
    "length": "longer answers are paid more, whatever they say",
    "stateful": "the reward depends on earlier or simultaneous answers, not on this one",
    # right work that is not paid
    "flaky": "the same right work is sometimes refused",
    "rejects-right-work": "right work of another form, which the task allows, is refused",
    "source-text-checked": "the wording of the source is checked in place of its behaviour",
    "reference-wrong": "the task's own reference fails, or is wrong by the instruction",
    "timeout-too-short": "right work is cut off by the time limit",
    "malformed-reward": "right work gets something that is no reward",
    # what the agent can reach
    "leaks-answer": "the solution or the expected values lie in the workspace or the prompt",
    "git-future": "git objects newer than the base commit hold the solution",
    "secret": "a credential lies in the workspace",
    "unpinned": "what the image installs is not pinned, so the verdict can change",
}

SOUND = ""

ACCEPTS_WRONG = "accepts wrong work"
REJECTS_RIGHT = "rejects right work"
EXPOSES = "exposes something"

REJECTING = frozenset(
    {
        *("flaky", "rejects-right-work", "source-text-checked", "reference-wrong"),
        *("timeout-too-short", "malformed-reward"),
    }
)
EXPOSING = frozenset({"leaks-answer", "git-future", "secret", "unpinned"})


def effect_of(flaw: str) -> str:
    """What a flaw of that class does to training."""
    if flaw in REJECTING:
        return REJECTS_RIGHT
    return EXPOSES if flaw in EXPOSING else ACCEPTS_WRONG
