"""What an estimator of the policy gradient gives: by enumeration, in closed form, and sampled.

Suffix letters as in `estimators_tree`; M batches of G episodes each.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from estimators_tree import Problem, assemble
from steelyard.objective import (
    GAE,
    Aggregate,
    Algorithm,
    Correction,
    Critic,
    Fixed,
    GroupComparison,
    Tokens,
    Totals,
    algorithm,
    credit,
    group_advantage,
    token_coefficients,
    token_loss,
)

EPISODE_SUM = Aggregate("constant", length=1)
"""Mean over episodes of the sum over tokens, which is what ∇J is. Where all episodes are equally
long, every other rule is this one times a constant."""


@dataclass(frozen=True, slots=True)
class Row:
    """An algorithm to be measured. `critic`: whose values a critic has learned perfectly, those of
    the episodes at hand (μ) or those of the policy (π, which nobody has off-policy).

    The gap between μ and π stands in the ratio (prox = μ: later updates on one batch), or, if the
    algorithm has a correction, there (prox = π: the first update on a late batch).
    """

    name: str
    algorithm: Algorithm
    critic: Literal["none", "behaviour", "policy"] = "none"


def _published(name: str) -> Algorithm:
    """The row of the table, without its pull towards a reference, which is not ∇J's business."""
    return algorithm(name, kl=None, aggregate=EPISODE_SUM)


def _plain(name: str, scope: Literal["token", "prefix", "sequence", "full"]) -> Algorithm:
    return Algorithm(name=name, credit=GroupComparison(), ratio=scope, aggregate=EPISODE_SUM)


def _corrected(correction: Correction) -> Algorithm:
    return dataclasses.replace(_published("dr_grpo"), correction=correction)


TD_PREFIX = Algorithm(
    name="prefix_td",
    credit=GAE(gamma=1.0, lam=0.0),
    ratio="prefix",
    aggregate=EPISODE_SUM,
    critic=Critic("network"),
)

ROWS = (
    Row("reinforce", _published("reinforce")),
    Row("reinforce_baseline (V of μ)", _published("reinforce_baseline"), "behaviour"),
    Row("rest", _published("rest")),
    Row("rloo", _published("rloo")),
    Row("ppo (V of μ)", _published("ppo"), "behaviour"),
    Row("grpo", _published("grpo")),
    Row("dr_grpo", _published("dr_grpo")),
    Row("dapo", _published("dapo")),
    Row("cispo", _published("cispo")),
    Row("gspo", _published("gspo")),
    Row("ctpo", _published("ctpo")),
    Row("full_ratio (truncated at 5)", _published("full_ratio")),
    Row("token ratio, no limit", _plain("token", "token")),
    Row("sequence ratio, no limit", _plain("sequence", "sequence")),
    Row("prefix ratio, no limit", _plain("prefix", "prefix")),
    Row("full ratio, no limit", _plain("full", "full")),
    Row("prefix ratio × TD error (V of μ)", TD_PREFIX, "behaviour"),
    Row("prefix ratio × TD error (V of π)", TD_PREFIX, "policy"),
    Row("dr_grpo + token TIS 2", _corrected(Correction("truncate", 2.0))),
    Row("dr_grpo + IcePop [.5, 5]", _corrected(Correction("mask", 5.0, 0.5))),
    Row("dr_grpo + episode TIS 2", _corrected(Correction("truncate", 2.0, scope="full"))),
)
"""Every row of the table that follows a reward (sft and opd do not), then ratios without a limit,
then corrections. They differ from one another only in the axis that is named."""


class Moments(NamedTuple):
    """E ĝ and tr Var ĝ of the estimate from one group (or episode), which has `episodes`."""

    mean_D: Tensor
    variance: float
    episodes: int


def values_T(problem: Problem, row: Row, staleness: float) -> Tensor | None:
    """What the row's critic says before each token of the enumeration."""
    if row.critic == "none":
        return None
    late = staleness if row.critic == "behaviour" else 0.0
    return problem.value_T(problem.behaviour(late))


def coefficients(
    tokens: Tokens,
    rule: Algorithm,
    advantage_T: Tensor,
    logp_T: Tensor,
    behaviour_logp_T: Tensor,
    totals: Totals,
) -> Tensor:
    """c_t such that the gradient ascended is Σ_t c_t ∇ log π_t: what the package's loss says."""
    logp_T = logp_T.detach().requires_grad_()
    fixed = Fixed(
        tokens,
        advantage_T,
        behaviour_logp_T=behaviour_logp_T,
        prox_logp_T=None if rule.correction else behaviour_logp_T,
    )
    value_T = token_loss(logp_T, fixed, rule).value_T
    share_T = token_coefficients(tokens, rule.aggregate, totals, dtype=torch.float64)
    (share_T * value_T).sum().backward()
    assert logp_T.grad is not None
    return -logp_T.grad


def estimates(
    problem: Problem,
    rule: Algorithm,
    staleness: float,
    index_MG: Tensor,
    value_T: Tensor | None = None,
    advantage_T: Tensor | None = None,
) -> Tensor:
    """ĝ [M, D], each from one batch that is one group, through the package's credit and loss.

    Args:
        index_MG: which trajectories the batches hold.
        value_T: a critic's values on the enumeration.
        advantage_T: credit on the enumeration, in place of the rule's own.
    """
    # Its denominator is the tokens of each batch; over one group that is "prompt_mean".
    assert rule.aggregate.kind != "token_mean"
    batch = assemble(problem, index_MG)
    rows = batch.row_T
    if advantage_T is None:
        assert rule.credit is not None
        given = credit(
            rule.credit,
            batch.tokens,
            batch.rewards,
            value_T=None if value_T is None else value_T[rows],
            after_E=torch.zeros(index_MG.numel(), dtype=torch.float64),
        )
        own_T = torch.zeros(len(rows), dtype=torch.float64)
        own_T[given.index_A] = given.advantage_A.double()
    else:
        own_T = advantage_T[rows]
    coefficient_T = coefficients(
        batch.tokens,
        rule,
        own_T,
        problem.logp_T(problem.theta_FA)[rows],
        problem.logp_T(problem.behaviour(staleness))[rows],
        Totals(tokens=0, episodes=index_MG.shape[1], groups=1),
    )
    each_TD = coefficient_T[:, None] * problem.score_TD[rows]
    zero_MD = torch.zeros(len(index_MG), each_TD.shape[1], dtype=torch.float64)
    return zero_MD.index_add(0, batch.tokens.group_T, each_TD)


def enumerated(
    problem: Problem,
    rule: Algorithm,
    staleness: float,
    group: int = 1,
    value_T: Tensor | None = None,
    advantage_T: Tensor | None = None,
) -> Moments:
    """E_μ and variance of ĝ over every possible group: a finite sum with nothing left out."""
    n = len(problem.turns)
    assert n**group <= 300_000, "too many groups to enumerate"
    index_MG = torch.cartesian_prod(*[torch.arange(n)] * group).reshape(-1, group)
    chance_M = problem.probability_E(problem.behaviour(staleness))[index_MG].prod(1)
    estimate_MD = estimates(problem, rule, staleness, index_MG, value_T, advantage_T)
    mean_D = chance_M @ estimate_MD
    second = float(chance_M @ estimate_MD.square().sum(1))
    return Moments(mean_D, second - float(mean_D @ mean_D), group)


def closed_form(problem: Problem, row: Row, staleness: float, group: int) -> Moments:
    """The same sums for groups too many to enumerate, where the outcome is 0 or 1.

    A group's comparison reads the other members only through how many of them succeeded, which is
    binomial. With Φ_τ the gradient of trajectory τ per unit of |A| (A > 0 where it succeeded,
    A < 0 where it failed), M_r = E_μ[1{R = r} Φ] and a(r, k) = |A| in a group with k successes:

        E ĝ       = Σ_r M_r Σ_c Bin(c; G − 1, q) a(r, c + r)
        G E‖ĝ‖²   = Σ_r E_μ[1{R = r} ‖Φ‖²] Σ_c Bin(c; G − 1, q) a(r, c + r)²
                    + (G − 1) Σ_{r, r'} M_r · M_r' Σ_c Bin(c; G − 2, q) a(r, k) a(r', k),
                    k = c + r + r'
    """
    rule = row.algorithm
    mu_E = problem.probability_E(problem.behaviour(staleness))
    if not isinstance(rule.credit, GroupComparison):
        return enumerated(problem, rule, staleness, 1, values_T(problem, row, staleness))
    won_E = problem.return_E == 1.0
    assert bool((won_E | (problem.return_E == 0.0)).all()), "outcomes must be 0 or 1"
    sign_E = torch.where(won_E, 1.0, -1.0).double()
    coefficient_T = coefficients(
        problem.paths.tokens,
        rule,
        problem.episodes.spread(sign_E),
        problem.logp_T(problem.theta_FA),
        problem.logp_T(problem.behaviour(staleness)),
        Totals(tokens=0, episodes=1, groups=1),
    )
    unit_ED = torch.zeros(len(mu_E), problem.score_TD.shape[1], dtype=torch.float64)
    unit_ED.index_add_(0, problem.episodes.run_X, coefficient_T[:, None] * problem.score_TD)
    size_rk = _advantage_sizes(rule.credit, group)
    success = float(mu_E[won_E].sum())
    member_E = [~won_E, won_E]
    moment_rD = torch.stack([mu_E[of] @ unit_ED[of] for of in member_E])
    square_r = [float(mu_E[of] @ unit_ED[of].square().sum(1)) for of in member_E]
    mean_D = torch.zeros_like(moment_rD[0])
    diagonal = across = 0.0
    for r in (0, 1):
        for c in range(group):
            chance, size = _binomial(c, group - 1, success), size_rk[r][c + r]
            mean_D += chance * size * moment_rD[r]
            diagonal += chance * size**2 * square_r[r]
        for other in (0, 1):
            dot = float(moment_rD[r] @ moment_rD[other])
            for c in range(group - 1):
                k = c + r + other
                chance = _binomial(c, group - 2, success)
                across += chance * size_rk[r][k] * size_rk[other][k] * dot
    second = (diagonal + (group - 1) * across) / group
    return Moments(mean_D, second - float(mean_D @ mean_D), group)


def _advantage_sizes(rule: GroupComparison, group: int) -> list[list[float]]:
    """|A| of a failure and of a success in a group with 0, 1, … `group` successes."""
    reward_kE = (torch.arange(group) < torch.arange(group + 1)[:, None]).double()
    group_E = torch.arange(group + 1).repeat_interleave(group)
    advantage_A, _ = group_advantage(reward_kE.flatten(), group_E, rule)
    size_kE = advantage_A.abs().view(group + 1, group)
    # Successes come first in each group, failures last; absent kinds are never looked up.
    return [size_kE[:, -1].tolist(), size_kE[:, 0].tolist()]


def _binomial(count: int, trials: int, chance: float) -> float:
    return math.comb(trials, count) * chance**count * (1.0 - chance) ** (trials - count)


class Sampled(NamedTuple):
    """Moments of a sample, and the standard error of the variance."""

    moments: Moments
    variance_error: float


def sampled(
    problem: Problem, row: Row, staleness: float, group: int, episodes: int, seed: int
) -> Sampled:
    """The same from `episodes` episodes drawn from μ."""
    generator = torch.Generator().manual_seed(seed)
    size = group if isinstance(row.algorithm.credit, GroupComparison) else 1
    mu_E = problem.probability_E(problem.behaviour(staleness))
    draw = torch.multinomial(mu_E, episodes, replacement=True, generator=generator)
    value_T = values_T(problem, row, staleness)
    estimate_MD = estimates(problem, row.algorithm, staleness, draw.view(-1, size), value_T)
    mean_D = estimate_MD.mean(0)
    distance_M = (estimate_MD - mean_D).square().sum(1)
    moments = Moments(mean_D, float(distance_M.mean()), size)
    return Sampled(moments, float(distance_M.std()) / math.sqrt(len(distance_M)))


class Quality(NamedTuple):
    """How good an estimator is, relative to ‖∇J‖.

    `scale` (E ĝ · ∇J) / ‖∇J‖²; `bias` ‖E ĝ − ∇J‖ / ‖∇J‖; `cosine` of E ĝ with ∇J; `noise` the
    standard deviation of one episode's estimate over ‖∇J‖.
    """

    scale: float
    bias: float
    cosine: float
    noise: float

    @property
    def turned(self) -> float:
        """The bias that no step size mends: sin of the angle, 1 from 90° on."""
        return math.sqrt(max(0.0, 1.0 - max(0.0, self.cosine) ** 2))

    def rmse(self, episodes: int) -> float:
        """√(bias² + variance / n), as it stands."""
        return math.hypot(self.bias, self.noise / math.sqrt(episodes))

    def scaled_rmse(self, episodes: int) -> float:
        """min over c ≥ 0 of the RMSE of c ĝ: what is left when the step size is free, as under
        Adam. 1 means that the estimate is worth nothing.

        √(1 − (E ĝ · ∇J)² / (‖∇J‖² E‖ĝ‖²)), with E‖ĝ‖² = ‖E ĝ‖² + variance / n.
        """
        if self.cosine <= 0.0:
            return 1.0
        second = (self.scale / self.cosine) ** 2 + self.noise**2 / episodes
        return math.sqrt(max(0.0, 1.0 - self.scale**2 / second))


def quality(problem: Problem, moments: Moments) -> Quality:
    """The numbers of one estimator on one problem."""
    truth_D, mean_D = problem.gradient_D, moments.mean_D
    length = float(truth_D.norm())
    dot = float(mean_D @ truth_D)
    return Quality(
        dot / length**2,
        float((mean_D - truth_D).norm()) / length,
        dot / (length * float(mean_D.norm())),
        math.sqrt(moments.variance * moments.episodes) / length,
    )
