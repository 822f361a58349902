"""Steelyard trains LLM agents from their own trajectories.

The public names are loaded when first used, so that importing the package needs no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.auditing import audit
    from steelyard.conductor import evaluate_model as evaluate
    from steelyard.conductor import train
    from steelyard.episodes import Episode, Outcome
    from steelyard.objective import ALGORITHMS, Algorithm
    from steelyard.tasks import Task

_HOMES = {
    "ALGORITHMS": ("objective", "ALGORITHMS"),
    "Algorithm": ("objective", "Algorithm"),
    "Episode": ("episodes", "Episode"),
    "Outcome": ("episodes", "Outcome"),
    "Task": ("tasks", "Task"),
    "audit": ("auditing", "audit"),
    "evaluate": ("conductor", "evaluate_model"),
    "train": ("conductor", "train"),
}

__all__ = ["ALGORITHMS", "Algorithm", "Episode", "Outcome", "Task", "audit", "evaluate", "train"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    room, attribute = _HOMES[name]
    return getattr(importlib.import_module(f"{__name__}.{room}"), attribute)
