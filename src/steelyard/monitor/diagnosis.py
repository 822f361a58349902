"""Why no gradient: of a group, of a task, of a whole run, from the record alone.

What the record cannot decide is called so, with the experiment that can; what an experiment has
decided counts more than what the record suggests.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from steelyard.monitor.advice import advice
from steelyard.monitor.causes import Certainty, Decision, Why
from steelyard.monitor.ceilings import ceilings
from steelyard.monitor.run_evidence import GroupFacts, RunEvidence
from steelyard.monitor.scanners import read_findings
from steelyard.monitor.scores import Json
from steelyard.store import RunReader

_WORST = 10
_WORTH_A_TRY = (Why.SELDOM_SOLVED, Why.NO_EXPLORATION)
"""Shown, and yet more samples or another policy may say more."""
_BENIGN = (Why.HAS_GRADIENT, Why.MASTERED)
_SAMPLES = 32


def diagnose(reader: RunReader, name: str | None = None) -> Json:
    """The diagnosis of a group, a task, or without `name` of the whole run.

    {verdict, certainty, why, next, episodes, experiment, ...}: `verdict` is one of `Why`,
    `certainty` says whether the record shows it, `experiment` is the command that decides what the
    record leaves open, or None.

    Raises: ValueError for a name that is neither a group nor a task of the run.
    """
    if name is None:
        return _run(RunEvidence(reader))
    if members := reader.episode_records(group=name, purpose="train"):
        record = RunEvidence(reader, members[0].task)
        return _group(record, record.groups[name])
    record = RunEvidence(reader, name)
    if name in record.tasks:
        return _task(record, name)
    raise ValueError(f"the run has no group or task {name!r}: the views groups and tasks list them")


def _group(record: RunEvidence, group: GroupFacts) -> Json:
    decision = record.decided(group.task, [group])
    return {
        "scope": "group",
        "id": group.id,
        "task": group.task,
        "kind": group.kind,
        "step": group.step,
        "groups": {group.verdict: 1},
        **_said(record, group.task, decision),
    }


def _task(record: RunEvidence, task: str) -> Json:
    """Of all groups of the task that carry no gradient, taken together; of its evaluations where
    it was never trained on."""
    groups = [g for g in record.groups.values() if g.task == task]
    idle = [g for g in groups if g.verdict != "mixed"]
    if groups and not idle:
        why = (f"all {len(groups)} of its groups are mixed",)
        decision = Decision(Why.HAS_GRADIENT, Certainty.SHOWN, why, ())
    else:
        decision = record.decided(task, idle)
    return {
        "scope": "task",
        "task": task,
        "kind": record.tasks[task].kind,
        "groups": dict(Counter(g.verdict for g in groups)),
        **_said(record, task, decision),
    }


def _said(record: RunEvidence, task: str, decision: Decision) -> Json:
    why = list(decision.why)
    if decision.verdict not in _BENIGN:
        why += _never_passed(record.reader, task)
    return {
        "verdict": decision.verdict.value,
        "certainty": decision.certainty.value,
        "why": why,
        "next": advice(decision.verdict, record.config),
        "episodes": list(decision.episodes),
        "experiment": _experiment(record, task, decision),
    }


def _never_passed(reader: RunReader, task: str) -> Iterator[str]:
    """The checks of the verifier that no attempt at the task ever passed."""
    tallies = reader.check_tallies(task).get("training", {})
    never = [name for name, (passed, _) in tallies.items() if passed == 0]
    if never and len(never) < len(tallies):
        others = len(tallies) - len(never)
        yield f"no attempt ever passed {', '.join(never)}; each of the other {others} checks is met"


def _experiment(record: RunEvidence, task: str, decision: Decision) -> str | None:
    if decision.certainty is Certainty.SHOWN and decision.verdict not in _WORTH_A_TRY:
        return None
    return f"steelyard diagnose {record.reader.directory.path} {task} --samples {_SAMPLES}"


def _run(record: RunEvidence) -> Json:
    """Its verdict is the commonest cause; `next` also says what to do about the commonest one
    that can be mended."""
    verdicts = Counter(g.verdict for g in record.groups.values())
    decided = {
        g.id: record.decided(g.task, [g]) for g in record.groups.values() if g.verdict != "mixed"
    }
    by_why: dict[Why, list[str]] = defaultdict(list)
    for group, decision in decided.items():
        by_why[decision.verdict].append(group)
    causes = sorted(by_why, key=lambda why: -len(by_why[why]))
    bad = [why for why in causes if why not in _BENIGN]
    verdict = causes[0] if causes else Why.HAS_GRADIENT
    examples = by_why.get(verdict, [])[:3]
    return {
        "scope": "run",
        "verdict": verdict.value,
        "certainty": _weakest(decided[g] for g in by_why.get(verdict, [])).value,
        "why": list(_run_sentences(record, verdicts, by_why)),
        "next": [
            step
            for why in dict.fromkeys([verdict, *bad[:1]])
            for step in advice(why, record.config)
        ],
        "episodes": [e for g in examples for e in decided[g].episodes[:1]],
        "groups": dict(verdicts),
        "causes": [_cause(record, why, by_why[why], decided) for why in causes],
        "worst": _worst(record, decided),
        "ceilings": ceilings(record),
        "findings": _findings(record.reader),
        "experiments": list(record.experiments.values()),
    }


def _findings(reader: RunReader) -> Json:
    findings, progress = read_findings(reader)
    severities = Counter(finding["severity"] for finding in findings)
    return {"scanned": progress.scanned, "by_severity": dict(severities)}


def _run_sentences(
    record: RunEvidence, verdicts: Mapping[str, int], by_why: Mapping[Why, Sequence[str]]
) -> Iterator[str]:
    total, mixed = sum(verdicts.values()), verdicts.get("mixed", 0)
    if not total:
        yield "no training group is recorded yet"
        return
    yield f"{mixed} of {total} groups carried a gradient"
    for why, groups in sorted(by_why.items(), key=lambda item: -len(item[1])):
        tasks = {record.groups[g].task for g in groups}
        named = f"{_counted(len(groups), 'group')} of {_counted(len(tasks), 'task')}"
        yield f"{why.value.replace('_', ' ')}: {named}"


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _weakest(decisions: Iterator[Decision]) -> Certainty:
    """How far to believe a verdict on many: as far as the least certain of them."""
    order = list(Certainty)
    return max((d.certainty for d in decisions), key=order.index, default=Certainty.SHOWN)


def _cause(
    record: RunEvidence, why: Why, groups: Sequence[str], decided: Mapping[str, Decision]
) -> Json:
    example = decided[groups[0]]
    return {
        "cause": why.value,
        "groups": len(groups),
        "tasks": len({record.groups[g].task for g in groups}),
        "example": groups[0],
        "why": list(example.why),
    }


def _worst(record: RunEvidence, decided: Mapping[str, Decision]) -> list[Json]:
    """The tasks with most groups wasted on something that can be mended."""
    wasted: dict[str, list[str]] = defaultdict(list)
    for group, decision in decided.items():
        if decision.verdict not in _BENIGN:
            wasted[record.groups[group].task].append(group)
    worst = sorted(wasted, key=lambda task: (-len(wasted[task]), task))[:_WORST]
    return [{"wasted": len(wasted[task]), **_task(record, task)} for task in worst]
