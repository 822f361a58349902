"""What the experiments on a task say, taken together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard.episodes import Outcome, Scored, Unscored
from steelyard.monitor.causes import Certainty, Decision, Why, decide
from steelyard.monitor.statistics import wilson_interval
from steelyard.monitor.symptoms import Attempt, Symptom

_NAMED = 3


@dataclass(frozen=True, slots=True)
class Graded:
    """What a known workspace earns; `heldout` is None where the task has no held-out checks."""

    outcome: Outcome
    heldout: Outcome | None

    def as_json(self) -> dict[str, Any]:
        return {
            "verifier": said_of(self.outcome),
            "heldout": None if self.heldout is None else said_of(self.heldout),
        }


@dataclass(frozen=True, slots=True)
class Played:
    """Episodes of one policy; `distinct` counts their different final workspaces."""

    who: str
    model: str
    attempts: Sequence[Attempt]
    distinct: int

    @property
    def paid(self) -> int:
        return sum(a.accepted for a in self.attempts)

    @property
    def scored(self) -> int:
        return sum(a.raw is not None for a in self.attempts)

    def as_json(self) -> dict[str, Any]:
        low, high = wilson_interval(self.paid, self.scored) if self.scored else (None, None)
        return {
            "who": self.who,
            "model": self.model,
            "episodes": len(self.attempts),
            "scored": self.scored,
            "paid": self.paid,
            "low": low,
            "high": high,
            "heldout_accepts": sum(bool(a.heldout_accepts) for a in self.attempts),
            "distinct_programs": self.distinct,
            "symptoms": dict(Counter(a.symptom.value for a in self.attempts)),
        }


def judge(
    graded: Mapping[str, Graded], played: Sequence[Played], group_size: int
) -> Decision | None:
    """The verdict of what was graded, and of what was played if grading alone says nothing.

    None where nothing has been played and only playing can tell. `group_size` is that of the run.
    """
    decision = _of_untouched(graded["untouched"]) or _of_reference(graded.get("reference"))
    if decision is not None or not played:
        return decision
    return _of_play(played, graded, group_size)


def said_of(outcome: Outcome) -> str:
    """An outcome in words, with the checks that failed."""
    if isinstance(outcome, Unscored):
        return f"no reward: {outcome.cause.value}: {outcome.detail}"
    failed = [check.name for check in outcome.checks if not check.passed]
    more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
    return f"reward {outcome.raw:g}" + (
        f"; failed: {', '.join(failed[:_NAMED])}{more}" if failed else ""
    )


def _of_untouched(untouched: Graded) -> Decision | None:
    said = said_of(untouched.outcome)
    if isinstance(untouched.outcome, Unscored):
        return _shown(Why.ERROR, f"the verifier cannot grade the untouched files: {said}")
    if untouched.outcome.solved:
        return _shown(Why.ACCEPTS_WRONG_WORK, "the untouched files are paid the full reward")
    return None


def _of_reference(reference: Graded | None) -> Decision | None:
    if reference is None:
        return None
    said = said_of(reference.outcome)
    if isinstance(reference.outcome, Unscored):
        return _shown(Why.ERROR, f"the verifier cannot grade the reference solution: {said}")
    if reference.outcome.solved:
        return None
    first = f"the verifier refuses the reference solution: {said}"
    if reference.heldout is None:
        return _shown(Why.REJECTS_RIGHT_WORK, first)
    accepts = isinstance(reference.heldout, Scored) and reference.heldout.solved
    second = f"held-out checks {'accept' if accepts else 'do not accept'} it: " + said_of(
        reference.heldout
    )
    if not accepts:
        second += "; so the reference itself may be wrong: mend one or the other"
    return _shown(Why.REJECTS_RIGHT_WORK, first, second)


def _of_play(played: Sequence[Played], graded: Mapping[str, Graded], group_size: int) -> Decision:
    own, *others = played
    context = [
        "the verifier pays the reference solution in full"
        if "reference" in graded
        else "the task has no reference solution to grade"
    ]
    context += [_counted(p) for p in played]
    decision = decide(own.attempts, [(own.distinct, len(own.attempts))])
    ids = decision.episodes
    if decision.verdict is Why.HAS_GRADIENT:
        rate = own.paid / own.scored
        mixed = 1 - rate**group_size - (1 - rate) ** group_size
        first = (
            f"within present ability: {own.paid} of {own.scored} new samples were paid; a group of"
            f" {group_size} is mixed with probability {mixed:.0%}"
        )
        return Decision(Why.SELDOM_SOLVED, Certainty.SHOWN, (first, *context), ids)
    if decision.verdict in (Why.MASTERED, Why.ACCEPTS_WRONG_WORK, Why.ERROR, Why.TRUNCATED,
                            Why.UNPARSED, Why.REPEATS_ITSELF, Why.NOT_HANDED_IN):  # fmt: skip
        return Decision(decision.verdict, decision.certainty, (*decision.why, *context), ids)
    better = next((p for p in others if p.paid), None)
    if better is not None:
        first = f"{better.who} ({better.model}) solves it: {better.paid} of {better.scored}"
        return Decision(Why.BEYOND_ABILITY, Certainty.SHOWN, (first, *context), ids)
    refused = [a for p in played for a in p.attempts if a.symptom is Symptom.REJECTED]
    scored = sum(p.scored for p in played)
    if decision.verdict is Why.REJECTS_RIGHT_WORK or 2 * len(refused) > scored:
        first = f"held-out checks accept {len(refused)} attempts that the verifier refuses"
        return Decision(Why.REJECTS_RIGHT_WORK, Certainty.LIKELY, (first, *context), ids)
    if decision.verdict is Why.NO_EXPLORATION:
        return Decision(Why.NO_EXPLORATION, Certainty.SHOWN, (*decision.why, *context), ids)
    if "reference" in graded:
        high = wilson_interval(0, own.scored)[1]
        first = f"it can be solved, and 0 of {own.scored} samples do (at most {high:.0%})"
        return Decision(Why.BEYOND_ABILITY, Certainty.SHOWN, (first, *context), ids)
    first = "nobody solved it and no reference exists: it may be unsolvable as it is graded"
    return Decision(Why.UNDECIDED, Certainty.OPEN, (first, *context), ids)


def _counted(played: Played) -> str:
    symptoms = Counter(a.symptom.value.replace("_", " ") for a in played.attempts)
    ways = ", ".join(f"{n} {name}" for name, n in symptoms.most_common())
    return (
        f"{played.who}: {len(played.attempts)} episodes, {ways};"
        f" distinct final workspaces: {played.distinct}"
    )


def _shown(verdict: Why, *why: str) -> Decision:
    return Decision(verdict, Certainty.SHOWN, why, ())
