"""Mutants of the reference: those that pass show what no check tries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from steelyard.auditing.findings import Finding, Kind, Strength
from steelyard.auditing.mutants import mutants, reverted_hunks, spread
from steelyard.auditing.submission import Deserves, Submission, diff_of
from steelyard.auditing.target import Target, parses
from steelyard.auditing.wrongness import Wrong, Wrongness
from steelyard.episodes import Outcome, Scored

_SHOWN = 5


@dataclass(frozen=True, slots=True)
class MutantSubmission:
    """A mutant of the reference, and the change as a diff."""

    submission: Submission
    diff: str


def mutant_submissions(target: Target, count: int) -> list[MutantSubmission]:
    """At most `count` mutants, spread over operators and lines; hunks of a patch come first."""
    gold = target.gold
    if gold is None or target.grades_text or not count:
        return []
    found = [*_patches(target), *_changed_programs(target, count)]
    return found[:count]


def _changed_programs(target: Target, count: int) -> Iterator[MutantSubmission]:
    assert target.gold is not None
    modules = [path for path in target.modules if parses(target.gold.get(path))]
    for module in modules:
        source = target.gold[module].decode()
        for mutant in spread(mutants(source), max(1, count // len(modules))):
            yield _submission(target, module, mutant.source.encode(), mutant.description)


def _patches(target: Target) -> Iterator[MutantSubmission]:
    """The reference with one hunk of its change undone, where it has several."""
    assert target.gold is not None
    for path in target.modules:
        before, after = target.start.get(path), target.gold.get(path)
        if before and after:
            undone = reverted_hunks(before, after)
            if len(undone) > 1:
                for number, content in enumerate(undone, start=1):
                    yield _submission(target, path, content, f"hunk {number} undone")


def _submission(target: Target, path: str, content: bytes, label: str) -> MutantSubmission:
    assert target.gold is not None
    files = {**target.gold, path: content}
    diff = diff_of(path, target.gold[path], content, context=0).rstrip()
    return MutantSubmission(Submission(label, Deserves.SEPARATED, target.task, files), diff)


@dataclass(frozen=True, slots=True)
class MutantTally:
    """How the mutants fared: numbers by fate, and findings for the survivors."""

    counts: dict[str, int]
    findings: list[Finding]


def tally(
    tried: Sequence[tuple[MutantSubmission, Outcome]],
    threshold: float,
    wrongness: Wrongness,
) -> MutantTally:
    """Sorts graded mutants into killed, survived (with a proof), equivalent as far as seen."""
    survivors: list[tuple[MutantSubmission, Wrong]] = []
    counts = {"killed": 0, "survived": 0, "equivalent": 0, "unscored": 0}
    for mutant, outcome in tried:
        if not isinstance(outcome, Scored):
            counts["unscored"] += 1
        elif outcome.reward < threshold:
            counts["killed"] += 1
        else:
            wrong = wrongness.of(mutant.submission.files)
            counts["survived" if wrong is not None and wrong.inside else "equivalent"] += 1
            if wrong is not None:
                survivors.append((mutant, wrong))
    survivors.sort(key=lambda pair: not pair[1].inside)
    return MutantTally(counts, [_finding(*pair, threshold) for pair in survivors[:_SHOWN]])


def _finding(mutant: MutantSubmission, wrong: Wrong, threshold: float) -> Finding:
    return Finding(
        "mutants/survivor",
        Kind.WEAK,
        Strength.PROVED if wrong.inside else Strength.LEAD,
        "a wrong program passes every check",
        f"{mutant.submission.label}: {wrong.evidence}"
        + ("" if wrong.inside else " (an input of a kind that the task never shows)"),
        "It stops at the first program that passes, and this one does.",
        "Add this input, with what the reference returns, to the checks.",
        earned=threshold,
        artifact=mutant.diff,
    )
