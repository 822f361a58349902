"""Turns a Task and an Engine into a Trajectory.

The public names are loaded when first used: an audit takes an agent's workspace without torch,
which the turn loop needs for its tokens.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "demonstration": ("demonstrate", "demonstration_texts"),
    "history": ("Pruned", "prune_repository", "prune_task", "repositories"),
    "loop": ("Attempt", "Policy", "answer_text", "attempt"),
    "settings": ("AgentSettings",),
    "workspace": ("Workspace",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
