"""The run directory: one writer, any number of readers, nothing lost on kill −9."""

from steelyard.store.errors import RunBusy, RunExists, RunNotFound, StoreFull, UnknownSchema
from steelyard.store.layout import RunDirectory
from steelyard.store.reader import (
    EpisodeRecord,
    EvaluationRecord,
    Event,
    GroupRecord,
    RunReader,
    StepRecord,
    Tally,
)
from steelyard.store.schema import SCHEMA_VERSION
from steelyard.store.writer import BASE_STEP, WARM_START_STEP, FinalState, Phase, RunStore

__all__ = [
    "BASE_STEP",
    "SCHEMA_VERSION",
    "WARM_START_STEP",
    "EpisodeRecord",
    "EvaluationRecord",
    "Event",
    "FinalState",
    "GroupRecord",
    "Phase",
    "RunBusy",
    "RunDirectory",
    "RunExists",
    "RunNotFound",
    "RunReader",
    "RunStore",
    "StepRecord",
    "StoreFull",
    "Tally",
    "UnknownSchema",
]
