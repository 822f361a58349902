"""Decides which task comes next."""

from steelyard.curriculum.sampler import TaskOrder
from steelyard.curriculum.signal import Seen, SignalOrder, mixed_probability

__all__ = ["Seen", "SignalOrder", "TaskOrder", "mixed_probability"]
