"""A step's batch from the record, to run its update again."""

from __future__ import annotations

from steelyard.episodes import Group
from steelyard.store import RunReader


def recorded_batch(reader: RunReader, step: int) -> list[Group]:
    """The groups that the update of `step` learned from, as they were sampled and graded.

    With the weights before it (the checkpoint of step − 1, or of `step` itself if it moved nothing)
    `conductor.update.update` does the same again.

    Raises: ValueError if the step learned from nothing.
    """
    groups = [
        Group(
            group.id,
            group.task,
            [reader.episode(record.id) for record in reader.episode_records(group=group.id)],
        )
        for group in reader.groups(step=step)
        if group.used
    ]
    if not groups:
        raise ValueError(f"{reader.directory.path}: step {step} has no batch in the record")
    return groups
