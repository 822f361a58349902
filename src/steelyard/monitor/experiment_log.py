"""What `steelyard diagnose` found out about a run's tasks, apart from the run's record."""

from __future__ import annotations

import json

from steelyard.monitor.scores import Json
from steelyard.store import RunDirectory


def read_experiments(directory: RunDirectory) -> dict[str, Json]:
    """Task → its latest experiment; none where no experiment was made. A torn line is left out."""
    try:
        lines = directory.experiments.read_text().splitlines()
    except OSError:
        return {}
    latest: dict[str, Json] = {}
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        latest[record["task"]] = record
    return latest


def append_experiment(directory: RunDirectory, record: Json) -> None:
    """Adds an experiment at the end of the file. Raises: OSError where it cannot be written."""
    with directory.experiments.open("a") as file:
        file.write(json.dumps(record) + "\n")
