"""Episodes as flat, ragged tensors: one row per sampled token, no padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steelyard.episodes import Episode, Segment, Trajectory
from steelyard.objective import Tokens


@dataclass(frozen=True, slots=True)
class Batch:
    """What the learner scores and trains on. T runs over every action token, in reading order.

    `token_ids` holds each segment's ids (int64). Per action token, all int64 unless said:
    `episode_T`, `segment_T`, `group_T`, `turn_T` number it over the whole batch; `position_T` is
    its place in its segment, so the logits that predict it are those at `position_T − 1`;
    `target_T` is its id; `behaviour_logp_T` (float32) and `version_T` are the sampler's.
    `episode_K` is the episode of each turn; an episode in which nothing was sampled has one turn
    without tokens, so that its reward has a place.
    """

    token_ids: tuple[NDArray[np.int64], ...]
    episode_T: Tensor
    segment_T: Tensor
    group_T: Tensor
    turn_T: Tensor
    position_T: Tensor
    target_T: Tensor
    behaviour_logp_T: Tensor
    version_T: Tensor
    episode_K: Tensor
    n_episodes: int

    def __len__(self) -> int:
        return len(self.target_T)

    @property
    def tokens(self) -> Tokens:
        """Whose token each is, as the objective wants it."""
        return Tokens(self.turn_T, self.segment_T, self.episode_T, self.group_T)

    def ends(self, wanted_E: Tensor) -> Batch:
        """One imagined token after the last of each wanted episode, where its value is read.

        Episodes without any token have no end.
        """
        is_last_T = torch.ones(len(self), dtype=torch.bool)
        is_last_T[:-1] = self.episode_T[1:] != self.episode_T[:-1]
        index_A = (is_last_T & wanted_E[self.episode_T]).nonzero()[:, 0]
        segment_A = self.segment_T[index_A]
        return dataclasses.replace(
            self,
            episode_T=self.episode_T[index_A],
            segment_T=segment_A,
            group_T=self.group_T[index_A],
            turn_T=self.turn_T[index_A],
            position_T=torch.tensor([len(self.token_ids[int(s)]) for s in segment_A]).long(),
            target_T=torch.zeros_like(index_A),
            behaviour_logp_T=torch.zeros(len(index_A)),
            version_T=self.version_T[index_A],
        )

    @classmethod
    def from_episodes(cls, episodes: Sequence[Episode]) -> Batch:
        """The batch of scored episodes; an Unscored one must have been left out before."""
        for episode in episodes:
            assert not episode.unscored, f"unscored episode {episode.id} reached the learner"
        return cls.from_trajectories(
            [e.trajectory for e in episodes], groups=[e.group for e in episodes]
        )

    @classmethod
    def from_trajectories(
        cls, trajectories: Sequence[Trajectory], groups: Sequence[Hashable] | None = None
    ) -> Batch:
        """The batch of trajectories without outcomes (demonstrations); each its own group
        unless `groups` names one per trajectory."""
        labels: Sequence[Hashable] = range(len(trajectories)) if groups is None else groups
        assert len(labels) == len(trajectories)
        group_of = {label: i for i, label in enumerate(dict.fromkeys(labels))}
        token_ids: list[NDArray[np.int64]] = []
        columns: list[NDArray[np.int64]] = []
        logps: list[NDArray[np.float32]] = []
        owners: list[int] = []
        for number, (trajectory, label) in enumerate(zip(trajectories, labels, strict=True)):
            turns, stop = _turns(trajectory, len(owners))
            owners += [number] * max(1, stop - len(owners))
            for segment, turn_L in zip(trajectory.segments, turns, strict=True):
                fields = segment.arrays()
                (position,) = np.nonzero(fields["action_mask"])
                # A first token has nothing before it that could have predicted it.
                assert position.size == 0 or position[0] > 0, "an action at position 0"
                ids = fields["token_ids"].astype(np.int64)
                constant = np.ones_like(position)
                columns.append(
                    np.stack(
                        [
                            constant * number,
                            constant * len(token_ids),
                            constant * group_of[label],
                            turn_L[position],
                            position,
                            ids[position],
                            fields["version"][position].astype(np.int64),
                        ]
                    )
                )
                logps.append(fields["behaviour_logp"][position])
                token_ids.append(ids)
        stacked = np.concatenate(columns, axis=1) if columns else np.zeros((7, 0), np.int64)
        episode, segment_index, group, turn, position, target, version = torch.from_numpy(stacked)
        return cls(
            token_ids=tuple(token_ids),
            episode_T=episode,
            segment_T=segment_index,
            group_T=group,
            turn_T=turn,
            position_T=position,
            target_T=target,
            behaviour_logp_T=torch.from_numpy(
                np.concatenate(logps) if logps else np.zeros(0, np.float32)
            ),
            version_T=version,
            episode_K=torch.tensor(owners, dtype=torch.int64),
            n_episodes=len(trajectories),
        )


def _turns(trajectory: Trajectory, first: int) -> tuple[list[NDArray[np.int64]], int]:
    """Per segment the turn of each token (−1 for context), and the first number after them.

    Without recorded turns each unbroken run of action tokens is one.
    """
    if not trajectory.turns:
        numbered = []
        for segment in trajectory.segments:
            turn_L = _runs(segment)
            turn_L[turn_L >= 0] += first
            first = max(first, int(turn_L.max(initial=-1)) + 1)
            numbered.append(turn_L)
        return numbered, first
    numbered = [np.full(len(s), -1, np.int64) for s in trajectory.segments]
    for offset, turn in enumerate(trajectory.turns):
        numbered[turn.segment][turn.action[0] : turn.action[1]] = first + offset
    for segment, turn_L in zip(trajectory.segments, numbered, strict=True):
        assert np.all(turn_L[np.asarray(segment.action_mask, np.bool_)] >= 0), (
            "an action token outside every turn"
        )
    return numbered, first + len(trajectory.turns)


def _runs(segment: Segment) -> NDArray[np.int64]:
    mask = np.asarray(segment.action_mask, np.bool_)
    starts = mask & ~np.concatenate([[False], mask[:-1]])
    return np.where(mask, np.cumsum(starts) - 1, -1).astype(np.int64)
