"""Harbor test scripts: a reward file from a fresh sandbox, strictly read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from steelyard.episodes import Cause, Check, Outcome, Scored, Unscored
from steelyard.grading import Grader
from steelyard.grading.reading import MalformedReward, read_reward_json, read_reward_text
from steelyard.grading.test_script import script_command
from steelyard.tasks.task import Task, TestScript

OUT = "/logs/verifier/reward"


def grade(grader: Grader, script: str, timeout_seconds: float = 5.0, **tests: str) -> Outcome:
    files = {"test.sh": script.encode(), **{n: text.encode() for n, text in tests.items()}}
    task = Task("t", "", TestScript(files), verifier_timeout_seconds=timeout_seconds)
    return grader.grade(task, {"m.py": b"def f(): return 5\n", "sub/data.txt": b"data"})


def test_the_script_sees_the_workspace_and_its_own_files(grader: Grader) -> None:
    script = f"""
cd /app && [ "$(cat sub/data.txt)" = data ] && [ "$(cat /tests/expected)" = 5 ] || exit 1
python3 -c 'import m; print(float(m.f() == int(open("/tests/expected").read())))' > {OUT}.txt
exit 7
"""
    assert grade(grader, script, expected="5") == Scored(1.0)  # the exit code is ignored
    assert grade(grader, script.replace("exit 7", ""), expected="5") == Scored(1.0)


def test_a_script_is_run_by_the_interpreter_that_it_names(grader: Grader) -> None:
    """As Harbor does, which executes the file."""
    python = f"#!/usr/bin/env -S python3 -I\nopen('{OUT}.txt', 'w').write('1')\n"
    assert grade(grader, python) == Scored(1.0)
    stops_early = f"#!/bin/bash -e\necho 0 > {OUT}.txt\nfalse\necho 1 > {OUT}.txt\n"
    assert grade(grader, stops_early) == Scored(0.0)
    missing = grade(grader, f"#!/no/such/interpreter\necho 1 > {OUT}.txt\n")
    assert isinstance(missing, Unscored), missing
    assert "/no/such/interpreter" in missing.detail


@pytest.mark.parametrize(
    ("script", "command"),
    [
        (b"echo", ["bash", "/t"]),
        (b"", ["bash", "/t"]),
        (b"#!\n", ["bash", "/t"]),
        (b"#!/bin/sh", ["/bin/sh", "/t"]),
        (b"#! /bin/bash  -e -u \nx", ["/bin/bash", "-e -u", "/t"]),
        (b"#!/bin/sh\r\n", ["/bin/sh", "/t"]),
    ],
)
def test_the_first_line_is_read_as_the_kernel_does(script: bytes, command: list[str]) -> None:
    assert script_command(script, "/t") == command


def test_packages_that_the_task_installs_can_be_imported_and_no_others(grader: Grader) -> None:
    files = {"test.sh": f"python3 -I -c 'import pytest' && echo 1 > {OUT}.txt".encode()}
    task = Task("t", "", TestScript(files), packages=("pytest",))
    assert grader.grade(task, {}) == Scored(1.0)
    assert isinstance(grader.grade(replace(task, packages=()), {}), Unscored)


def test_json_wins_over_text_and_its_other_keys_are_checks(grader: Grader) -> None:
    script = f'echo 1 > {OUT}.txt; echo \'{{"reward": 0.5, "a": 1, "b": 0}}\' > {OUT}.json'
    assert grade(grader, script) == Scored(0.5, (Check("a", True, "1"), Check("b", False, "0")))


def test_a_planted_text_never_stands_in_for_json_without_a_reward(grader: Grader) -> None:
    planted = f"echo 1 > {OUT}.txt; "
    refused = grade(grader, planted + f'echo \'{{"error": 1, "tried": 0}}\' > {OUT}.json')
    assert isinstance(refused, Unscored)
    assert refused.cause is Cause.MALFORMED_REWARD
    assert "reward.txt is read only where there is no reward.json" in refused.detail
    one = grade(grader, planted + f"echo '{{\"error\": 0}}' > {OUT}.json")
    assert one == Scored(0.0)  # Harbor's own reading of a single key


@pytest.mark.parametrize(
    "script",
    [
        "true",
        "exit 1",
        f": > {OUT}.txt",
        f"echo passed > {OUT}.txt",
        f"echo nan > {OUT}.txt",
        f"echo 2 > {OUT}.txt",
        f"echo true > {OUT}.json",
        f"echo 1 > {OUT}.txt; echo '{{\"reward\": tr' > {OUT}.json",
        f"echo 1 > /tmp/r; ln -s /tmp/r {OUT}.txt",
        f"mkfifo {OUT}.txt",
        f"mkdir {OUT}.json",
    ],
)
def test_a_missing_or_malformed_reward_is_unscored(grader: Grader, script: str) -> None:
    outcome = grade(grader, script)
    assert isinstance(outcome, Unscored), outcome
    assert outcome.cause is Cause.MALFORMED_REWARD


def test_a_script_that_does_not_end_is_unscored(grader: Grader) -> None:
    outcome = grade(grader, f"echo 1 > {OUT}.txt; sleep 60", timeout_seconds=0.5)
    assert isinstance(outcome, Unscored)
    assert outcome.cause is Cause.VERIFIER_TIMEOUT


def test_a_background_rewriter_is_dead_before_the_reward_is_read(grader: Grader) -> None:
    script = f"(setsid bash -c 'sleep 0.1; echo 1 > {OUT}.txt' &); echo 0 > {OUT}.txt"
    assert grade(grader, script) == Scored(0.0)


@pytest.mark.parametrize("text", [b"1", b" 0.5\n", b"0", b"1e-1"])
def test_reward_text_is_one_number(text: bytes) -> None:
    assert read_reward_text(text) == float(text)


@pytest.mark.parametrize(
    "text", [b"", b"1_0e-1", b"True", b"inf", b"-0.1", b"1 1", b"\xff", b"0x1"]
)
def test_reward_text_that_is_no_number_in_range_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedReward):
        read_reward_text(text)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"1",
        b"[]",
        b"{}",
        b'{"score": 1, "style": 1}',
        b'{"reward": true}',
        b'{"reward": "1"}',
        b'{"reward": null}',
        b'{"reward": NaN}',
        b'{"reward": 1e999}',
        b'{"reward": 1.01}',
        b'{"reward": 0, "reward": 1}',
        b'{"reward": 1, "extra": [1]}',
        b'{"reward": 1, "extra": true}',
        b"[" * 100_000,
    ],
)
def test_reward_json_that_is_no_flat_object_of_numbers_is_refused(text: bytes) -> None:
    with pytest.raises(MalformedReward):
        read_reward_json(text)
