"""Rules on `tests/test.sh`: whether, where and on what ground it writes a reward.

The shell is read line by line, not understood; a rule that could be wrong is a lead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from steelyard.auditing.findings import Finding, Kind, Strength
from steelyard.auditing.task_files import TaskFiles, hygiene

_REWARD = re.compile(r"\breward\.(?:txt|json)\b")
_OTHER_REWARD = re.compile(
    r"[\w./$-]*\b(?:rewards|score|scores|result|reward)\.(?:json|txt|ya?ml)\b"
)
_RUNS_TESTS = re.compile(
    r"\b(?:pytest|unittest|tox|nosetests|python3?|node|(?:go|cargo|npm|yarn|make)\s+(?:run\s+)?test|"
    r"mvn|gradle|ctest|jest|rspec|bash\s+\S+|diff|cmp)\b"
)
_WRITES_ONE = re.compile(
    r"(?:echo|printf)\s+[\"']?1(?:\.0+)?(?:\\n)?[\"']?\s*>+\s*[\"']?[^\s;&|\"']*\breward\.(?:txt|json)\b"
)
_SHELL_EXIT = re.compile(
    r"^\s*set\s+-[a-z]*e|^#!.*\bsh\s+-[a-z]*e|^\s*set\s+-o\s+errexit", re.MULTILINE
)
_GUARD = re.compile(r"^\s*(?:if|while|until|elif)\b|\|\||&&|^\s*!")
_INSTALLS = re.compile(r"\b(?:pip|uv|uvx|apt|apt-get|npm|curl|wget|git)\b")


def reward_script(task: TaskFiles) -> Iterator[Finding]:
    """The findings of every `test.sh` of the task."""
    for path, text in task.scripts.items():
        lines = _commands(text)
        writes = [index for index, line in enumerate(lines) if _REWARD.search(line)]
        yield from _never_written(task, path)
        yield from _lost_on_failure(path, text, lines, writes)
        yield from _lost_status(path, text, lines)
        yield from _only_one(task, path, lines, writes)
        yield from _printed_text(path, lines)
        yield from _too_slow(task, path)


def _commands(script: str) -> list[str]:
    """The lines of a script, continued ones joined, comments and blank ones left out."""
    joined = re.sub(r"\\\n", " ", script)
    lines = (re.sub(r"(^|\s)#.*", "", line).rstrip() for line in joined.splitlines())
    return [line for line in lines if line.strip()]


def _never_written(task: TaskFiles, path: str) -> Iterator[Finding]:
    folder = path.rpartition("/")[0] + "/"
    texts = {**task.below("tests/"), **task.below("environment/")}
    inside = "\n".join(text for place, text in texts.items() if place.startswith(folder))
    if _REWARD.search("\n".join(texts.values())):
        return
    other = _OTHER_REWARD.search(inside)
    if other:
        yield hygiene(
            "reward-path", f"{path} writes {other[0]}, which Harbor does not read",
            evidence="Harbor reads /logs/verifier/reward.json, else /logs/verifier/reward.txt",
            use="none: every attempt is without a reward",
            fix="write /logs/verifier/reward.txt",
        )  # fmt: skip
        return
    doubtful = (
        re.search(r"reward|/logs\b|LOGS", "\n".join(texts.values()))
        or _INSTALLS.search(inside)
        or task.config.verifier.env
        or task.has_binaries("tests/", "environment/")
        or not _only_known_programs(inside)
    )
    yield hygiene(
        "no-reward", f"{path} writes no reward",
        evidence="no file of the task names reward.txt or reward.json",
        use="none: every attempt is without a reward",
        fix="end with: echo 1 > /logs/verifier/reward.txt, or 0",
        kind=Kind.HYGIENE if doubtful else Kind.BROKEN,
        strength=Strength.LEAD if doubtful else Strength.PROVED,
    )  # fmt: skip


def _only_known_programs(scripts: str) -> bool:
    """Whether nothing is started by an absolute path, where a program of the image may write."""
    started = re.findall(r"(?m)(?:^|[;&|]|\bthen\b|\bdo\b)\s*(/[\w./-]+)", scripts)
    return all(place.startswith(("/tests/", "/bin/", "/usr/bin/")) for place in started)


def _lost_on_failure(
    path: str, text: str, lines: list[str], writes: list[int]
) -> Iterator[Finding]:
    if not _SHELL_EXIT.search(text) or re.search(r"\btrap\b[^\n]*\b(EXIT|ERR|0)\b", text):
        return
    if not writes or re.search(r"(?m)^\s*set\s+\+e", text):
        return
    for line in lines[: writes[0]]:
        if line.lstrip().startswith(("set ", "#!")) or _GUARD.search(line) or "$(" in line:
            continue
        if _RUNS_TESTS.search(line) and not _INSTALLS.search(line):
            yield hygiene(
                "exit-before-reward", f"{path} ends before it writes the reward of a failure",
                evidence=f"set -e is on, and this may fail: {line.strip()[:120]}",
                use="fail on purpose where an attempt without a reward is not counted",
                fix="if …; then echo 1 > …; else echo 0 > …; fi",
            )  # fmt: skip
            return


def _lost_status(path: str, text: str, lines: list[str]) -> Iterator[Finding]:
    if "pipefail" in text or "PIPESTATUS" in text:
        return
    for index, line in enumerate(lines):
        match = re.search(r"(?<!\|)\|(?!\|)&?\s*(?:tee|tail|head|cat|sed|awk|ts)\b", line)
        if not match or not _RUNS_TESTS.search(line[: match.start()]):
            continue
        after = line[match.end() :]
        asked = re.match(r"\s*(?:if|elif|while)\b", line) or re.search(r"&&|\|\||\$\?", after)
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if asked or "$?" in following:
            yield hygiene(
                "lost-status", f"{path} decides by the last program of a pipeline",
                evidence=line.strip()[:160],
                use="none is needed: failing tests are paid",
                fix="set -o pipefail (bash), or write to a file instead of through the pipe",
            )  # fmt: skip
            return


def _only_one(task: TaskFiles, path: str, lines: list[str], writes: list[int]) -> Iterator[Finding]:
    others = [text for place, text in task.below("tests/").items() if place != path]
    if not writes or any("reward" in text for text in others):
        return
    told = [lines[index] for index in writes]  # a line may be a whole if … else …
    if any(len(_REWARD.findall(line)) > len(_WRITES_ONE.findall(line)) for line in told):
        return
    yield hygiene(
        "only-ever-one", f"{path} writes no other reward than 1",
        evidence="; ".join(lines[index].strip()[:80] for index in writes[:3]),
        use="a failure has no reward, so nothing is learned from it, or it is paid too",
        fix="write 0 where the tests fail",
    )  # fmt: skip


def _printed_text(path: str, lines: list[str]) -> Iterator[Finding]:
    for line in lines:
        if re.search(r"\|\s*[ef]?grep\b[^|]*\b(?:passed|ok|pass|success|failed|error)", line, re.I):
            yield hygiene(
                "printed-text", f"{path} decides by a word that graded code can print",
                evidence=line.strip()[:160],
                use="print the word and exit",
                fix="decide by the exit code of a process that the graded code does not share",
            )  # fmt: skip
            return


def _too_slow(task: TaskFiles, path: str) -> Iterator[Finding]:
    verifier = task.config.verifier
    if path.startswith("steps/"):
        name = path.split("/")[1]
        verifier = next((s.verifier for s in task.config.steps or [] if s.name == name), verifier)
    limit = verifier.timeout_sec
    folder = path.rpartition("/")[0] + "/"
    slept = 0.0
    for place, text in task.below("tests/").items():
        if place.startswith(folder):
            plain = "\n".join(_commands(text))
            found = re.findall(r"(?:^|[\s;&])(?:time\.)?sleep[ (]\s*(\d+(?:\.\d+)?)", plain, re.M)
            slept += sum(map(float, found))
    if slept > limit:
        yield hygiene(
            "timeout-below-sleeps", f"{path} sleeps longer than its time limit",
            evidence=f"{slept:g} seconds of sleep, timeout_sec = {limit:g}",
            use="none: right work runs out of time",
            fix="raise [verifier] timeout_sec, or wait for the event instead",
        )  # fmt: skip
