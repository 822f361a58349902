"""The command of a finding shows it again, and no failure of ours is a finding."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from steelyard.auditing import AuditSettings, audit
from steelyard.auditing.arena import Arena
from steelyard.auditing.baseline import Baseline, baseline_findings, take_baseline
from steelyard.auditing.confirming import without_busy_times
from steelyard.auditing.grouping import dodges
from steelyard.auditing.judging import Judge
from steelyard.auditing.probes import PROBES
from steelyard.auditing.runner import chosen_probes, reproduction
from steelyard.auditing.submission import Deserves, Submission
from steelyard.auditing.target import Target, targets_of
from steelyard.auditing.wrongness import Wrongness
from steelyard.episodes import Cause, Outcome, Scored, Unscored
from steelyard.grading import GradingSettings
from steelyard.tasks import Task, TestScript, read_jsonl

REWARD = "/logs/verifier/reward.txt"
BY_NAME = {probe.name: probe for probe in PROBES}


def program(body: str) -> Task:
    return Task(
        "double", "Write double(n).", TestScript({"test.sh": f"{body}\n".encode()}),
        {"calc.py": b"def double(n):\n    return n\n"},
        solution={"calc.py": b"def double(n):\n    return n * 2\n"},
    )  # fmt: skip


@pytest.fixture
def arena() -> Iterator[Arena]:
    with Arena(GradingSettings()) as made:
        yield made


def only_of(command: str) -> str:
    words = shlex.split(command)
    return words[words.index("--only") + 1]


def test_a_verifier_that_is_made_to_fail_is_made_to_fail_again() -> None:
    task = program(
        "cd /app; python3 -c 'import calc; print(calc.double(2))' > /tmp/got\n"
        f"[ -s /tmp/got ] || exit 0\n[ $(cat /tmp/got) = 4 ]; echo $((1 - $?)) > {REWARD}"
    )
    (found,) = (
        audit([task], AuditSettings(only="exits/sys-exit-on-import", gold_runs=1)).tasks[0].findings
    )
    assert found.probe == "dodges/exits/sys-exit-on-import"
    (again,) = (
        audit([task], AuditSettings(only=only_of(found.command), gold_runs=1)).tasks[0].findings
    )
    assert again == found


def test_a_command_names_what_decides_what_is_found(tmp_path: Path) -> None:
    (tmp_path / "rewards.py").write_text("def score(prompt, answer, right):\n    return 0.5\n")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"prompt": "2 + 2?", "right": "4"}) + "\n")
    (target,) = targets_of(read_jsonl(rows, gold="right"))
    command = reproduction(target, "answers/wrong", AuditSettings(threshold=0.5, max_examples=20))
    words = shlex.split(command)
    for pair in (["--gold", "right"], ["--threshold", "0.5"], ["--max-examples", "20"]):
        assert any(words[i : i + 2] == pair for i in range(len(words)))
    plain = reproduction(target, "answers/wrong", AuditSettings())
    assert "--threshold" not in plain
    assert "--max" not in plain


def test_a_flaky_reference_is_graded_several_times_again() -> None:
    target = Target((program("exit 0"),))
    command = reproduction(target, "baseline/flaky", AuditSettings())
    assert "--quick" not in command
    assert chosen_probes(only_of(command)) == []


def test_a_failure_of_ours_dodges_nothing(arena: Arena) -> None:
    target = Target((program("exit 0"),))
    baseline = Baseline(target, gold=[Scored(1.0)], nothing=[Scored(0.0)], base=Scored(0.0))
    wrongness = Wrongness(target, arena, GradingSettings().sandbox)
    judge = Judge(baseline, wrongness)
    probe = BY_NAME["exits/os-exit-on-import"]
    (submission, *_) = probe.plan(target)

    def found(cause: Cause) -> list[str]:
        judgement = judge.judge(probe, submission, Unscored(cause, "it broke"))
        return [f.probe for f in dodges([(probe, submission, judgement)], baseline)]

    assert found(Cause.SANDBOX_FAILURE) == []
    assert found(Cause.INFRASTRUCTURE_FAILURE) == []
    assert found(Cause.VERIFIER_ERROR) == ["dodges/exits/os-exit-on-import"]
    assert only_of(reproduction(target, found(Cause.VERIFIER_ERROR)[0], AuditSettings())) == (
        "exits/os-exit-on-import"
    )
    wrongness.close()


LATE = Unscored(Cause.VERIFIER_TIMEOUT, "too slow")


def test_a_real_hang_is_kept_beside_one_of_a_busy_machine() -> None:
    task = program("exit 0")
    busy, hanging, later = (
        Submission(label, Deserves.LESS_THAN_SUCCESS, task, {}) for label in ("a", "b", "c")
    )
    probe = BY_NAME["answers/flood"]
    graded: list[str] = []

    def grade(submission: Submission) -> Outcome:
        graded.append(submission.label)
        return LATE if submission.label == "b" else Scored(0.0)

    kept = without_busy_times(
        [(probe, busy), (probe, hanging), (probe, later)],
        [LATE, LATE, LATE],
        grade,
        lambda _: Submission("the reference", Deserves.SUCCESS, task, {}),
    )
    assert kept == [None, LATE, LATE]
    assert graded == ["a", "b", "the reference"]


class _BusyAtFirst(Arena):
    """The first grading has hardly any time, as on a machine that does something else."""

    def __init__(self, settings: GradingSettings) -> None:
        super().__init__(settings)
        self.waited = False

    def grade(
        self, submission: Submission, *, timeout_seconds: float | None = None
    ) -> Outcome | None:
        if not self.waited:
            self.waited = True
            time.sleep(2.5)
            return super().grade(submission, timeout_seconds=0.001)
        return super().grade(submission, timeout_seconds=timeout_seconds)


def test_a_busy_machine_does_not_make_the_reference_slow() -> None:
    task = program(f"echo 1 > {REWARD}")
    with _BusyAtFirst(GradingSettings()) as busy:
        baseline = take_baseline(Target((task,)), busy, AuditSettings(quick=True))
    assert isinstance(baseline.gold[0], Scored)
    assert baseline.gold_seconds < 2.5
    assert "baseline/reference-fails" not in {f.probe for f in baseline_findings(baseline)}
