"""Turns a Task and an Engine into a Trajectory."""

from steelyard.agents.demonstration import demonstrate, demonstration_texts
from steelyard.agents.history import Pruned, prune_repository, prune_task, repositories
from steelyard.agents.loop import Attempt, Policy, answer_text, attempt
from steelyard.agents.settings import AgentSettings
from steelyard.agents.workspace import Workspace

__all__ = [
    "AgentSettings",
    "Attempt",
    "Policy",
    "Pruned",
    "Workspace",
    "answer_text",
    "attempt",
    "demonstrate",
    "demonstration_texts",
    "prune_repository",
    "prune_task",
    "repositories",
]
