"""Which checkpoints a run has, and which it keeps."""

from __future__ import annotations

import shutil
from collections.abc import Container
from pathlib import Path

from steelyard.store import RunDirectory


def last_checkpoint(directory: RunDirectory) -> int | None:
    """The step of the latest whole checkpoint."""
    steps = directory.checkpoint_steps()
    return steps[-1] if steps else None


def prune(directory: RunDirectory, keep: int, spared: Container[int] = ()) -> None:
    """Deletes all but the latest `keep` checkpoints, and those that are spared."""
    for step in directory.checkpoint_steps()[:-keep]:
        if step not in spared:
            _remove(directory.checkpoint(step))


def remove_after(directory: RunDirectory, step: int) -> None:
    """Deletes checkpoints of a history that was truncated, and half-written ones."""
    for later in directory.checkpoint_steps():
        if later > step:
            _remove(directory.checkpoint(later))
    for leftover in directory.checkpoints.glob(".*"):
        shutil.rmtree(leftover, ignore_errors=True)


def checkpoint_of(source: Path) -> Path:
    """The checkpoint that a user means: a run's latest, or the directory itself.

    Raises:
        ValueError: there is neither a checkpoint nor a model.
    """
    directory = RunDirectory(source)
    step = last_checkpoint(directory)
    if step is not None:
        return directory.checkpoint(step)
    if (source / "config.json").is_file() or (source / "adapter_config.json").is_file():
        return source
    raise ValueError(
        f"{source}: neither a run with checkpoints nor a checkpoint directory; look in "
        "runs/NAME/checkpoints"
    )


def model_of(spec: str) -> str:
    """`spec`, or the latest checkpoint where it names a run directory."""
    path = Path(spec)
    if not path.is_dir() or (path / "config.json").is_file():
        return spec
    checkpoint = checkpoint_of(path)
    if (checkpoint / "adapter_config.json").is_file():
        raise ValueError(
            f"model {spec!r}: {checkpoint} holds a LoRA adapter; merge it first: steelyard export "
            f"{spec} merged, then name merged"
        )
    return str(checkpoint)


def _remove(checkpoint: Path) -> None:
    # Renamed first: a killed deletion must not leave half a checkpoint under a whole one's name.
    doomed = checkpoint.with_name(f".deleting-{checkpoint.name}")
    checkpoint.rename(doomed)
    shutil.rmtree(doomed, ignore_errors=True)
