"""Why attempts that were compared with each other carry no gradient."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from steelyard.monitor.statistics import variety, wilson_interval
from steelyard.monitor.symptoms import Attempt, Symptom

Seen: TypeAlias = tuple[Attempt, Symptom]

_EXAMPLES = 3
_HARDLY = 0.25


class Why(StrEnum):
    """The verdict on a group, a task or an experiment."""

    HAS_GRADIENT = "has_gradient"
    MASTERED = "mastered"
    """All pass, and held-out checks do not object."""
    ACCEPTS_WRONG_WORK = "verifier_accepts_wrong_work"
    """All pass, and held-out checks refuse half of it or more."""
    REJECTS_RIGHT_WORK = "verifier_rejects_right_work"
    ERROR = "sandbox_or_verifier_error"
    TRUNCATED = "truncated"
    UNPARSED = "unparsed"
    REPEATS_ITSELF = "repeats_itself"
    NOT_HANDED_IN = "not_handed_in"
    NO_EXPLORATION = "no_exploration"
    SELDOM_SOLVED = "seldom_solved"
    """Within ability: other attempts at the task were paid, these were unlucky or early."""
    BEYOND_ABILITY = "beyond_present_ability"
    UNDECIDED = "undecided"


class Certainty(StrEnum):
    """How far the evidence carries a verdict."""

    SHOWN = "shown"
    LIKELY = "likely"
    OPEN = "open"
    """The record cannot decide; an experiment can."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict, its evidence in sentences, and episodes that show it."""

    verdict: Why
    certainty: Certainty
    why: tuple[str, ...]
    episodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The other attempts at the same task: how many of the scored ones were paid in full."""

    paid: int = 0
    scored: int = 0


def decide(
    attempts: Sequence[Attempt],
    programs: Sequence[tuple[int, int]],
    elsewhere: Elsewhere = Elsewhere(),
) -> Decision:
    """Why `attempts`, one group or several of one task, carry no gradient.

    `programs` holds (distinct final workspaces, episodes) of each group. Judged by raw rewards.
    """
    seen = [(attempt, attempt.symptom) for attempt in attempts]
    scored = [(a, symptom) for a, symptom in seen if symptom is not Symptom.UNSCORED]
    paid = [a for a, symptom in scored if symptom is Symptom.SOLVED]
    if len(scored) < 2 or 2 * len(scored) <= len(seen):
        return _errors([a for a, symptom in seen if symptom is Symptom.UNSCORED], len(seen))
    if len(paid) == len(scored):
        return _all_paid(paid)
    if paid:
        why = f"{len(paid)} of {len(scored)} scored attempts were paid in full"
        return Decision(Why.HAS_GRADIENT, Certainty.SHOWN, (why,), _ids(paid))
    return _all_failed(scored, programs, elsewhere)


def _errors(lost: Sequence[Attempt], n: int) -> Decision:
    causes = Counter(a.cause for a in lost)
    named = ", ".join(f"{k} {cause}" for cause, k in causes.most_common())
    why = [f"{len(lost)} of {n} attempts have no reward: {named or 'none'}"]
    detail = next((a.cause_detail for a in lost if a.cause_detail), "")
    if detail:
        why.append(f"the first says: {detail}")
    return Decision(Why.ERROR, Certainty.SHOWN, tuple(why), _ids(lost))


def _all_paid(paid: Sequence[Attempt]) -> Decision:
    judged = [a for a in paid if a.heldout_accepts is not None]
    refused = [a for a in judged if not a.heldout_accepts]
    why = f"all {len(paid)} scored attempts were paid in full"
    if judged and 2 * len(refused) >= len(judged):
        more = f"held-out checks refuse {len(refused)} of {len(judged)} of them"
        return Decision(Why.ACCEPTS_WRONG_WORK, Certainty.LIKELY, (why, more), _ids(refused))
    if not judged:
        more = "no held-out checks say whether the work is right"
        return Decision(Why.MASTERED, Certainty.LIKELY, (why, more), _ids(paid))
    more = f"held-out checks accept {len(judged) - len(refused)} of {len(judged)} of them"
    return Decision(Why.MASTERED, Certainty.SHOWN, (why, more), _ids(paid))


def _all_failed(
    scored: Sequence[Seen], programs: Sequence[tuple[int, int]], elsewhere: Elsewhere
) -> Decision:
    submitted = (Symptom.WRONG, Symptom.REJECTED)
    ways = Counter(Symptom.WRONG if symptom in submitted else symptom for _, symptom in scored)
    way, n = ways.most_common(1)[0]
    if way is Symptom.WRONG:
        wrong = [(a, symptom) for a, symptom in scored if symptom in submitted]
        return _all_wrong(wrong, programs, elsewhere)
    shown = [a for a, symptom in scored if symptom is way]
    verdict, what = {
        Symptom.TRUNCATED: (Why.TRUNCATED, "were cut in the middle of a turn"),
        Symptom.UNPARSED: (Why.UNPARSED, "made calls that could not be read, and never handed in"),
        Symptom.REPEATS_ITSELF: (Why.REPEATS_ITSELF, "made one call again and again"),
        Symptom.NOT_HANDED_IN: (Why.NOT_HANDED_IN, "never handed in before a limit ended them"),
    }[way]
    why = [f"{n} of {len(scored)} scored attempts {what}"]
    if way is Symptom.NOT_HANDED_IN:
        limits = Counter(a.stop_reason.value for a in shown)
        why.append("ended by: " + ", ".join(f"{name} {k}" for name, k in limits.most_common()))
    if way is Symptom.REPEATS_ITSELF:
        calls, repeated = sum(a.calls for a in shown), sum(a.repeated for a in shown)
        why.append(f"{repeated} of their {calls} calls are the call before them again")
    if way is Symptom.UNPARSED:
        calls, unread = sum(a.calls for a in shown), sum(a.unread for a in shown)
        why.append(f"{unread} of their {calls} calls are not one JSON object with a known tool")
    return Decision(verdict, Certainty.SHOWN, tuple(why), _ids(shown))


def hardly_explores(distinct: float, episodes: float, groups: int = 1) -> bool:
    """`variety` ≤ 0.25: the episodes of a group are one sample. False where it is unknown."""
    share = variety(distinct, episodes, groups)
    return share is not None and share <= _HARDLY


def _all_wrong(
    seen: Sequence[Seen], programs: Sequence[tuple[int, int]], elsewhere: Elsewhere
) -> Decision:
    wrong = [a for a, _ in seen]
    rejected = [a for a, symptom in seen if symptom is Symptom.REJECTED]
    judged = [a for a in wrong if a.heldout is not None]
    why = [f"{len(wrong)} attempts were handed in and refused by the verifier"]
    if judged:
        why.append(f"held-out checks accept {len(rejected)} of the {len(judged)} that they judged")
    distinct, size = (sum(column) for column in zip(*programs, strict=True)) if programs else (0, 0)
    if size:
        why.append(f"distinct final workspaces: {distinct} in {size} episodes")
    if judged and 2 * len(rejected) >= len(judged) and not elsewhere.paid:
        why.append(f"the verifier paid none of {elsewhere.scored} other attempts at the task")
        return Decision(Why.REJECTS_RIGHT_WORK, Certainty.LIKELY, tuple(why), _ids(rejected))
    if hardly_explores(distinct, size, max(1, len(programs))):
        return Decision(Why.NO_EXPLORATION, Certainty.SHOWN, tuple(why), _ids(wrong))
    if elsewhere.paid:
        low, high = wilson_interval(elsewhere.paid, elsewhere.scored)
        why.append(
            f"{elsewhere.paid} of {elsewhere.scored} other attempts at the task were paid"
            f" ({low:.0%} to {high:.0%})"
        )
        return Decision(Why.SELDOM_SOLVED, Certainty.SHOWN, tuple(why), _ids(wrong))
    if judged:
        return Decision(Why.BEYOND_ABILITY, Certainty.LIKELY, tuple(why), _ids(wrong))
    why.append("without held-out checks the record cannot tell a hard task from a strict verifier")
    return Decision(Why.UNDECIDED, Certainty.OPEN, tuple(why), _ids(wrong))


def _ids(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    return tuple(a.id for a in attempts[:_EXAMPLES])
