"""Decides which task comes next."""

from steelyard.curriculum.sampler import TaskOrder

__all__ = ["TaskOrder"]
