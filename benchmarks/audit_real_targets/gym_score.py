"""Scores one answer with a dataset's own scorer of reasoning-gym. Runs in a sandbox.

The package's `__init__` files import all datasets, which takes a second; only the module of one is
imported here, unchanged, with empty packages in place of those above it.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import types
from typing import Any


def score(
    prompt: str,
    answer: str,
    *,
    module: str,
    dataset: str,
    seed: int,
    size: int,
    index: int,
    entry: dict[str, Any] | None,
    **_: Any,
) -> Any:
    """What `score_answer` of the dataset returns. `entry` is None where JSON cannot carry it: then
    it is generated again."""
    _import(module)
    factory = importlib.import_module("reasoning_gym.factory")
    data = factory.create_dataset(dataset, seed=seed, size=size)
    return data.score_answer(answer, data[index] if entry is None else entry)


def _import(module: str) -> None:
    parts = module.split(".")
    specification = importlib.util.find_spec(parts[0])
    assert specification is not None
    assert specification.origin is not None
    folder = os.path.dirname(specification.origin)
    for depth in range(1, len(parts)):
        package = types.ModuleType(".".join(parts[:depth]))
        package.__path__ = [os.path.join(folder, *parts[1:depth])]
        sys.modules[package.__name__] = package
    importlib.import_module(f"{parts[0]}.coaching")  # first, as the packages do: it is in a circle
    importlib.import_module(module)
