"""Turns a finished workspace or answer into an Outcome."""

from steelyard.grading.grader import Grader
from steelyard.grading.settings import GradingSettings
from steelyard.grading.shaping import ShapingSettings

__all__ = ["Grader", "GradingSettings", "ShapingSettings"]
