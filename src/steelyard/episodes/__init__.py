"""What happened: trajectories, outcomes, episodes and groups."""

from steelyard.episodes.episode import (
    Episode,
    Group,
    GroupVerdict,
    OutcomeKind,
    StopReason,
    outcome_kind,
)
from steelyard.episodes.outcome import Cause, Check, Outcome, Scored, Unscored
from steelyard.episodes.trajectory import NO_VERSION, Segment, ToolCall, Trajectory, Turn

__all__ = [
    "NO_VERSION",
    "Cause",
    "Check",
    "Episode",
    "Group",
    "GroupVerdict",
    "Outcome",
    "OutcomeKind",
    "Scored",
    "Segment",
    "StopReason",
    "ToolCall",
    "Trajectory",
    "Turn",
    "Unscored",
    "outcome_kind",
]
