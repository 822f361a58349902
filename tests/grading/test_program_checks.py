"""Command-line programs: right ones pass, wrong ones fail by name, nothing leaks between runs."""

from __future__ import annotations

import time
from typing import Any

import pytest

from steelyard.episodes import Check, Scored
from steelyard.grading import Grader, GradingSettings
from steelyard.grading.comparing import matches
from steelyard.tasks import ProgramCheck, ProgramChecks, Task

COMMAND = ("python3", "tool.py")
SUM = """
import sys
if sys.argv[1:] == ["--bad"]:
    sys.exit("usage: tool.py")
lines = open(sys.argv[1]) if sys.argv[1:] else sys.stdin
total = sum(map(int, lines))
open("log.txt", "w").write(f"total {total}\\n")
print(total)
"""
SUM_CHECKS = (
    ProgramCheck("stdin", stdin="1\n2\n", stdout="3\n"),
    ProgramCheck("file", ("in.txt",), files={"in.txt": "4\n5\n"}, stdout="9\n"),
    ProgramCheck("log", stdin="7\n", stdout="7\n", expected_files={"log.txt": "total 7\n"}),
    ProgramCheck("usage", ("--bad",), exit_code=1, stdout=""),
)


def grade(grader: Grader, source: str, *checks: ProgramCheck, **task: Any) -> Scored:
    verifier = ProgramChecks(COMMAND, checks or SUM_CHECKS)
    outcome = grader.grade(Task("t", "", verifier, **task), {"tool.py": source.encode()})
    assert isinstance(outcome, Scored), outcome
    return outcome


def test_a_right_program_scores_one(grader: Grader) -> None:
    names = ("stdin", "file", "log", "usage")
    assert grade(grader, SUM) == Scored(1.0, tuple(Check(name, True) for name in names))


def test_a_wrong_program_scores_zero_and_every_check_is_kept(grader: Grader) -> None:
    outcome = grade(grader, SUM.replace("print(total)", "print(total, end='')"))
    assert outcome.reward == 0.0
    assert [check.passed for check in outcome.checks] == [False, False, False, True]
    assert outcome.checks[0].detail == "printed '3', not '3\\n'"
    outcome = grade(grader, SUM.replace("total {total}", "sum {total}"))
    assert [check.detail for check in outcome.checks if not check.passed] == [
        "log.txt holds 'sum 7\\n', not 'total 7\\n'"
    ]
    outcome = grade(grader, "import sys; sys.exit('what?')")
    assert outcome.checks[0].detail == "exit code 1, not 0: what?"


def test_runs_share_nothing(grader: Grader) -> None:
    """A program that remembers its earlier run finds no trace of it, nor does the next program."""
    source = """
import os, sys
places = ["seen", "/tmp/seen", "/dev/shm/seen"]
print(sum(map(os.path.exists, places)), len(os.listdir(".")))
for place in places: open(place, "w")
if os.fork() == 0:
    import time; time.sleep(60)
"""
    check = ProgramCheck("a", stdout="0 1\n")
    for _ in range(2):
        twice = (check, ProgramCheck("b", stdout="0 1\n"))
        assert grade(grader, source, *twice).reward == 1.0


def test_what_cannot_be_removed_costs_nobody_a_verdict(grader: Grader) -> None:
    source = """
import os
os.makedirs("d/e"); os.chmod("d", 0)
print("ok")
"""
    checks = tuple(ProgramCheck(name, stdout="ok\n") for name in "abc")
    assert grade(grader, source, *checks).reward == 1.0
    assert grade(grader, SUM).reward == 1.0


def test_expectations_are_not_in_the_sandbox(grader: Grader) -> None:
    secret = "a1b2c3"
    source = """
import os
found = []
for top in ("/work", "/tmp", "/tests", "/logs", "/run"):
    for folder, _, names in os.walk(top):
        for name in names:
            try: found.append(open(os.path.join(folder, name), errors="replace").read())
            except OSError: pass
found += [open(f"/proc/{pid}/cmdline").read() for pid in os.listdir("/proc") if pid.isdigit()]
text = "".join(found)
print("a1b2" + "c3" if "a1b2" + "c3" in text else "nothing", len(found) > 1)
"""
    outcome = grade(grader, source, ProgramCheck("look", stdout=f"{secret}\n"))
    assert outcome.checks[0].detail == f"printed 'nothing True\\n', not '{secret}\\n'"


def test_files_of_a_check_win_over_what_the_program_left(grader: Grader) -> None:
    files = {"tool.py": SUM.encode(), "in.txt/x": b"", "in": b"", "in.txt2": b"kept"}
    checks = (
        ProgramCheck("folder in its place", ("in.txt",), files={"in.txt": "4\n"}, stdout="4\n"),
        ProgramCheck("file for a folder", ("in/a",), files={"in/a": "5\n"}, stdout="5\n"),
    )
    outcome = grader.grade(Task("t", "", ProgramChecks(COMMAND, checks)), files)
    assert outcome == Scored(1.0, tuple(Check(check.name, True) for check in checks))


def test_links_floods_and_missing_files_fail(grader: Grader) -> None:
    check = ProgramCheck("out", stdout="", expected_files={"out.txt": "agent"})
    link = 'import os; os.symlink("/etc/passwd", "out.txt")'
    assert grade(grader, link, check).checks[0].detail == "out.txt cannot be read: " + (
        "out.txt: symbolic link"
    )
    assert "cannot be read" in grade(grader, "", check).checks[0].detail
    flood = grade(grader, "print('x' * 10**6)", ProgramCheck("flood", stdout="x"))
    assert flood.checks[0].detail == "printed more than 16 KiB"


def test_a_command_that_is_not_there_fails(grader: Grader) -> None:
    verifier = ProgramChecks(("./missing",), (ProgramCheck("x", stdout=""),))
    outcome = grader.grade(Task("t", "", verifier), {})
    assert isinstance(outcome, Scored)
    assert "exit code 127, not 0" in outcome.checks[0].detail


def test_hangs_are_bounded_and_the_rest_is_failed_untried() -> None:
    settings = GradingSettings(workers=1, call_timeout_seconds=0.5, max_hung_calls=2)
    checks = tuple(ProgramCheck(str(n), (str(n),), stdout="") for n in range(6))
    source = "import sys, time\nif int(sys.argv[1]) > 1: time.sleep(60)"
    with Grader(settings) as grader:
        began = time.monotonic()
        outcome = grade(grader, source, *checks)
        assert time.monotonic() - began < 10
        assert [check.passed for check in outcome.checks] == [True] * 2 + [False] * 4
        assert outcome.checks[3].detail == "no end in time"
        assert "not tried: 2 earlier" in outcome.checks[5].detail
        late = grade(grader, "import time; time.sleep(.3)", *checks, verifier_timeout_seconds=0.4)
        assert late.checks[5].detail == "not tried: the time for all checks had run out"


def test_without_checks_nothing_can_be_said(grader: Grader) -> None:
    with pytest.raises(ValueError, match=r"python3 tool.py has no checks"):
        grader.grade(Task("t", "", ProgramChecks(COMMAND, ())), {})


@pytest.mark.parametrize(
    ("got", "expected", "comparison", "verdict"),
    [
        (b"a\n", "a\n", "exact", True),
        (b"a", "a\n", "exact", False),
        (b"a  \nb\n\n", "a\nb", "lines", True),
        (b"  a", "a", "lines", False),
        (b"b\na", "a\nb", "lines", False),
        (b"b\na \n", "a\nb\n", "unordered_lines", True),
        (b"a\na\nb", "a\nb\nb", "unordered_lines", False),
        (b"a\nb", "a\nb\nb", "unordered_lines", False),
        (b'{"b": [1, 2], "a": null}', '{"a": null, "b": [1, 2]}', "json", True),
        (b'{"a": 1.0}', '{"a": 1}', "json", False),
        (b'{"a": true}', '{"a": 1}', "json", False),
        (b'{"a": 2, "a": 1}', '{"a": 1}', "json", False),
        (b'{"a": 1} x', '{"a": 1}', "json", False),
        (b"[" * 500 + b"]" * 500, "[]", "json", False),
        (b"NaN", "1", "json", False),
        (b"mean=1.3334 n=3", "mean=1.3333  n=3\n", "numbers", True),
        (b"mean=1.34 n=3", "mean=1.3333 n=3", "numbers", False),
        (b"1 2", "1 2 3", "numbers", False),
        (b"nan", "1.0", "numbers", False),
        (b"1e999", "1.0", "numbers", False),
        (b"median 1.0", "mean 1.0", "numbers", False),
        (b"1.0005e2", "100.05", "numbers", True),
        (b"\xff", "a", "lines", False),
    ],
)
def test_each_comparison_accepts_what_it_says(
    got: bytes, expected: str, comparison: Any, verdict: bool
) -> None:
    assert matches(got, expected, comparison, 1e-3) is verdict
