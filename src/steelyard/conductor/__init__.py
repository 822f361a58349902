"""Decides what runs when.

Names are loaded when first used, so that commands without a model need no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steelyard.conductor.estimating import Estimate, estimate
    from steelyard.conductor.experiments import diagnose_task
    from steelyard.conductor.export import export_checkpoint
    from steelyard.conductor.playing import play_episode
    from steelyard.conductor.replaying import Replay, episode_shares, replay
    from steelyard.conductor.settings import RunSettings, read_run_file
    from steelyard.conductor.standalone import EvaluationPlan, evaluate_model
    from steelyard.conductor.training import train
    from steelyard.conductor.validation import validate_tasks
    from steelyard.conductor.watching import Paused

_HOMES = {
    "Estimate": "estimating",
    "EvaluationPlan": "standalone",
    "Paused": "watching",
    "Replay": "replaying",
    "RunSettings": "settings",
    "diagnose_task": "experiments",
    "episode_shares": "replaying",
    "estimate": "estimating",
    "evaluate_model": "standalone",
    "export_checkpoint": "export",
    "play_episode": "playing",
    "read_run_file": "settings",
    "replay": "replaying",
    "train": "training",
    "validate_tasks": "validation",
}

__all__ = [
    "Estimate",
    "EvaluationPlan",
    "Paused",
    "Replay",
    "RunSettings",
    "diagnose_task",
    "episode_shares",
    "estimate",
    "evaluate_model",
    "export_checkpoint",
    "play_episode",
    "read_run_file",
    "replay",
    "train",
    "validate_tasks",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
