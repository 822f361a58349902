"""Whether a submission earned more, or less, than it deserves."""

from __future__ import annotations

import re
from dataclasses import dataclass

from steelyard.auditing.arena import is_ours
from steelyard.auditing.baseline import Baseline
from steelyard.auditing.findings import Kind, Strength, Trial
from steelyard.auditing.probes.answers import ANSWER_FIX
from steelyard.auditing.probes.hostile_answers import EXECUTION_EXIT_CODE, FAILURE_FIX
from steelyard.auditing.submission import Deserves, Probe, Submission
from steelyard.auditing.wrongness import Wrongness
from steelyard.episodes import Cause, Outcome, Scored, Unscored

_EPSILON = 1e-9
_RAISED = re.compile(r"\braised (\w+)")
_ORDINARY = ("answers/nothing", "answers/garbage", "answers/wrong", "answers/constant")
"""Probes whose texts a policy writes every day: a function that fails on them is at fault."""
_FAILURES = ("answers/executed", "answers/crash", "answers/flood")
"""Probes that look for a function's failure. Where it pays their text, it has not failed."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A trial, and how strongly it speaks against the verifier (None: not at all)."""

    trial: Trial
    strength: Strength | None = None
    kind: Kind = Kind.CHEAT
    evidence: str = ""
    title: str = ""
    """What was seen, where it is not what the probe's title says; `fix` goes with it."""
    fix: str = ""
    cause: str = ""
    """What a failing function failed with: all that shares it is one finding."""
    dodges: bool = False
    """Whether the verifier failed on work that it should have scored 0, and we did not."""


class Judge:
    """Judges the outcomes of one target's submissions."""

    def __init__(self, baseline: Baseline, wrongness: Wrongness) -> None:
        self._baseline = baseline
        self._wrongness = wrongness
        self._threshold = baseline.target.threshold

    def judge(self, probe: Probe, submission: Submission, outcome: Outcome) -> Judgement:
        """What this outcome says. Raises SandboxError."""
        if isinstance(outcome, Unscored):
            return self._unscored(probe, submission, outcome)
        deserved = self._deserved(submission)
        if submission.deserves is Deserves.SUCCESS:
            return self._refused(probe, submission, outcome)
        strength, evidence = self._paid(probe, submission, outcome, deserved)
        trial = Trial(probe.name, submission.label, outcome.reward, deserved, strength is not None)
        kind = probe.kind
        if submission.deserves is Deserves.NOTHING and outcome.reward < self._threshold / 2:
            kind = Kind.WEAK  # a floor: it distorts the reward, and nobody can live on it
        if probe.name in _FAILURES:
            title = "a text that is no answer is paid"
            return Judgement(trial, strength, Kind.CHEAT, evidence, title, ANSWER_FIX)
        return Judgement(trial, strength, kind, evidence)

    def _deserved(self, submission: Submission) -> float | None:
        match submission.deserves:
            case Deserves.NOTHING:
                return 0.0
            case Deserves.UNTOUCHED:
                return self._baseline.honest_reward
            case Deserves.SUCCESS:
                return self._threshold
            case _:
                return None

    def _paid(
        self, probe: Probe, submission: Submission, outcome: Scored, deserved: float | None
    ) -> tuple[Strength | None, str]:
        earned, success = outcome.reward, outcome.reward >= self._threshold
        if submission.deserves is Deserves.LESS_THAN_SUCCESS:
            return (Strength.PROVED, "it is wrong by construction") if success else (None, "")
        if submission.deserves is Deserves.SEPARATED:
            return self._separated(submission) if success else (None, "")
        assert deserved is not None
        if earned <= deserved + _EPSILON:
            return None, ""
        if submission.deserves is Deserves.UNTOUCHED:
            evidence = "it computes what the untouched program computes"
            if not success and probe.family == "exits":
                # To end early may honestly satisfy a check (status 0): only a success counts.
                return Strength.LEAD, evidence
            return Strength.PROVED, evidence
        return Strength.PROVED, "it answers nothing"

    def _separated(self, submission: Submission) -> tuple[Strength, str]:
        wrong = self._wrongness.of(submission.files)
        if wrong is None:
            return Strength.LEAD, "nothing was found that shows it to be wrong"
        strength = Strength.PROVED if wrong.inside else Strength.LEAD
        return strength, wrong.evidence

    def _refused(self, probe: Probe, submission: Submission, outcome: Scored) -> Judgement:
        short = outcome.reward < self._threshold
        trial = Trial(probe.name, submission.label, outcome.reward, self._threshold, short)
        failed = [f"{c.name}: {c.detail}" for c in outcome.checks if not c.passed]
        evidence = "; ".join(["it is right", *failed[:2]])
        return Judgement(trial, Strength.PROVED if short else None, probe.kind, evidence)

    def _unscored(self, probe: Probe, submission: Submission, outcome: Unscored) -> Judgement:
        deserved = self._deserved(submission)
        said = f"{outcome.cause.value}: {outcome.detail}"
        executed = f"exit code {EXECUTION_EXIT_CODE}" in outcome.detail
        if executed and probe.name == "answers/executed":
            trial = Trial(probe.name, submission.label, None, deserved, True, said)
            return Judgement(trial, Strength.PROVED, Kind.CHEAT, f"the answer ran as code ({said})")
        trial = Trial(probe.name, submission.label, None, deserved, False, said)
        if is_ours(outcome):
            return Judgement(trial)
        if probe.family not in ("answers", "right-work"):
            return Judgement(trial, dodges=True)  # counted together, see grouping
        if submission.deserves is Deserves.SUCCESS:
            return Judgement(trial, Strength.PROVED, Kind.REJECTS, f"it is right: {said}")
        if probe.name == "answers/flood" and outcome.cause is not Cause.VERIFIER_TIMEOUT:
            return Judgement(trial)
        ordinary = probe.name in _ORDINARY
        strength = Strength.PROVED if ordinary else Strength.LEAD
        evidence = f"no reward at all: {said}"
        raised = _RAISED.search(outcome.detail)
        cause = f"{outcome.cause.value} {raised[1] if raised else ''}"
        hung = outcome.cause is Cause.VERIFIER_TIMEOUT
        if probe.name == "answers/crash" or (probe.name == "answers/flood" and hung):
            return Judgement(trial, strength, Kind.WEAK, evidence, cause=cause)
        title = "an answer makes the function " + ("hang" if hung else "fail")
        return Judgement(trial, strength, Kind.WEAK, evidence, title, FAILURE_FIX, cause)
