"""Makes findings of judgements: one for each probe or cause, the strongest speaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from steelyard.auditing.baseline import Baseline
from steelyard.auditing.findings import Finding, Kind, Strength
from steelyard.auditing.judging import Judgement
from steelyard.auditing.submission import Probe, Submission, shown
from steelyard.auditing.target import Target
from steelyard.episodes import Unscored

ORDER = (Strength.PROVED, Strength.LEAD, Strength.OBSERVATION)
DODGES = "dodges"
"""Before the name of a probe that made a verifier fail."""
_SHOWN = 400
"""Characters of evidence: what a program printed can be long."""


def probe_findings(
    judgements: Iterable[tuple[Probe, Submission, Judgement]], target: Target
) -> list[Finding]:
    """One finding per probe and kind: the strongest judgement speaks, the others are counted.

    A reward function that fails in one way under many probes is one finding as well.
    """
    grouped: dict[tuple[str, Kind], list[tuple[Probe, Submission, Judgement]]] = defaultdict(list)
    tries: dict[str, int] = defaultdict(int)
    for probe, submission, judgement in judgements:
        tries[probe.name] += 1
        if judgement.strength is not None:
            key = judgement.cause or probe.name
            grouped[key, judgement.kind].append((probe, submission, judgement))
    return [
        _finding(group, sum(tries[name] for name in {probe.name for probe, _, _ in group}), target)
        for group in grouped.values()
    ]


def _finding(
    group: Sequence[tuple[Probe, Submission, Judgement]], tries: int, target: Target
) -> Finding:
    def rank(entry: tuple[Probe, Submission, Judgement]) -> tuple[int, float]:
        judgement = entry[2]
        assert judgement.strength is not None
        return ORDER.index(judgement.strength), -(judgement.trial.earned or 0.0)

    probe, submission, judgement = min(group, key=rank)
    assert judgement.strength is not None
    trial = judgement.trial
    earned = "no reward" if trial.earned is None else f"{trial.earned:g}"
    evidence = f"{submission.label}: earned {earned}, and {judgement.evidence}"
    evidence = evidence if len(evidence) < _SHOWN else f"{evidence[:_SHOWN]}…"
    if len(group) > 1 or tries > 1:
        evidence += f" ({len(group)} of {tries} tries{_also(group, probe)})"
    return Finding(
        probe.name, judgement.kind, judgement.strength, judgement.title or probe.title, evidence,
        probe.use, judgement.fix or probe.fix, trial.earned, trial.deserved,
        shown(submission, target.start),
    )  # fmt: skip


def _also(group: Sequence[tuple[Probe, Submission, Judgement]], probe: Probe) -> str:
    names = dict.fromkeys(other.name for other, _, _ in group)
    names.pop(probe.name)
    return f", also {', '.join(names)}" if names else ""


def dodges(
    judgements: Sequence[tuple[Probe, Submission, Judgement]], baseline: Baseline
) -> list[Finding]:
    """Submissions that made the verifier fail where honest work is scored."""
    if isinstance(baseline.base, Unscored):
        return []
    dodged = [judgement.trial for _, _, judgement in judgements if judgement.dodges]
    if not dodged:
        return []
    first = dodged[0]
    return [
        Finding(
            f"{DODGES}/{first.probe}", Kind.WEAK, Strength.LEAD,
            "a submission can make the verifier fail, and so avoid its 0",
            f"{len(dodged)} of {len(judgements)} tries, among them {first.label} ({first.detail})",
            "A failing episode leaves its group instead of counting as a failure.",
            "Write a reward of 0 before the graded code runs, and end it in a time of its own.",
        )
    ]  # fmt: skip
