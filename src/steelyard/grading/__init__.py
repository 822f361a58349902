"""Turns a finished workspace or answer into an Outcome."""

from steelyard.grading.grader import Grader
from steelyard.grading.settings import GradingSettings

__all__ = ["Grader", "GradingSettings"]
