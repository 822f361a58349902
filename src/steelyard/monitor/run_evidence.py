"""What a diagnosis is made of: counts of every task, and the attempts that carry no gradient.

A run may hold 100,000 episodes, most of them in groups that need no diagnosis: SQLite counts them,
and only the others are read, by columns that the index of the listing has.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from steelyard.episodes import GroupVerdict, StopReason
from steelyard.monitor.causes import Certainty, Decision, Elsewhere, Why, decide
from steelyard.monitor.experiment_log import read_experiments
from steelyard.monitor.symptoms import Attempt
from steelyard.store import RunReader

_HANDED_IN_OR_CUT = (StopReason.SUBMITTED, StopReason.FAILED, StopReason.TRUNCATED)
_STOP_REASONS = {reason.value: reason for reason in StopReason}
_WITHOUT_SUCCESS = (GroupVerdict.ALL_FAIL, GroupVerdict.UNSCORED)


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """A task of the run; `attempts` counts the scored ones and those paid in full."""

    kind: str
    split: str
    attempts: Elsewhere


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """A training group, by its verdict."""

    id: str
    step: int
    task: str
    kind: str
    verdict: str


_LISTED = "episodes e INDEXED BY episodes_listing"
_IDLE = (
    f"{_LISTED} WHERE e.group_id NOT IN (SELECT id FROM groups WHERE verdict = ?1)",
    GroupVerdict.MIXED.value,
)


def _of_task(task: str) -> tuple[str, str]:
    """One task has an index of its own; a whole run is read from that of the listing."""
    return "episodes e WHERE e.task = ?1", task


class RunEvidence:
    """The tasks, groups and attempts of a run, or of one task of it.

    Of a whole run `by_group` leaves out the mixed groups.
    """

    def __init__(self, reader: RunReader, task: str | None = None) -> None:
        self.reader = reader
        self.config = reader.config()
        self.experiments = read_experiments(reader.directory)
        self.groups = self._groups(task)
        self.tasks = self._tasks(task)
        self.by_group: dict[str, list[Attempt]] = defaultdict(list)
        for group, attempt in self._attempts(*(_of_task(task) if task else _IDLE), "train"):
            self.by_group[group].append(attempt)
        self._programs = self._distinct_programs(task)

    def _groups(self, task: str | None) -> dict[str, GroupFacts]:
        rows = self.reader.query(
            "SELECT id, step, task, kind, verdict FROM groups WHERE ? IS NULL OR task = ?"
            " ORDER BY key",
            (task, task),
        )
        return {row[0]: GroupFacts(*row) for row in rows}

    def _tasks(self, task: str | None) -> dict[str, TaskFacts]:
        """In the order in which they were first tried."""
        source, values = (_of_task(task)[0], (task,)) if task else (_LISTED, ())
        rows = self.reader.query(
            # SQLite takes kind and split from the row that has the minimum.
            "SELECT e.task, e.kind, e.split, coalesce(sum(e.raw >= 1), 0), count(e.raw),"
            f" min(e.key) AS first FROM {source} GROUP BY e.task ORDER BY first",
            values,
        )
        return {
            task: TaskFacts(kind, split, Elsewhere(paid, scored))
            for task, kind, split, paid, scored, _ in rows
        }

    def _attempts(
        self, source: str, value: str, purpose: str | None = None
    ) -> list[tuple[str, Attempt]]:
        """(group, attempt) in the order of recording."""
        found = [
            (group, Attempt(name, _STOP_REASONS[stop], raw, cause, None, heldout, repeated=again))
            for name, group, stop, raw, cause, heldout, again in self.reader.query(
                "SELECT e.id, e.group_id, e.stop_reason, e.raw, e.cause, e.heldout_reward,"
                " e.n_repeated_calls"
                f" FROM {source} AND (?2 IS NULL OR e.purpose = ?2) ORDER BY e.key",
                (value, purpose),
            )
        ]
        # No verdict depends on the calls of what was handed in or cut.
        calls = self.reader.call_counts(
            [a.id for _, a in found if a.stop_reason not in _HANDED_IN_OR_CUT]
        )
        details = self._details([a.id for _, a in found if a.cause is not None])
        for i, (group, attempt) in enumerate(found):
            if attempt.id in calls or attempt.id in details:
                n, unread = calls.get(attempt.id, (0, 0))
                detail = details.get(attempt.id)
                found[i] = group, replace(attempt, cause_detail=detail, calls=n, unread=unread)
        return found

    def _details(self, ids: Sequence[str]) -> dict[str, str | None]:
        return dict(
            self.reader.query(
                "SELECT id, cause_detail FROM episodes"
                " WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps(ids),),
            )
        )

    def _distinct_programs(self, task: str | None) -> dict[str, int]:
        """Group → its different final workspaces; of a whole run where no success says more.

        Of one task the mixed groups count too: none of their rewards need be a full one.
        """
        chosen, values = "g.verdict IN (?, ?)", [v.value for v in _WITHOUT_SUCCESS]
        if task is not None:
            chosen, values = "g.task = ?", [task]
        return dict(
            self.reader.query(
                "SELECT g.id, count(DISTINCT e.files) FROM groups g"
                f" JOIN episodes e ON e.group_key = g.key WHERE {chosen} GROUP BY g.key",
                values,
            )
        )

    def attempts_at(self, task: str) -> list[Attempt]:
        """Every attempt at a task, of training and of evaluations."""
        return [attempt for _, attempt in self._attempts(*_of_task(task))]

    def elsewhere(self, task: str, here: Sequence[Attempt]) -> Elsewhere:
        """The scored attempts at a task apart from `here`, all of which are attempts at it."""
        every = self.tasks[task].attempts
        scored = [a for a in here if a.raw is not None]
        return Elsewhere(every.paid - sum(a.accepted for a in scored), every.scored - len(scored))

    def decided(self, task: str, groups: Sequence[GroupFacts]) -> Decision:
        """Why these groups of a task carry no gradient, taken together; without any group, why
        its other attempts did not succeed."""
        attempts = [a for g in groups for a in self.by_group[g.id]] or self.attempts_at(task)
        programs = [
            (self._programs[g.id], len(self.by_group[g.id]))
            for g in groups
            if g.id in self._programs
        ]
        decision = decide(attempts, programs, self.elsewhere(task, attempts))
        return self._with_experiment(task, decision)

    def _with_experiment(self, task: str, decision: Decision) -> Decision:
        """An experiment's verdict in place of one that the record only suggests."""
        made = self.experiments.get(task)
        if made is None or decision.certainty is Certainty.SHOWN:
            return decision
        said = (f"by experiment on {made['time']}: {made['why'][0]}", *decision.why)
        return Decision(Why(made["verdict"]), Certainty(made["certainty"]), said, decision.episodes)
