"""Runs an audit: the order of its parts, and what becomes of their outcomes."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from steelyard.auditing.arena import Arena
from steelyard.auditing.baseline import Baseline, baseline_findings, gold_submission, take_baseline
from steelyard.auditing.confirming import without_busy_times
from steelyard.auditing.findings import Finding, Report, TaskAudit, Tier, Trial
from steelyard.auditing.grouping import DODGES, ORDER, dodges, probe_findings
from steelyard.auditing.judging import Judge, Judgement
from steelyard.auditing.leaks import leaks
from steelyard.auditing.lint import lint
from steelyard.auditing.probes import PROBES
from steelyard.auditing.prompt_leaks import prompt_leaks
from steelyard.auditing.settings import AuditSettings
from steelyard.auditing.submission import Deserves, Probe, Submission, placed
from steelyard.auditing.target import Target, targets_of
from steelyard.auditing.weakness import MutantTally, mutant_submissions, tally
from steelyard.auditing.wrongness import Wrongness
from steelyard.episodes import Outcome, Scored
from steelyard.sandbox import SandboxError
from steelyard.tasks import RewardFunction, Task, TestScript

_MORE_WHERE_CHEAP = 4
"""Times as many mutants where checks are data: such a grading takes milliseconds."""


@dataclass(frozen=True)
class Watcher:
    """Hears how an audit goes on: gradings planned, gradings done, targets done."""

    planned: Callable[[int], None] = lambda count: None
    graded: Callable[[], None] = lambda: None
    done: Callable[[TaskAudit], None] = lambda result: None


def audit(
    tasks: Sequence[Task], settings: AuditSettings | None = None, watcher: Watcher | None = None
) -> Report:
    """Attacks the verifiers of tasks, each in a real sandbox against the real grader.

    Raises ValueError where `only` names no probe, and where this machine has no sandbox. What goes
    wrong with one task is its `error`, and the others go on.
    """
    settings, watcher = settings or AuditSettings(), watcher or Watcher()
    chosen_probes(settings.only)
    targets = targets_of(tasks, threshold=settings.threshold, max_examples=settings.max_examples)
    workers = settings.grading.workers
    with (
        Arena(settings.grading, shared=settings.shared) as arena,
        ThreadPoolExecutor(workers) as outer,
        ThreadPoolExecutor(workers) as inner,
    ):
        audits = [
            _TargetAudit(target, arena, settings, watcher, inner, explore=_within(i, settings))
            for i, target in enumerate(targets)
        ]
        try:
            return Report(tuple(outer.map(_TargetAudit.run, audits)))
        except BaseException:
            inner.shutdown(wait=False, cancel_futures=True)
            outer.shutdown(wait=False, cancel_futures=True)
            raise


class _TargetAudit:
    """The audit of one target."""

    def __init__(
        self,
        target: Target,
        arena: Arena,
        settings: AuditSettings,
        watcher: Watcher,
        pool: ThreadPoolExecutor,
        *,
        explore: bool,
    ) -> None:
        self._target = target
        self._arena = arena
        self._settings = settings
        self._watcher = watcher
        self._pool = pool
        self._explore = explore

    def run(self) -> TaskAudit:
        """The audit's result; a failure of ours is its `error`."""
        began = time.monotonic()
        try:
            result = self._audited()
        except (SandboxError, OSError, RuntimeError) as error:
            result = TaskAudit(self._target.name, tier_of(self._target), (), (), error=str(error))
        result = replace(result, seconds=time.monotonic() - began)
        self._watcher.done(result)
        return result

    def _audited(self) -> TaskAudit:
        settings = self._settings
        baseline = take_baseline(self._target, self._arena, settings)
        target = baseline.target
        findings = list(baseline_findings(baseline))
        trials: list[Trial] = []
        mutants = MutantTally({}, [])
        if not settings.only:
            findings += self._static_findings(target)
        if not settings.quick:
            wrongness = Wrongness(
                target, self._arena, settings.grading.sandbox, trusted=baseline.heldout_holds
            )
            try:
                judgements = self._attack(baseline, wrongness)
                trials = [judgement.trial for _, _, judgement in judgements]
                findings += probe_findings(judgements, target)
                findings += dodges(judgements, baseline)
                if settings.only in ("", "mutants", "mutants/survivor"):
                    mutants = self._mutants(baseline, wrongness)
            finally:
                wrongness.close()
        findings += mutants.findings
        ordered = sorted(findings, key=lambda finding: ORDER.index(finding.strength))
        commanded = tuple(self._with_command(finding) for finding in ordered)
        tier = Tier.D if settings.shared and tier_of(target) is not Tier.A else tier_of(target)
        return TaskAudit(
            target.name,
            tier,
            commanded,
            tuple(trials),
            mutants.counts,
            untouched=None if target.grades_text else baseline.nothing[0],
        )

    def _static_findings(self, target: Target) -> list[Finding]:
        found: list[Finding] = []
        if target.grades_text:
            found += prompt_leaks(target)
        elif self._explore:
            found += leaks(target.task, self._settings.grading.sandbox)
        source = target.task.source
        if source is not None and (source / "task.toml").is_file():
            found += lint(source)
        return found

    def _attack(
        self, baseline: Baseline, wrongness: Wrongness
    ) -> list[tuple[Probe, Submission, Judgement]]:
        """Plans every probe, grades every submission, and judges every outcome."""
        planned = [
            (probe, placed(submission))
            for probe in chosen_probes(self._settings.only)
            for submission in probe.plan(baseline.target)
            if _worth_trying(submission, baseline)
        ]
        judge = Judge(baseline, wrongness)
        outcomes = without_busy_times(
            planned,
            self._grade_all([submission for _, submission in planned], baseline),
            self._arena.grade,
            lambda submission: gold_submission(baseline.target, submission.task),
        )
        return [
            (probe, submission, judge.judge(probe, submission, outcome))
            for (probe, submission), outcome in zip(planned, outcomes, strict=True)
            if outcome is not None
        ]

    def _mutants(self, baseline: Baseline, wrongness: Wrongness) -> MutantTally:
        if not _all_paid(baseline):
            return MutantTally({}, [])
        cheap = tier_of(baseline.target) is Tier.A
        count = self._settings.max_mutants * (_MORE_WHERE_CHEAP if cheap else 1)
        mutants = mutant_submissions(baseline.target, count)
        outcomes = self._grade_all([mutant.submission for mutant in mutants], baseline)
        tried = [(m, o) for m, o in zip(mutants, outcomes, strict=True) if o is not None]
        return tally(tried, baseline.target.threshold, wrongness)

    def _grade_all(
        self, submissions: Sequence[Submission], baseline: Baseline
    ) -> list[Outcome | None]:
        self._watcher.planned(len(submissions))

        def grade(submission: Submission) -> Outcome | None:
            outcome = self._arena.grade(submission, timeout_seconds=baseline.timeout_seconds)
            self._watcher.graded()
            return outcome

        return list(self._pool.map(grade, submissions))

    def _with_command(self, finding: Finding) -> Finding:
        return replace(finding, command=reproduction(self._target, finding.probe, self._settings))


def _within(index: int, settings: AuditSettings) -> bool:
    return settings.explored is None or index < settings.explored


def chosen_probes(only: str) -> list[Probe]:
    """The probes that `only` names: all, one family, or one. ValueError where there is none."""
    if not only:
        return list(PROBES)
    if only.startswith(("mutants", "baseline", "leaks", "lint")):
        return []  # parts of the audit that are no probes
    chosen = [probe for probe in PROBES if only in (probe.name, probe.family)]
    if not chosen:
        families = ", ".join(dict.fromkeys(probe.family for probe in PROBES))
        raise ValueError(
            f"--only {only}: there is no such probe; give a family ({families}, mutants) or "
            "family/probe"
        )
    return chosen


def tier_of(target: Target) -> Tier:
    """How the grader separates this verifier from what it grades."""
    verifier = target.task.verifier
    if not isinstance(verifier, TestScript):
        return Tier.A
    return Tier.B if "reward.json" in target.tests_text else Tier.C


def reproduction(target: Target, probe: str, settings: AuditSettings) -> str:
    """The command that shows a finding again, under the settings that decide what is found."""
    verifier, source = target.task.verifier, target.task.source
    words = ["steelyard", "audit", _shell(source) if source else target.name]
    if isinstance(verifier, RewardFunction):
        words += ["--reward", f"{_shell(verifier.path)}:{verifier.function}"]
        if "gold_column" in target.task.metadata:
            words += ["--gold", shlex.quote(target.task.metadata["gold_column"])]
    family = probe.partition("/")[0]
    if family in ("baseline", "leaks", "lint") and probe != "baseline/flaky":
        words += ["--quick"]  # which grades the reference once only
    else:
        words += ["--only", probe.removeprefix(f"{DODGES}/")]
    if settings.shared:
        words.append("--shared")
    for name in ("threshold", "max_examples", "max_mutants"):
        value = getattr(settings, name)
        if value != AuditSettings.model_fields[name].default:
            words += [f"--{name.replace('_', '-')}", f"{value:g}"]
    return " ".join(words)


def _shell(path: Path) -> str:
    """A path as it is typed here."""
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))


def _worth_trying(submission: Submission, baseline: Baseline) -> bool:
    """Nothing can be concluded from cheats where honest idleness is paid in full already, nor from
    refusals where the reference itself is refused."""
    if submission.deserves is Deserves.UNTOUCHED:
        return baseline.honest_reward < baseline.target.threshold
    if submission.deserves is Deserves.SUCCESS:
        return _all_paid(baseline)
    return True


def _all_paid(baseline: Baseline) -> bool:
    return bool(baseline.gold) and all(
        isinstance(outcome, Scored) and outcome.reward >= baseline.target.threshold
        for outcome in (*baseline.gold, *baseline.again)
    )
