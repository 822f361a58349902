"""The run directory: one writer, any number of readers, nothing lost on kill −9."""

from steelyard.store.browsing import ORDERS, Counts, Dimension, EpisodeFilter, Regressions
from steelyard.store.errors import RunBusy, RunExists, RunNotFound, StoreFull, UnknownSchema
from steelyard.store.layout import RunDirectory
from steelyard.store.reader import RunReader
from steelyard.store.records import (
    EpisodeRecord,
    EvaluationRecord,
    Event,
    GroupRecord,
    StepRecord,
    Tally,
    TokenFields,
    TrainingRewards,
)
from steelyard.store.schema import SCHEMA_VERSION
from steelyard.store.writer import BASE_STEP, WARM_START_STEP, FinalState, Phase, RunStore

__all__ = [
    "BASE_STEP",
    "ORDERS",
    "SCHEMA_VERSION",
    "WARM_START_STEP",
    "Counts",
    "Dimension",
    "EpisodeFilter",
    "EpisodeRecord",
    "EvaluationRecord",
    "Event",
    "FinalState",
    "GroupRecord",
    "Phase",
    "Regressions",
    "RunBusy",
    "RunDirectory",
    "RunExists",
    "RunNotFound",
    "RunReader",
    "RunStore",
    "StepRecord",
    "StoreFull",
    "Tally",
    "TokenFields",
    "TrainingRewards",
    "UnknownSchema",
]
