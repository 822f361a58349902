"""What a diagnosis is made of, each part of the record read once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property

from steelyard.episodes import StopReason
from steelyard.monitor.causes import Certainty, Decision, Elsewhere, Why, decide
from steelyard.monitor.experiment_log import read_experiments
from steelyard.monitor.symptoms import Attempt, of_record
from steelyard.store import EpisodeRecord, GroupRecord, RunReader

_HANDED_IN_OR_CUT = (StopReason.SUBMITTED, StopReason.FAILED, StopReason.TRUNCATED)


class RunEvidence:
    """The groups and episodes of a run, or of one task of it."""

    def __init__(self, reader: RunReader, task: str | None = None) -> None:
        self.reader = reader
        self.config = reader.config()
        self.groups: dict[str, GroupRecord] = {g.id: g for g in reader.groups(task=task)}
        self.by_task: dict[str, list[EpisodeRecord]] = defaultdict(list)
        self.by_group: dict[str, list[EpisodeRecord]] = defaultdict(list)
        for episode in reader.episode_records(task=task):
            self.by_task[episode.task].append(episode)
            if episode.purpose == "train":
                self.by_group[episode.group].append(episode)
        self.experiments = read_experiments(reader.directory)

    @cached_property
    def _calls(self) -> Mapping[str, tuple[int, int]]:
        """Only of what a limit ended: elsewhere no verdict depends on it."""
        every = [e for episodes in self.by_task.values() for e in episodes]
        return self.reader.call_counts(
            [e.id for e in every if e.stop_reason not in _HANDED_IN_OR_CUT]
        )

    @cached_property
    def _counts(self) -> Mapping[str, tuple[int, int]]:
        return {task: _counts(episodes) for task, episodes in self.by_task.items()}

    def attempts(self, episodes: Sequence[EpisodeRecord]) -> list[Attempt]:
        return [of_record(e, self._calls.get(e.id, (0, 0))) for e in episodes]

    def elsewhere(self, task: str, here: Sequence[EpisodeRecord]) -> Elsewhere:
        """The scored attempts at a task apart from `here`, all of which are attempts at it."""
        (paid, scored), (paid_here, scored_here) = self._counts[task], _counts(here)
        return Elsewhere(paid - paid_here, scored - scored_here)

    def decided(self, task: str, groups: Sequence[GroupRecord]) -> Decision:
        """Why these groups of a task carry no gradient, taken together; without any group, why
        its other attempts did not succeed."""
        episodes = [e for g in groups for e in self.by_group[g.id]] or self.by_task[task]
        programs = [(g.distinct_files, len(g.rewards)) for g in groups]
        decision = decide(self.attempts(episodes), programs, self.elsewhere(task, episodes))
        return self._with_experiment(task, decision)

    def _with_experiment(self, task: str, decision: Decision) -> Decision:
        """An experiment's verdict in place of one that the record only suggests."""
        made = self.experiments.get(task)
        if made is None or decision.certainty is Certainty.SHOWN:
            return decision
        said = (f"by experiment on {made['time']}: {made['why'][0]}", *decision.why)
        return Decision(Why(made["verdict"]), Certainty(made["certainty"]), said, decision.episodes)


def _counts(episodes: Sequence[EpisodeRecord]) -> tuple[int, int]:
    """(paid in full, scored)."""
    raw = [e.raw for e in episodes if e.raw is not None]
    return sum(r >= 1.0 for r in raw), len(raw)
