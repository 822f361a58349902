"""Why a kind of task is never solved, from the record alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from steelyard.monitor.causes import hardly_explores
from steelyard.monitor.scores import Json
from steelyard.monitor.symptoms import Symptom, of_record
from steelyard.store import EpisodeRecord, EvaluationRecord, GroupRecord, RunReader


def kinds_at_zero(reader: RunReader, record: EvaluationRecord) -> dict[str, Json]:
    """Each kind with no success in an evaluation, with what its episodes and groups show.

    Shares are of the evaluation's scored and unscored episodes of that kind together.
    """
    tallies = reader.tallies(record.name, record.split, "kind")
    at_zero = [kind for kind, tally in tallies.items() if tally.n > 0 and tally.solved == 0]
    if not at_zero:
        return {}
    episodes = [
        e for e in reader.episode_records(evaluation=record.name) if e.split == record.split
    ]
    failed = [e.id for e in episodes if e.kind in at_zero]
    unread = {name: n for name, (_, n) in reader.call_counts(failed).items()}
    return {
        kind: _diagnose([e for e in episodes if e.kind == kind], reader.groups(kind=kind), unread)
        for kind in at_zero
    }


def _diagnose(
    episodes: Sequence[EpisodeRecord], groups: list[GroupRecord], unread: Mapping[str, int]
) -> Json:
    seen = Counter(of_record(e, unread.get(e.id, 0)).symptom for e in episodes)
    total = len(episodes)
    distinct = [g.distinct_files for g in groups]
    found: Json = {
        "episodes": total,
        "never_submitted": (seen[Symptom.NOT_HANDED_IN] + seen[Symptom.UNPARSED]) / total,
        "repeated_itself": seen[Symptom.REPEATS_ITSELF] / total,
        "truncated": seen[Symptom.TRUNCATED] / total,
        "unscored": seen[Symptom.UNSCORED] / total,
        "submitted_wrong": (seen[Symptom.WRONG] + seen[Symptom.SOLVED]) / total,
        "verifier_alone_refuses": seen[Symptom.REJECTED] / total,
        "training_groups": len(groups),
        "training_groups_all_fail": sum(g.verdict == "all_fail" for g in groups),
        "training_groups_mixed": sum(g.verdict == "mixed" for g in groups),
        "distinct_programs_per_group": sum(distinct) / len(distinct) if distinct else None,
        "episodes_per_group": sum(len(g.rewards) for g in groups) / len(groups) if groups else None,
    }
    return {"cause": _sentence(found), **found}


def _sentence(found: Json) -> str:
    symptoms = {
        "never submitted": found["never_submitted"],
        "made one call again and again": found["repeated_itself"],
        "cut before a stop token": found["truncated"],
        "submitted a wrong program": found["submitted_wrong"],
        "refused by the verifier alone": found["verifier_alone_refuses"],
        "could not be graded": found["unscored"],
    }
    symptom = max(symptoms, key=lambda s: symptoms[s])
    return f"{symptom} in {symptoms[symptom]:.0%} of {found['episodes']} episodes; " + _training(
        found
    )


def _training(found: Json) -> str:
    groups, failed = found["training_groups"], found["training_groups_all_fail"]
    if groups == 0:
        return "no training task is of this kind, so nothing was learned from it directly"
    if found["training_groups_mixed"]:
        return (
            f"{found['training_groups_mixed']} of {groups} training groups were mixed: it was"
            " sometimes solved in training, and that does not carry over"
        )
    distinct, size = found["distinct_programs_per_group"], found["episodes_per_group"]
    variety = f"{distinct:.1f} distinct final programs in {size:.0f} episodes"
    if failed < groups:
        return f"{failed} of {groups} training groups all-fail, none mixed ({variety})"
    why = (
        "the policy hardly explores"
        if hardly_explores(distinct, size)
        else "it explores, and finds nothing"
    )
    return f"all {groups} training groups all-fail, so no gradient: {variety}, {why}"
