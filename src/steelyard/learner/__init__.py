"""Moves the weights: scoring, packing with shared prefixes, critic, optimiser, checkpoint."""

from steelyard.learner.batch import Batch
from steelyard.learner.critic import ValueFit
from steelyard.learner.lanes import lanes_of
from steelyard.learner.learner import Learner, Loss, Scores, StepMetrics, VocabularyLoss
from steelyard.learner.settings import LearnerSettings, LearningRate

__all__ = [
    "Batch",
    "Learner",
    "LearnerSettings",
    "LearningRate",
    "Loss",
    "Scores",
    "StepMetrics",
    "ValueFit",
    "VocabularyLoss",
    "lanes_of",
]
