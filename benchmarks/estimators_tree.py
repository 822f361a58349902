"""Decision trees small enough to enumerate, so that the true policy gradient is a finite sum.

Suffix letters as in `steelyard.objective`, and: N histories, F features, A actions, D parameters.
Everything is float64.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

from steelyard.objective import Rewards, Runs, Tokens, reward_to_go


@dataclass(frozen=True, slots=True)
class Shape:
    """What can happen: `turns` turns of one action token (the first of `first_tokens`), an
    observation token drawn by the environment between two turns, and with `stop` an action 0 that
    ends the episode early."""

    turns: int
    branching: int = 2
    observations: int = 2
    first_tokens: int = 2
    stop: bool = False


@dataclass(frozen=True, slots=True)
class Paths:
    """All trajectories of a shape. `history_N` is the string of moves before each choice:
    (True, a) an action, (False, o) an observation."""

    tokens: Tokens
    node_T: Tensor
    action_T: Tensor
    episode_K: Tensor
    environment_E: Tensor
    history_N: list[tuple[tuple[bool, int], ...]]


@lru_cache(maxsize=32)
def enumerate_paths(shape: Shape) -> Paths:
    """Every trajectory, with the probability of its observations."""
    probability_O = observation_probabilities(shape)
    node_of: dict[tuple[tuple[bool, int], ...], int] = {}
    node_T: list[int] = []
    action_T: list[int] = []
    turn_T: list[int] = []
    episode_T: list[int] = []
    episode_K: list[int] = []
    environment_E: list[float] = []
    for episode, (moves, probability) in enumerate(_walk(shape, probability_O, (), 0, 1.0)):
        environment_E.append(probability)
        episode_K.append(episode)
        for place, (is_action, choice) in enumerate(moves):
            if not is_action:
                episode_K.append(episode)
                continue
            node_T.append(node_of.setdefault(moves[:place], len(node_of)))
            action_T.append(choice)
            turn_T.append(len(episode_K) - 1)
            episode_T.append(episode)
    owner_T = torch.tensor(episode_T)
    return Paths(
        # Each trajectory is its own group here; `assemble` makes groups of several.
        Tokens(torch.tensor(turn_T), torch.tensor(turn_T), owner_T, owner_T),
        torch.tensor(node_T),
        torch.tensor(action_T),
        torch.tensor(episode_K),
        torch.tensor(environment_E, dtype=torch.float64),
        list(node_of),
    )


def observation_probabilities(shape: Shape) -> list[float]:
    """Proportional to 1, 2, 3, …: fixed, and not uniform."""
    total = shape.observations * (shape.observations + 1) / 2
    return [(o + 1) / total for o in range(shape.observations)]


def _walk(
    shape: Shape,
    probability_O: list[float],
    moves: tuple[tuple[bool, int], ...],
    turn: int,
    probability: float,
) -> Iterator[tuple[tuple[tuple[bool, int], ...], float]]:
    for actions in _turn_actions(shape, turn):
        after = (*moves, *((True, action) for action in actions))
        stopped = shape.stop and actions[-1] == 0
        if stopped or turn == shape.turns - 1:
            yield after, probability
            continue
        for observation, chance in enumerate(probability_O):
            seen = (*after, (False, observation))
            yield from _walk(shape, probability_O, seen, turn + 1, probability * chance)


def _turn_actions(shape: Shape, turn: int) -> list[tuple[int, ...]]:
    strings: list[tuple[int, ...]] = [()]
    for _ in range(shape.first_tokens if turn == 0 else 1):
        strings = [(*string, action) for string in strings for action in range(shape.branching)]
    return strings


@dataclass(frozen=True)
class Problem:
    """A shape with a policy π = softmax(feature · θ), rewards, and the direction in which the
    policy has moved since `s` ago: θ_μ = θ − s · direction, whose logits have RMS 1."""

    paths: Paths
    feature_NF: Tensor
    theta_FA: Tensor
    direction_FA: Tensor
    reward_K: Tensor

    @cached_property
    def turns(self) -> Runs:
        """The turns of each trajectory."""
        return Runs.of(self.paths.episode_K)

    @cached_property
    def episodes(self) -> Runs:
        """The tokens of each trajectory."""
        return self.paths.tokens.episodes

    @cached_property
    def rewards(self) -> Rewards:
        """Each trajectory a group of its own."""
        return Rewards(self.reward_K, self.paths.episode_K, torch.arange(len(self.turns)))

    @cached_property
    def return_E(self) -> Tensor:
        """Σ of its rewards."""
        return self.turns.sum(self.reward_K)

    def behaviour(self, staleness: float) -> Tensor:
        """θ_μ."""
        return self.theta_FA - staleness * self.direction_FA

    def logp_T(self, theta_FA: Tensor) -> Tensor:
        """log π_θ of each sampled token."""
        logp_NA = torch.log_softmax(self.feature_NF @ theta_FA, dim=1)
        return logp_NA[self.paths.node_T, self.paths.action_T]

    def probability_E(self, theta_FA: Tensor) -> Tensor:
        """p_θ(τ) = Π π_θ(action token) · Π p(observation)."""
        total_E = torch.zeros(len(self.turns), dtype=torch.float64)
        total_E = total_E.index_add(0, self.episodes.run_X, self.logp_T(theta_FA))
        return self.paths.environment_E * total_E.exp()

    @cached_property
    def score_TD(self) -> Tensor:
        """∇_θ log π(token) = feature ⊗ (onehot(action) − π)."""
        probability_NA = torch.softmax(self.feature_NF @ self.theta_FA, dim=1)
        error_TA = -probability_NA[self.paths.node_T]
        error_TA[torch.arange(len(error_TA)), self.paths.action_T] += 1.0
        product_TFA = self.feature_NF[self.paths.node_T][:, :, None] * error_TA[:, None, :]
        return product_TFA.flatten(1)

    @cached_property
    def gradient_D(self) -> Tensor:
        """∇J = Σ_τ p_π(τ) R(τ) Σ_t ∇ log π(a_t): the truth."""
        weight_E = self.probability_E(self.theta_FA) * self.return_E
        return self.episodes.spread(weight_E) @ self.score_TD

    def autograd_gradient_D(self) -> Tensor:
        """The same by differentiating Σ_τ p_π(τ) R(τ)."""
        theta_FA = self.theta_FA.clone().requires_grad_()
        (self.probability_E(theta_FA) * self.return_E).sum().backward()
        assert theta_FA.grad is not None
        return theta_FA.grad.flatten()

    def value_T(self, theta_FA: Tensor) -> Tensor:
        """V(h) = E_θ[Σ of the rewards to come | h], before each token: what a perfect critic of
        θ's episodes says."""
        node_T = self.paths.node_T
        weight_T = self.episodes.spread(self.probability_E(theta_FA))
        to_go_T = reward_to_go(self.reward_K, self.turns)[self.paths.tokens.turn_T]
        zero_N = torch.zeros(len(self.feature_NF), dtype=torch.float64)
        weight_N = zero_N.index_add(0, node_T, weight_T)
        return (zero_N.index_add(0, node_T, weight_T * to_go_T) / weight_N)[node_T]

    def divergence(self, staleness: float) -> tuple[float, float]:
        """KL(μ ‖ π) of whole episodes, and the effective sample size 1 / E_μ[(π/μ)²] in (0, 1]."""
        log_ratio_E = self.episodes.sum(
            self.logp_T(self.theta_FA) - self.logp_T(self.behaviour(staleness))
        )
        mu_E = self.probability_E(self.behaviour(staleness))
        second = float((mu_E * (2 * log_ratio_E).exp()).sum())
        return float(-(mu_E * log_ratio_E).sum()), 1.0 / second


def make_problem(
    shape: Shape,
    seed: int,
    *,
    tabular: bool = False,
    turn_rewards: bool = False,
    success: float = 0.4,
    along: float = 0.5,
) -> Problem:
    """A random problem.

    The policy reads the history through six shared features (or, `tabular`, one parameter per
    history and action). Every choice has a hidden utility; an episode succeeds (reward 1, else 0)
    when its sum is among the best, about `success` of the policy's probability. With
    `turn_rewards` a turn of positive utility also earns 1/4. μ lags by a share `along` of ∇J, the
    way that training moves, and for the rest in a random direction, as noise moves it.
    """
    generator = torch.Generator().manual_seed(seed)
    paths = enumerate_paths(shape)
    n_nodes = len(paths.history_N)
    feature_NF = torch.eye(n_nodes, dtype=torch.float64) if tabular else _features(shape, paths)

    def normal() -> Tensor:
        size = (feature_NF.shape[1], shape.branching)
        return torch.randn(size, generator=generator, dtype=torch.float64)

    theta_FA, utility_FA, noise_FA = 0.5 * normal(), normal(), normal()
    utility_NA = feature_NF @ utility_FA
    utility_T = (utility_NA - utility_NA.mean(1, keepdim=True))[paths.node_T, paths.action_T]
    turns = Runs.of(paths.episode_K)
    utility_K = torch.zeros(len(paths.episode_K), dtype=torch.float64)
    utility_K.index_add_(0, paths.tokens.turn_T, utility_T)
    reward_K = 0.25 * (utility_K > 0).double() if turn_rewards else torch.zeros_like(utility_K)
    problem = Problem(paths, feature_NF, theta_FA, noise_FA, reward_K)
    total_E = turns.sum(utility_K)
    # Utilities that depend on few features tie; a tie succeeds or fails together, up to noise.
    total_E += 0.3 * torch.randn(len(total_E), generator=generator, dtype=torch.float64)
    order_E = total_E.argsort(descending=True)
    above_E = problem.probability_E(theta_FA)[order_E].cumsum(0) <= success
    above_E[0] = True
    reward_K = reward_K.clone()
    reward_K[turns.last_R[order_E[above_E]]] += 1.0
    problem = dataclasses.replace(problem, reward_K=reward_K)
    uphill_FA = _unit(problem.gradient_D.view_as(theta_FA), feature_NF)
    mixed_FA = along * uphill_FA + (1.0 - along) * _unit(noise_FA, feature_NF)
    return dataclasses.replace(problem, direction_FA=_unit(mixed_FA, feature_NF))


def _unit(direction_FA: Tensor, feature_NF: Tensor) -> Tensor:
    """Scaled so that the logits of the histories, centred over actions, have RMS 1."""
    logit_NA = feature_NF @ direction_FA
    logit_NA = logit_NA - logit_NA.mean(1, keepdim=True)
    return direction_FA / logit_NA.square().mean().sqrt()


def _features(shape: Shape, paths: Paths) -> Tensor:
    """1, the last action, the last observation, their product, the mean action, the place."""
    longest = shape.turns + shape.first_tokens - 1
    rows = []
    for history in paths.history_N:
        actions = [2.0 * c / (shape.branching - 1) - 1.0 for is_action, c in history if is_action]
        seen = [2.0 * c / max(shape.observations - 1, 1) - 1.0 for is_a, c in history if not is_a]
        action = actions[-1] if actions else 0.0
        observation = seen[-1] if seen else 0.0
        mean = sum(actions) / len(actions) if actions else 0.0
        place = 2.0 * len(actions) / longest - 1.0
        rows.append([1.0, action, observation, action * observation, mean, place])
    return torch.tensor(rows, dtype=torch.float64)


@dataclass(frozen=True, slots=True)
class Batch:
    """Many groups, flat: `row_T` is each token's place among the tokens of the enumeration."""

    tokens: Tokens
    rewards: Rewards
    row_T: Tensor


def assemble(problem: Problem, index_MG: Tensor) -> Batch:
    """The batch of groups whose members are the trajectories `index_MG` [groups, members]."""
    index_E = index_MG.flatten()
    group_E = torch.arange(len(index_MG)).repeat_interleave(index_MG.shape[1])
    row_T, episode_T = _rows(problem.episodes, index_E)
    row_K, episode_K = _rows(problem.turns, index_E)
    # A turn keeps its place within its trajectory.
    offset_E = Runs.of(episode_K).start_R - problem.turns.start_R[index_E]
    turn_T = problem.paths.tokens.turn_T[row_T] + offset_E[episode_T]
    tokens = Tokens(turn_T, turn_T, episode_T, group_E[episode_T])
    rewards = Rewards(problem.reward_K[row_K], episode_K, group_E)
    return Batch(tokens, rewards, row_T)


def _rows(runs: Runs, index_E: Tensor) -> tuple[Tensor, Tensor]:
    """The entries of the runs `index_E`, in order, and which of them each belongs to."""
    length_E = runs.length_R[index_E]
    owner_X = torch.repeat_interleave(torch.arange(len(index_E)), length_E)
    first_E = torch.cumsum(length_E, 0) - length_E
    return runs.start_R[index_E][owner_X] + torch.arange(len(owner_X)) - first_E[owner_X], owner_X
