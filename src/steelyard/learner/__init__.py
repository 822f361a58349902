"""Moves the weights: scoring, packing with shared prefixes, optimiser, checkpoint."""

from steelyard.learner.batch import Batch
from steelyard.learner.learner import Learner, StepMetrics, TokenLoss
from steelyard.learner.settings import LearnerSettings, LearningRate

__all__ = ["Batch", "Learner", "LearnerSettings", "LearningRate", "StepMetrics", "TokenLoss"]
