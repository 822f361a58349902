from __future__ import annotations

import pytest

from steelyard.episodes import (
    Cause,
    Episode,
    Scored,
    Segment,
    StopReason,
    Trajectory,
    Turn,
    Unscored,
)
from steelyard.learner.batch import Batch


def _episode(name: str, group: str, outcome, turns: bool = True) -> Episode:
    first = Segment()
    first.append_context([1, 2, 3])
    first.append_action([4, 5], [-0.1, -0.2], [0, 0])
    first.append_context([6])
    first.append_action([7], [-0.3], [1])
    second = Segment(parent=0, fork_position=3)
    second.append_context([1, 2, 3, 9])
    second.append_action([8, 8], [-0.4, -0.5], [1, 2])
    recorded = [
        Turn(0, (3, 5), (5, 6), ""),
        Turn(0, (6, 7), (7, 7), ""),
        Turn(1, (4, 6), (6, 6), ""),
    ]
    trajectory = Trajectory([first, second], recorded if turns else [])
    return Episode(name, "task", group, trajectory, outcome, StopReason.SUBMITTED)


@pytest.mark.parametrize("turns", [True, False])
def test_every_action_token_has_one_row_with_all_it_needs(turns: bool):
    batch = Batch.from_episodes(
        [
            _episode("a", "g", Scored(1.0), turns),
            _episode("b", "h", Scored(0.0), turns),
            _episode("c", "g", Scored(0.0), turns),
        ]
    )
    assert len(batch) == 15
    assert batch.target_T.tolist() == [4, 5, 7, 8, 8] * 3
    assert batch.position_T.tolist() == [3, 4, 6, 4, 5] * 3
    assert batch.episode_T.tolist() == [0] * 5 + [1] * 5 + [2] * 5
    assert batch.group_T.tolist() == [0] * 5 + [1] * 5 + [0] * 5
    assert batch.segment_T.tolist() == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 4, 5, 5]
    assert batch.turn_T.tolist() == [0, 0, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6, 7, 8, 8]
    assert batch.version_T.tolist() == [0, 0, 1, 1, 2] * 3
    assert batch.behaviour_logp_T[:5].tolist() == pytest.approx([-0.1, -0.2, -0.3, -0.4, -0.5])


def test_an_unscored_episode_never_enters():
    bad = _episode("lost", "g", Unscored(Cause.SANDBOX_FAILURE))
    with pytest.raises(AssertionError, match="unscored episode lost"):
        Batch.from_episodes([_episode("a", "g", Scored(1.0)), bad])


def test_an_action_that_nothing_predicts_is_refused():
    segment = Segment()
    segment.append_action([1], [-1.0], [0])
    with pytest.raises(AssertionError, match="position 0"):
        Batch.from_trajectories([Trajectory([segment])])


def test_no_episodes_make_an_empty_batch():
    assert len(Batch.from_episodes([])) == 0
