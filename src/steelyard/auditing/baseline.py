"""What honest work earns: the reference, the untouched files, and nothing at all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from steelyard.auditing.answer_format import candidate_formats
from steelyard.auditing.arena import Arena, is_ours
from steelyard.auditing.confirming import out_of_time
from steelyard.auditing.findings import Finding, Kind, Strength
from steelyard.auditing.probes.examples import answer, gold_text
from steelyard.auditing.settings import AuditSettings
from steelyard.auditing.submission import Deserves, Submission
from steelyard.auditing.target import Target
from steelyard.episodes import Outcome, Scored, Unscored
from steelyard.sandbox import SandboxError
from steelyard.tasks import Task

_NOBODY = "No agent can: but a run would learn from noise, or not at all."


@dataclass(frozen=True)
class Baseline:
    """Outcomes of honest work, in the order of the target's examples.

    `target` is the target with its answer format found out. `gold_seconds` is the median.
    """

    target: Target
    gold: list[Outcome] = field(default_factory=list)
    again: list[Outcome] = field(default_factory=list)
    """Further gradings of the first example's reference."""
    nothing: list[Outcome] = field(default_factory=list)
    base: Outcome | None = None
    """The honest base, on which tampering submissions build."""
    heldout: Outcome | None = None
    """The first example's reference under the held-out checks, where there are such."""
    gold_seconds: float = 0.0

    @property
    def honest_reward(self) -> float:
        """What the honest base earns; 0 where it is unscored."""
        return self.base.reward if isinstance(self.base, Scored) else 0.0

    @property
    def heldout_holds(self) -> bool:
        """Whether nothing speaks against the held-out checks: they pay the reference."""
        return self.heldout is None or (isinstance(self.heldout, Scored) and self.heldout.solved)

    @property
    def timeout_seconds(self) -> float | None:
        """Long enough for honest work, so that a hanging submission does not cost minutes."""
        return max(5 * self.gold_seconds + 2.0, 5.0) if self.gold else None


def take_baseline(target: Target, arena: Arena, settings: AuditSettings) -> Baseline:
    """Grades the reference (repeatedly), nothing, and the honest base.

    SandboxError where this machine could not grade one of them: without them no finding holds.
    """
    if target.grades_text:
        target = _with_format(target, arena)
    gold, seconds = [], []
    for task in target.examples:
        submission = gold_submission(target, task)
        if submission is not None:
            outcome, took = _twice_if_late(partial(_graded, arena, submission))
            gold.append(outcome)
            seconds.append(took)
    first = gold_submission(target, target.task)
    again = []
    if first is not None and not settings.quick:
        grade = partial(_graded, arena, first)
        again = [_twice_if_late(grade)[0] for _ in range(settings.gold_runs - 1)]
    nothing = [_graded(arena, _nothing(target, task)) for task in target.examples]
    base = nothing[0]
    if not target.grades_text and target.honest_base != target.start:
        honest = Submission("", Deserves.UNTOUCHED, target.task, target.honest_base)
        base = _graded(arena, honest)
    heldout = None
    if target.task.heldout is not None and first is not None:
        work = first.files
        heldout, _ = _twice_if_late(lambda: arena.grade_heldout(target.task, work))
        heldout = _unless_ours(heldout)
    middle = sorted(seconds)[len(seconds) // 2] if seconds else 0.0
    return Baseline(target, gold, again, nothing, base, heldout, middle)


def gold_submission(target: Target, task: Task) -> Submission | None:
    """The reference solution, or the stored answer in the target's format."""
    if target.grades_text:
        text = gold_text(task)
        if text is None:
            return None
        return answer(task, target.form.wrap(text), "the stored answer", Deserves.SUCCESS)
    workspaces = _step_by_step(task)
    gold = workspaces[-1] if workspaces else target.gold
    if gold is None:
        return None
    return Submission("the reference", Deserves.SUCCESS, task, gold, workspaces=workspaces)


def _step_by_step(task: Task) -> tuple[Mapping[str, bytes], ...]:
    """What the reference leaves after each step; nothing where a step has none."""
    if any(step.solution is None for step in task.steps):
        return ()
    files = dict(task.files)
    workspaces: list[Mapping[str, bytes]] = []
    for step in task.steps:
        files = {**files, **step.files, **(step.solution or {})}
        workspaces.append(files)
    return tuple(workspaces)


def baseline_findings(baseline: Baseline) -> Iterator[Finding]:
    """What is wrong with the verifier before anybody attacks it."""
    yield from _gold_findings(baseline)
    yield from _nothing_findings(baseline)


def _gold_findings(baseline: Baseline) -> Iterator[Finding]:
    target, threshold = baseline.target, baseline.target.threshold
    if not baseline.gold:
        yield Finding(
            "baseline/no-reference", Kind.HYGIENE, Strength.OBSERVATION,
            "there is no reference solution",
            "Without one, nothing shows that right work is paid, and no mutant can be made.",
            _NOBODY,
            "Add solution/files/, or for a JSONL a column with the right answer (--gold NAME).",
        )  # fmt: skip
        return
    failed = [outcome for outcome in baseline.gold if _reward(outcome) < threshold]
    if failed:
        yield Finding(
            "baseline/reference-fails", Kind.BROKEN, Strength.PROVED,
            "the task's own reference is not paid",
            f"{len(failed)} of {len(baseline.gold)}: {_described(failed[0])}"
            + (f" (answers given as {target.form.name})" if target.grades_text else ""),
            _NOBODY,
            "Correct the reference or the verifier until the one passes the other.",
            earned=_reward(failed[0]), deserved=threshold,
        )  # fmt: skip
    if not failed and baseline.heldout is not None and not baseline.heldout_holds:
        judged = isinstance(baseline.heldout, Scored)
        yield Finding(
            "baseline/heldout-disagrees", Kind.BROKEN, Strength.PROVED,
            "the tests pay the reference, and the held-out checks "
            + ("refuse it" if judged else "fail on it"),
            _described(baseline.heldout), _NOBODY,
            "One of the two contradicts the instruction: correct it, and the reference with it."
            if judged else "Correct the held-out checks until they pass the reference.",
            earned=_reward(baseline.heldout) if judged else None, deserved=threshold,
        )  # fmt: skip
    verdicts = [_reward(o) >= threshold for o in (baseline.gold[0], *baseline.again)]
    if True in verdicts and False in verdicts:
        yield Finding(
            "baseline/flaky", Kind.REJECTS, Strength.PROVED,
            "the reference is not always paid",
            f"{verdicts.count(True)} of {len(verdicts)} gradings of the same files passed",
            _NOBODY,
            "Fix seeds, clocks and orders in the tests until the same files get the same verdict.",
        )  # fmt: skip
    limit = target.task.verifier_timeout_seconds
    if 3 * baseline.gold_seconds > limit:
        yield Finding(
            "baseline/tight-timeout", Kind.REJECTS, Strength.LEAD,
            "the verifier's time limit is tight for the reference",
            f"the reference takes {baseline.gold_seconds:.1f} s of {limit:g} s",
            _NOBODY, "Raise [verifier] timeout_sec to three times the reference's time.",
        )  # fmt: skip
    if target.grades_text and not failed and not target.form.promised:
        yield Finding(
            "baseline/unpromised-format", Kind.HYGIENE, Strength.LEAD,
            "the prompt does not say in which form it wants the answer",
            f"only {target.form.name} is paid, and the prompt does not mention it",
            _NOBODY, "State the form in the prompt.",
        )  # fmt: skip


def _nothing_findings(baseline: Baseline) -> Iterator[Finding]:
    threshold = baseline.target.threshold
    use = "It hands in at once."
    paid = [outcome for outcome in baseline.nothing if _reward(outcome) >= threshold]
    if paid:
        yield Finding(
            "baseline/nothing", Kind.CHEAT, Strength.PROVED, "doing nothing is paid in full",
            f"{len(paid)} of {len(baseline.nothing)}: the untouched task earns "
            f"{_reward(paid[0]):g}",
            use, "Add a check that fails until the work is done.",
            earned=_reward(paid[0]), deserved=0.0,
        )  # fmt: skip
        return
    unscored = [outcome for outcome in baseline.nothing if isinstance(outcome, Unscored)]
    if unscored:
        yield Finding(
            "baseline/nothing-unscored", Kind.WEAK, Strength.PROVED,
            "the verifier fails on the untouched task instead of scoring it 0",
            _described(unscored[0]),
            "A failing episode leaves its group instead of counting as a failure.",
            "Write a reward of 0 wherever the work is missing or wrong.",
        )  # fmt: skip
    partly = [o for o in baseline.nothing if 0 < _reward(o) < threshold]
    if partly and not baseline.target.grades_text:
        yield Finding(
            "baseline/nothing-partly", Kind.WEAK, Strength.OBSERVATION,
            "doing nothing earns part of the reward",
            f"the untouched task earns {_reward(partly[0]):g}",
            use, "Pay only for what the untouched task does not do; keep the rest as a condition.",
            earned=_reward(partly[0]), deserved=_reward(partly[0]),
        )  # fmt: skip


def _with_format(target: Target, arena: Arena) -> Target:
    """The target with the first format in which most stored answers are paid."""
    examples = [task for task in target.examples if gold_text(task) is not None][:3]
    best, best_reward = target, -1.0
    if not examples:
        return target
    for form in candidate_formats(examples[0].instruction):
        dressed = replace(target, form=form)
        rewards = [
            _reward(_graded(arena, submission))
            for task in examples
            if (submission := gold_submission(dressed, task)) is not None
        ]
        if sum(rewards) > best_reward:
            best, best_reward = dressed, sum(rewards)
        if min(rewards) >= target.threshold:
            break
    return best


def _nothing(target: Target, task: Task) -> Submission:
    """What an agent that does nothing leaves."""
    if target.grades_text:
        return answer(task, "", "nothing", Deserves.NOTHING)
    return Submission("nothing", Deserves.NOTHING, task, target.start)


def _twice_if_late(grade: Callable[[], Outcome]) -> tuple[Outcome, float]:
    """The outcome of honest work, and the seconds that it took. Graded a second time where it ran
    out of time, and then that one is meant: the machine may have been busy."""
    for _ in range(2):
        began = time.monotonic()
        outcome = grade()
        seconds = time.monotonic() - began
        if not out_of_time(outcome):
            break
    return outcome, seconds


def _graded(arena: Arena, submission: Submission) -> Outcome:
    outcome = arena.grade(submission)
    assert outcome is not None  # none of these needs a shared sandbox
    return _unless_ours(outcome)


def _unless_ours(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Unscored) and is_ours(outcome):
        raise SandboxError(f"honest work could not be graded: {outcome.detail}")
    return outcome


def _reward(outcome: Outcome) -> float:
    return outcome.reward if isinstance(outcome, Scored) else 0.0


def _described(outcome: Outcome) -> str:
    if isinstance(outcome, Unscored):
        return f"{outcome.cause.value}: {outcome.detail}"
    failed = [f"{check.name}: {check.detail}" for check in outcome.checks if not check.passed]
    return "; ".join([f"reward {outcome.reward:g}", *failed[:2]])
