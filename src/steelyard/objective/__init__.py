"""The heart: every way of learning from a trajectory is a weight on a sampled token.

    loss = − Σ_t  weight_t · log π(token_t),   weight = credit × ratio, limited, ÷ a global count

Pure functions on flat, ragged tensors, without padding. Suffix letters: E episodes, K turns,
T action tokens, G groups, C a chunk of tokens, V vocabulary, X turns or tokens. Observation
tokens and Unscored episodes never enter.

Where to look: `credit` (what a turn was worth; `returns` has the estimators over time), `ratio`
(who would sample it now), `limit`, `correction` (who really sampled), `penalty`, `distillation`,
`critic`, `aggregate` (the one division), `loss` (all of them together), `algorithm` and `table`
(which of them an algorithm is).
"""

from steelyard.objective.aggregate import Aggregate, Totals, token_coefficients
from steelyard.objective.algorithm import Algorithm
from steelyard.objective.correction import (
    Correction,
    CorrectionWeight,
    correction_weight,
    interpolated_prox,
)
from steelyard.objective.credit import (
    GAE,
    Credit,
    Filter,
    GroupComparison,
    Imitation,
    Rewards,
    RewardToGo,
    TeacherLogRatio,
    credit,
    group_advantage,
    process_advantage,
)
from steelyard.objective.critic import Critic, value_loss
from steelyard.objective.distillation import Distillation, divergence
from steelyard.objective.limit import (
    ClipMin,
    Mask,
    StopGradientClip,
    Truncate,
    WideningWindow,
    limit,
)
from steelyard.objective.loss import Fixed, TokenLoss, Versions, token_loss, vocabulary_loss
from steelyard.objective.penalty import (
    KL,
    ClipCov,
    KLCov,
    covariance_choice,
    entropy,
    kl_value,
    overlong_penalty,
    potential_reward,
    shaping_warning,
)
from steelyard.objective.ragged import Runs, Tokens
from steelyard.objective.ratio import log_ratio
from steelyard.objective.returns import (
    bilevel_gae,
    continuation_values,
    explained_variance,
    gae,
    process_values,
    reward_to_go,
    td_error,
    whiten,
)
from steelyard.objective.table import ALGORITHMS, KINDS, algorithm, as_table

__all__ = [
    "ALGORITHMS",
    "GAE",
    "KINDS",
    "KL",
    "Aggregate",
    "Algorithm",
    "ClipCov",
    "ClipMin",
    "Correction",
    "CorrectionWeight",
    "Credit",
    "Critic",
    "Distillation",
    "Filter",
    "Fixed",
    "GroupComparison",
    "Imitation",
    "KLCov",
    "Mask",
    "RewardToGo",
    "Rewards",
    "Runs",
    "StopGradientClip",
    "TeacherLogRatio",
    "TokenLoss",
    "Tokens",
    "Totals",
    "Truncate",
    "Versions",
    "WideningWindow",
    "algorithm",
    "as_table",
    "bilevel_gae",
    "continuation_values",
    "correction_weight",
    "covariance_choice",
    "credit",
    "divergence",
    "entropy",
    "explained_variance",
    "gae",
    "group_advantage",
    "interpolated_prox",
    "kl_value",
    "limit",
    "log_ratio",
    "overlong_penalty",
    "potential_reward",
    "process_advantage",
    "process_values",
    "reward_to_go",
    "shaping_warning",
    "td_error",
    "token_coefficients",
    "token_loss",
    "value_loss",
    "vocabulary_loss",
    "whiten",
]
