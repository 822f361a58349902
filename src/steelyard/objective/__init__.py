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

from steelyard.objective.aggregate import Aggregate as Aggregate
from steelyard.objective.aggregate import Totals as Totals
from steelyard.objective.aggregate import token_coefficients as token_coefficients
from steelyard.objective.algorithm import Algorithm as Algorithm
from steelyard.objective.correction import Correction as Correction
from steelyard.objective.correction import CorrectionWeight as CorrectionWeight
from steelyard.objective.correction import correction_weight as correction_weight
from steelyard.objective.correction import interpolated_prox as interpolated_prox
from steelyard.objective.credit import GAE as GAE
from steelyard.objective.credit import Credit as Credit
from steelyard.objective.credit import Filter as Filter
from steelyard.objective.credit import GroupComparison as GroupComparison
from steelyard.objective.credit import Imitation as Imitation
from steelyard.objective.credit import Rewards as Rewards
from steelyard.objective.credit import RewardToGo as RewardToGo
from steelyard.objective.credit import TeacherLogRatio as TeacherLogRatio
from steelyard.objective.credit import credit as credit
from steelyard.objective.credit import group_advantage as group_advantage
from steelyard.objective.credit import process_advantage as process_advantage
from steelyard.objective.critic import Critic as Critic
from steelyard.objective.critic import value_loss as value_loss
from steelyard.objective.distillation import Distillation as Distillation
from steelyard.objective.distillation import divergence as divergence
from steelyard.objective.limit import ClipMin as ClipMin
from steelyard.objective.limit import Mask as Mask
from steelyard.objective.limit import StopGradientClip as StopGradientClip
from steelyard.objective.limit import Truncate as Truncate
from steelyard.objective.limit import WideningWindow as WideningWindow
from steelyard.objective.limit import limit as limit
from steelyard.objective.loss import Fixed as Fixed
from steelyard.objective.loss import TokenLoss as TokenLoss
from steelyard.objective.loss import Versions as Versions
from steelyard.objective.loss import token_loss as token_loss
from steelyard.objective.loss import vocabulary_loss as vocabulary_loss
from steelyard.objective.penalty import KL as KL
from steelyard.objective.penalty import ClipCov as ClipCov
from steelyard.objective.penalty import KLCov as KLCov
from steelyard.objective.penalty import covariance_choice as covariance_choice
from steelyard.objective.penalty import entropy as entropy
from steelyard.objective.penalty import kl_value as kl_value
from steelyard.objective.penalty import overlong_penalty as overlong_penalty
from steelyard.objective.penalty import potential_reward as potential_reward
from steelyard.objective.penalty import shaping_warning as shaping_warning
from steelyard.objective.ragged import Runs as Runs
from steelyard.objective.ragged import Tokens as Tokens
from steelyard.objective.ratio import log_ratio as log_ratio
from steelyard.objective.returns import bilevel_gae as bilevel_gae
from steelyard.objective.returns import continuation_values as continuation_values
from steelyard.objective.returns import explained_variance as explained_variance
from steelyard.objective.returns import gae as gae
from steelyard.objective.returns import process_values as process_values
from steelyard.objective.returns import reward_to_go as reward_to_go
from steelyard.objective.returns import td_error as td_error
from steelyard.objective.returns import whiten as whiten
from steelyard.objective.table import ALGORITHMS as ALGORITHMS
from steelyard.objective.table import KINDS as KINDS
from steelyard.objective.table import algorithm as algorithm
from steelyard.objective.table import as_table as as_table
