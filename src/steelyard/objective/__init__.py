"""The heart: every way of learning from a trajectory is a weight on a sampled token.

    loss = Σ_t coefficient_t · value_t,   value_t = −weight_t · (log π_t or ratio_t)

Pure functions on flat, ragged tensors, without padding. Suffix letters: E episodes, T action
tokens of the whole (global) batch, in episode order. Observation tokens and Unscored episodes
never enter.
"""

from steelyard.objective.aggregate import Aggregate, token_coefficients
from steelyard.objective.algorithm import ALGORITHMS, Algorithm, algorithm
from steelyard.objective.credit import GroupComparison, group_advantage
from steelyard.objective.limit import ClipMin, clip_min
from steelyard.objective.loss import TokenLoss, token_loss

__all__ = [
    "ALGORITHMS",
    "Aggregate",
    "Algorithm",
    "ClipMin",
    "GroupComparison",
    "TokenLoss",
    "algorithm",
    "clip_min",
    "group_advantage",
    "token_coefficients",
    "token_loss",
]
