"""Turns a Task and an Engine into a Trajectory."""

from steelyard.agents.demonstration import demonstrate, demonstration_texts
from steelyard.agents.loop import Attempt, Policy, answer_text, attempt
from steelyard.agents.settings import AgentSettings

__all__ = [
    "AgentSettings",
    "Attempt",
    "Policy",
    "answer_text",
    "attempt",
    "demonstrate",
    "demonstration_texts",
]
