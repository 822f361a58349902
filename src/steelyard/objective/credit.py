"""Credit: what a token's turn was worth. Ungraded episodes are absent, and so is credit that does
not exist: it is left out, never 0 and never NaN."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from steelyard.objective.checks import all_finite, given, require, require_finite
from steelyard.objective.ragged import Runs, Tokens, dense
from steelyard.objective.returns import gae, reward_to_go, whiten


@dataclass(frozen=True, slots=True)
class Imitation:
    """Every token of a demonstration weighs 1."""


@dataclass(frozen=True, slots=True)
class Filter:
    """1 where the episode's return exceeds `threshold`; other episodes are absent.

    ReST (Gulcehre et al. 2023) raises the threshold between improve steps; with a binary reward
    it is REINFORCE without a baseline. There is no negative signal.
    """

    threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class RewardToGo:
    """R_k = Σ_{j ≥ k} γ^{j−k} r_j over turns, minus the critic's V(h) if `baseline` is learned."""

    gamma: float = 1.0
    baseline: Literal["none", "learned"] = "none"

    def __post_init__(self) -> None:
        _require_share("gamma", self.gamma)


@dataclass(frozen=True, slots=True)
class GroupComparison:
    """How the episodes of a group are compared: A_i = (R_i − b_i) / s.

    `baseline` "mean" subtracts the group mean, "leave_one_out" the mean of the others. `scale`
    "std" divides by the group's standard deviation (`ddof` 1: sample, 0: population) plus
    `epsilon`, "mean" by its mean reward (MaxRL); "none" is Dr.GRPO. `level` "episode" compares
    total returns; "turn" compares, for each turn number, the rewards to go of the episodes that
    reached it.
    """

    baseline: Literal["mean", "leave_one_out"] = "mean"
    scale: Literal["none", "std", "mean"] = "none"
    ddof: Literal[0, 1] = 1
    epsilon: float = 1e-4
    level: Literal["episode", "turn"] = "episode"

    def __post_init__(self) -> None:
        require(
            self.scale == "none" or self.baseline == "mean",
            f"credit: scale {self.scale!r} is defined for baseline 'mean', not "
            f"{self.baseline!r}: what is divided by would belong to another centre than the one "
            "subtracted",
        )
        require(self.epsilon >= 0.0, f"credit: epsilon must be ≥ 0, got {self.epsilon}")


@dataclass(frozen=True, slots=True)
class GAE:
    """GAE(γ, λ) of a critic over action tokens or over turns (V at a turn's first token).

    `bootstrap_truncated` credits an episode that a limit cut with the value of where it stood.
    Off, it ends there: right where a task says that being cut off is failing, as the agent loop
    here does, since else never handing in would cost nothing.
    """

    gamma: float = 1.0
    lam: float = 0.95
    level: Literal["token", "turn"] = "token"
    whiten: bool = False
    bootstrap_truncated: bool = False

    def __post_init__(self) -> None:
        _require_share("gamma", self.gamma)
        _require_share("lam", self.lam)


@dataclass(frozen=True, slots=True)
class TeacherLogRatio:
    """A_t = log π_teacher(token) − log π(token): minus the sampled reverse KL, discount 0."""


CreditRule: TypeAlias = Imitation | Filter | RewardToGo | GroupComparison | GAE | TeacherLogRatio


@dataclass(frozen=True, slots=True)
class Rewards:
    """What the turns of the scored episodes earned.

    `reward_K` float [K] arrived after each turn (an outcome: after the last), `episode_K` int [K]
    owns it, consecutive. Row k belongs to turn number k of `Tokens.turn_T`; a turn that earned
    nothing is a row of 0. `group_E` int [E]: the group of each episode, in order.
    """

    reward_K: Tensor
    episode_K: Tensor
    group_E: Tensor

    def __post_init__(self) -> None:
        assert self.reward_K.shape == self.episode_K.shape
        require_finite(self.reward_K, "a reward")

    def turns(self) -> Runs:
        """The turns of each episode."""
        runs = Runs.of(self.episode_K)
        assert len(runs) == len(self.group_E), "an episode without a turn, or turns out of order"
        return runs


class Credit(NamedTuple):
    """`advantage_A` of the tokens at ascending `index_A` of the batch; other tokens have none.

    `target_A` is what a critic should have said there, None without a critic.
    """

    advantage_A: Tensor
    index_A: Tensor
    target_A: Tensor | None = None


def credit(
    rule: CreditRule,
    tokens: Tokens,
    rewards: Rewards,
    *,
    reward_T: Tensor | None = None,
    value_T: Tensor | None = None,
    after_E: Tensor | None = None,
    logp_T: Tensor | None = None,
    teacher_logp_T: Tensor | None = None,
) -> Credit:
    """The advantage of every action token that has one, under `rule`.

    Args:
        tokens: `turn_T` numbers the rows of `rewards`.
        reward_T: rewards that belong to single tokens (a KL penalty), on top of `rewards`.
        value_T: a critic's V before each token; for rules with a critic.
        after_E: V after truncated episodes, 0 after terminated ones.
        logp_T, teacher_logp_T: of the sampled tokens; for `TeacherLogRatio`.

    A group of one has nothing to compare with and is absent; so is a turn that no other episode
    of its group reached, under `level="turn"`. An all-equal group has advantage exactly 0 (also
    divided by its deviation: 0 / ε) and keeps its place in the denominator.
    """
    all_T = torch.arange(len(tokens))
    match rule:
        case Imitation():
            return Credit(torch.ones(len(tokens)), all_T)
        case TeacherLogRatio():
            advantage_T = given(teacher_logp_T).detach() - given(logp_T).detach()
            kept = torch.isfinite(advantage_T).nonzero()[:, 0]
            return Credit(advantage_T[kept], kept)
        case GAE():
            return _of_critic(rule, tokens, rewards, reward_T, given(value_T), after_E)
    turns, turn_T = rewards.turns(), tokens.turn_T
    reward_K = _turn_rewards(tokens, rewards, reward_T)
    match rule:
        case Filter():
            kept_E = turns.sum(reward_K) > rule.threshold
            kept = turns.spread(kept_E)[turn_T].nonzero()[:, 0]
            return Credit(torch.ones(len(kept)), kept)
        case RewardToGo():
            return_T = reward_to_go(reward_K, turns, rule.gamma).index_select(0, turn_T)
            if rule.baseline == "none":
                return Credit(return_T, all_T)
            _require_sane_critic(given(value_T), None)
            return Credit(return_T - given(value_T), all_T, return_T)
        case GroupComparison():
            advantage_K, kept_K = _compared(rule, reward_K, turns, rewards.group_E)
            advantage_T = advantage_K.index_select(0, turn_T)
            if bool(kept_K.all()):
                return Credit(advantage_T, all_T)
            kept = kept_K[turn_T].nonzero()[:, 0]
            return Credit(advantage_T[kept], kept)
    raise AssertionError(f"no credit for {rule!r}")


def group_advantage(
    return_E: Tensor, group_E: Tensor, rule: GroupComparison
) -> tuple[Tensor, Tensor]:
    """A_i = (R_i − b_i) / s, with b and s taken over the scored episodes of i's group.

    Args:
        return_E: float [E] of scored episodes only; a group with unscored members is simply
            smaller. An episode in several segments counts once.
        group_E: int [E], the group of each, in any order.

    Returns:
        advantage_A like the returns, and kept_A int64, ascending: which episodes have an
        advantage. Those of a group of one are absent; trainers that keep them train on the raw
        reward.

    An all-equal group gets exactly 0 everywhere, whatever it is divided by. With binary rewards,
    G episodes and `scale="mean"`, Σ_i A_i ∇log π_i / G is an unbiased estimate of the gradient of
    Σ_{k < G} (pass@k)/k, which is w ∇p with w = (1 − (1−p)^(G−1))/p: between G − 1 for a task that
    is never solved and 1, where a centred reward has w = 1 and log p has 1/p. (Up to k = G it would
    be if failures weighed −1 in an all-fail group too.)

    Raises:
        ValueError: a reward is not finite, or is negative under `scale="mean"`.

    Source: DeepSeekMath §4.1 (mean, std); Dr.GRPO §3.2 (no std); RLOO, Ahmadian et al. 2024
    (leave one out: G/(G−1) times the centred reward); MaxRL, Tajwar et al. 2026
    (arXiv:2602.02710; divided by the mean).
    """
    assert return_E.shape == group_E.shape
    require_finite(return_E, "a reward")
    reward_E = return_E.double()
    index_E, n_groups = dense(group_E)
    count_G = torch.bincount(index_E, minlength=n_groups)
    sum_G = torch.zeros(n_groups, dtype=torch.float64).index_add_(0, index_E, reward_E)
    count_E = count_G[index_E]
    mean_E = sum_G[index_E] / count_E
    centred_E = reward_E - mean_E
    # Rounding must not turn an all-equal group into a signal.
    edge_G = torch.full((n_groups,), torch.inf, dtype=torch.float64)
    lowest_G = edge_G.scatter_reduce(0, index_E, reward_E, "amin")
    highest_G = (-edge_G).scatter_reduce(0, index_E, reward_E, "amax")
    centred_E = torch.where((lowest_G == highest_G)[index_E], 0.0, centred_E)
    if rule.baseline == "leave_one_out":
        centred_E = centred_E * count_E / (count_E - 1).clamp(min=1)
    if rule.scale == "std":
        square_G = torch.zeros_like(sum_G).index_add_(0, index_E, centred_E**2)
        deviation_G = (square_G / (count_G - rule.ddof).clamp(min=1)).sqrt()
        centred_E = _divided(centred_E, deviation_G[index_E] + rule.epsilon)
    if rule.scale == "mean":
        lowest = float(reward_E.min()) if len(reward_E) else 0.0
        require(
            lowest >= 0.0,
            "credit: scale 'mean' is defined for rewards ≥ 0, a share of success, got "
            f"{lowest:g}; choose scale 'std'",
        )
        centred_E = _divided(centred_E, mean_E)
    kept_A = (count_E >= 2).nonzero()[:, 0]
    return centred_E[kept_A].to(return_E.dtype), kept_A


def _divided(centred_E: Tensor, divisor_E: Tensor) -> Tensor:
    """0 stays 0, whatever it is divided by."""
    return torch.where(centred_E == 0, 0.0, centred_E / divisor_E)


def process_advantage(
    reward_K: Tensor, turns: Runs, group_E: Tensor, rule: GroupComparison
) -> tuple[Tensor, Tensor]:
    """A_k = Σ_{j ≥ k} (r_j − b) / s, with b and s over all step rewards of the group.

    GRPO with process supervision (DeepSeekMath §4.1.3). Returns advantage_A and kept_A over turns,
    as `group_advantage` does; a group whose only step reward stands alone is absent.
    """
    normalised_A, kept_A = group_advantage(reward_K, turns.spread(group_E), rule)
    # An episode belongs to one group, so it is kept or absent as a whole.
    return reward_to_go(normalised_A, Runs.of(turns.run_X[kept_A])), kept_A


def _compared(
    rule: GroupComparison, reward_K: Tensor, turns: Runs, group_E: Tensor
) -> tuple[Tensor, Tensor]:
    """The advantage of each turn, and which turns have one; elsewhere it is 0, to be left out."""
    return_X, peers_X = turns.sum(reward_K).to(reward_K.dtype), group_E
    if rule.level == "turn":
        return_X = reward_to_go(reward_K, turns)
        place_K = torch.stack([turns.spread(group_E), turns.ordinal_X()])
        peers_X = torch.unique(place_K, dim=1, return_inverse=True)[1]
    advantage_A, kept_A = group_advantage(return_X, peers_X, rule)
    advantage_X = torch.zeros_like(return_X).index_copy(0, kept_A, advantage_A)
    kept_X = torch.zeros(len(return_X), dtype=torch.bool).index_fill(0, kept_A, True)
    if rule.level == "turn":
        return advantage_X, kept_X
    return turns.spread(advantage_X), turns.spread(kept_X)


def _of_critic(
    rule: GAE,
    tokens: Tokens,
    rewards: Rewards,
    reward_T: Tensor | None,
    value_T: Tensor,
    after_E: Tensor | None,
) -> Credit:
    _require_sane_critic(value_T, after_E)
    owned = Runs.of(tokens.turn_T)
    assert len(owned) == len(rewards.reward_K), "a turn without tokens would lose its reward"
    by_turn = rule.level == "turn"
    if by_turn:
        reward_X, value_X = _turn_rewards(tokens, rewards, reward_T), value_T[owned.start_R]
    else:
        # A turn's reward arrives with its last token.
        reward_X, value_X = torch.zeros_like(value_T), value_T
        reward_X[owned.last_R] = rewards.reward_K.to(value_T.dtype)
        reward_X = reward_X if reward_T is None else reward_X + reward_T
    runs = rewards.turns() if by_turn else tokens.episodes
    earned = gae(reward_X, value_X, runs, gamma=rule.gamma, lam=rule.lam, after_E=after_E)
    advantage_X = whiten(earned.advantage_X) if rule.whiten else earned.advantage_X
    columns = (advantage_X, earned.target_X)
    advantage_T, target_T = (x_X[tokens.turn_T] for x_X in columns) if by_turn else columns
    return Credit(advantage_T, torch.arange(len(tokens)), target_T)


def _turn_rewards(tokens: Tokens, rewards: Rewards, reward_T: Tensor | None) -> Tensor:
    """What each turn earned, its tokens' own rewards included."""
    if reward_T is None:
        return rewards.reward_K
    return rewards.reward_K.index_add(0, tokens.turn_T, reward_T.to(rewards.reward_K.dtype))


def _require_sane_critic(value_T: Tensor, after_E: Tensor | None) -> None:
    for value_X in (value_T, after_E):
        require(
            value_X is None or all_finite(value_X),
            "credit: a value of the critic is not finite, so it has diverged; lower "
            "learner.critic_learning_rate, or start from an earlier checkpoint",
        )


def _require_share(name: str, value: float) -> None:
    require(0.0 <= value <= 1.0, f"credit: {name} must lie in [0, 1], got {value}")
