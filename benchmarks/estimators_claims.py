"""What theory says of the estimators, each claim checked by enumeration."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from estimators_lab import EPISODE_SUM, ROWS, TD_PREFIX, Row, closed_form, enumerated, quality
from estimators_tree import Problem, Shape, make_problem
from steelyard.objective import (
    GAE,
    Aggregate,
    Algorithm,
    Correction,
    Critic,
    Filter,
    GroupComparison,
    RewardToGo,
    Runs,
    log_ratio,
    reward_to_go,
)

STALENESS = (0.0, 0.3, 1.0)
"""Tested where a claim holds at any; the last is an effective sample size of a few per cent."""

_rule = partial(Algorithm, name="claim", aggregate=EPISODE_SUM)
_TO_GO = RewardToGo()
_LEARNED = RewardToGo(baseline="learned")
_CENTRED = GroupComparison()
_LEAVE_ONE_OUT = GroupComparison(baseline="leave_one_out")
_TURN_CENTRED = GroupComparison(level="turn")
_TURN_LEAVE_ONE_OUT = GroupComparison(baseline="leave_one_out", level="turn")


class Claim(NamedTuple):
    """E ĝ = `scale` · ∇J, asserted of `mean_D`."""

    text: str
    problem: Problem
    staleness: float
    mean_D: Tensor
    scale: float

    @property
    def error(self) -> float:
        """max |E ĝ − scale · ∇J| / ‖∇J‖."""
        truth_D = self.problem.gradient_D
        return float((self.mean_D - self.scale * truth_D).abs().max() / truth_D.norm())


def problems() -> dict[str, Problem]:
    """2 to 6 turns, 2 to 4 choices, 1 to 3 observations, terminal and per-turn rewards, fixed
    and variable length, shared and separate parameters."""
    return {
        "3 turns, 2 choices": make_problem(Shape(3), 1),
        "2 turns, 3 choices, turn rewards": make_problem(
            Shape(2, branching=3), 2, tabular=True, turn_rewards=True
        ),
        "2 turns, 4 choices, 3 observations": make_problem(
            Shape(2, branching=4, observations=3, first_tokens=1), 3, tabular=True
        ),
        "3 turns, 3 choices, turn rewards, may stop": make_problem(
            Shape(3, branching=3, first_tokens=1, stop=True), 4, tabular=True, turn_rewards=True
        ),
        "6 turns, 2 choices": make_problem(Shape(6, observations=1, first_tokens=1), 5),
        "2 turns, 2 choices": make_problem(Shape(2, observations=1, first_tokens=2), 6),
        "2 turns, 3 choices, turn rewards, may stop": make_problem(
            Shape(2, branching=3, first_tokens=1, stop=True), 7, turn_rewards=True
        ),
    }


def claims(problem: Problem) -> Iterator[Claim]:
    """Every claim that holds on this problem."""
    yield from _single_claims(problem)
    yield from _group_claims(problem)
    lengths = problem.episodes.length_R
    if len(torch.unique(lengths)) == 1:
        yield from _fixed_length_claims(problem, int(lengths[0]))
    if set(problem.return_E.tolist()) == {0.0, 1.0}:
        yield _deviation_claim(problem)


def _single_claims(problem: Problem) -> Iterator[Claim]:
    own_T = problem.value_T(problem.theta_FA)
    any_T = _arbitrary_values(problem)
    network = Critic("network")
    learned = _rule(credit=_LEARNED, critic=network)
    monte_carlo = _rule(credit=GAE(lam=1.0), critic=network)
    lam = _rule(credit=GAE(lam=0.95), critic=network)
    fresh = [
        ("reward to go", _rule(credit=_TO_GO), None),
        ("reward to go − any V(h)", learned, any_T),
        ("GAE(λ = 1), any V", monte_carlo, any_T),
        ("GAE(λ = .95), V of π", lam, own_T),
    ]
    for text, rule, value_T in fresh:
        yield Claim(text, problem, 0.0, enumerated(problem, rule, 0.0, 1, value_T).mean_D, 1.0)
    exact = Correction("truncate", math.inf, scope="full")
    late = [
        ("full ratio × reward to go", _rule(credit=_TO_GO, ratio="full"), None),
        (
            "full ratio × (reward to go − any V(h))",
            dataclasses.replace(learned, ratio="full"),
            any_T,
        ),
        ("prefix ratio × TD error, V of π", TD_PREFIX, own_T),
        (
            "correction by the full ratio, not truncated, × reward to go",
            _rule(credit=_TO_GO, correction=exact),
            None,
        ),
    ]
    for staleness in STALENESS:
        for text, rule, value_T in late:
            mean_D = enumerated(problem, rule, staleness, 1, value_T).mean_D
            yield Claim(text, problem, staleness, mean_D, 1.0)
        weighed_T = _per_decision_credit(problem, staleness)
        rule = _rule(credit=_TO_GO)
        mean_D = enumerated(problem, rule, staleness, 1, advantage_T=weighed_T).mean_D
        yield Claim("per-decision: prefix ratio × reward", problem, staleness, mean_D, 1.0)


def _group_claims(problem: Problem) -> Iterator[Claim]:
    for group in (2, 3, 4):
        if len(problem.turns) ** group > 5_000:
            break
        mean_scale = 1.0 - 1.0 / group
        for staleness in STALENESS:
            for text, compared, scale in (
                ("full ratio × (R − leave-one-out mean)", _LEAVE_ONE_OUT, 1.0),
                ("full ratio × (R − group mean): (1 − 1/G) ∇J", _CENTRED, mean_scale),
            ):
                weighed = _rule(credit=compared, ratio="full")
                mean_D = enumerated(problem, weighed, staleness, group).mean_D
                yield Claim(text, problem, staleness, mean_D, scale)
        fresh = enumerated(problem, _rule(credit=_LEAVE_ONE_OUT), 0.0, group).mean_D
        yield Claim("R − leave-one-out mean (rloo)", problem, 0.0, fresh, 1.0)
        for row in ROWS:
            if not isinstance(row.algorithm.credit, GroupComparison) or row.name == "rloo":
                continue
            rule = dataclasses.replace(row.algorithm, credit=_CENTRED)
            fresh = enumerated(problem, rule, 0.0, group).mean_D
            yield Claim("R − group mean, any ratio and limit", problem, 0.0, fresh, mean_scale)


def _fixed_length_claims(problem: Problem, length: int) -> Iterator[Claim]:
    for kind in ("sequence_mean", "prompt_mean"):
        rule = _rule(credit=_TO_GO, aggregate=Aggregate(kind))
        mean_D = enumerated(problem, rule, 0.0, 1).mean_D
        yield Claim(f"{kind}, equal length: ∇J / length", problem, 0.0, mean_D, 1.0 / length)
    for staleness in STALENESS:
        for text, compared, scale in (
            ("full ratio × turn-level comparison, leave one out", _TURN_LEAVE_ONE_OUT, 1.0),
            ("full ratio × turn-level comparison, mean: (1 − 1/G) ∇J", _TURN_CENTRED, 0.5),
        ):
            rule = _rule(credit=compared, ratio="full")
            mean_D = enumerated(problem, rule, staleness, 2).mean_D
            yield Claim(f"{text}, equal length", problem, staleness, mean_D, scale)


def _deviation_claim(problem: Problem) -> Claim:
    """With outcomes 0 and 1, A depends on the own outcome and the count of successes. E ∇ log p
    is 0, so the gradients of success and failure are opposite, and any such A only scales ∇J."""
    rule = _rule(credit=GroupComparison(scale="std"))
    mean_D = enumerated(problem, rule, 0.0, 2).mean_D
    scale = float(mean_D @ problem.gradient_D / problem.gradient_D.square().sum())
    return Claim(
        "(R − mean) / std, outcomes 0 and 1: a multiple of ∇J", problem, 0.0, mean_D, scale
    )


def _arbitrary_values(problem: Problem) -> Tensor:
    """A number for each history, that has nothing to do with it."""
    generator = torch.Generator().manual_seed(17)
    size = len(problem.feature_NF)
    value_N = torch.randn(size, generator=generator, dtype=torch.float64)
    return value_N[problem.paths.node_T]


def _per_decision_credit(problem: Problem, staleness: float) -> Tensor:
    """A_t = Σ_{j ≥ t} ρ_{1…j} r_j: each reward weighed by the ratio of what led to it (Precup et
    al. 2000). No row of the table does this; with an outcome reward it is the full ratio."""
    tokens = problem.paths.tokens
    prefix_T = log_ratio(
        problem.logp_T(problem.theta_FA),
        problem.logp_T(problem.behaviour(staleness)),
        tokens,
        "prefix",
    ).value_T.exp()
    weighed_K = prefix_T[Runs.of(tokens.turn_T).last_R] * problem.reward_K
    return reward_to_go(weighed_K, problem.turns)[tokens.turn_T]


def noise_with_turn_rewards(problem: Problem, staleness: float) -> dict[str, float]:
    """Standard deviation per episode over ‖∇J‖, of estimators none of which is biased."""
    own_T = problem.value_T(problem.theta_FA)
    learned = _rule(credit=_LEARNED, ratio="full", critic=Critic("network"))
    late = partial(enumerated, problem, staleness=staleness)
    weighed_T = _per_decision_credit(problem, staleness)
    moments = {
        "full ratio × (R − leave-one-out mean), G = 2": late(
            _rule(credit=_LEAVE_ONE_OUT, ratio="full"), group=2
        ),
        "full ratio × turn-level comparison, leave one out, G = 2": late(
            _rule(credit=_TURN_LEAVE_ONE_OUT, ratio="full"), group=2
        ),
        "full ratio × reward to go": late(_rule(credit=_TO_GO, ratio="full")),
        "full ratio × (reward to go − V of π)": late(learned, value_T=own_T),
        "per-decision: prefix ratio × reward": late(_rule(credit=_TO_GO), advantage_T=weighed_T),
        "prefix ratio × TD error (V of π)": late(TD_PREFIX, value_T=own_T),
    }
    return {text: quality(problem, one).noise for text, one in moments.items()}


class Biased(NamedTuple):
    """Over problems: RMS of the sine of the angle to ∇J, and the mean cosine."""

    text: str
    turned: float
    cosine: float


def biased_when_fresh(seeds: int = 8) -> list[Biased]:
    """On-policy estimates whose direction is wrong, mostly on trees whose episodes may stop."""
    measured: dict[str, list[float]] = {}
    for seed in range(seeds):
        for text, cosine in _fresh_cosines(seed):
            measured.setdefault(text, []).append(cosine)
    return [
        Biased(text, math.sqrt(sum(1 - c * c for c in cosines) / seeds), sum(cosines) / seeds)
        for text, cosines in measured.items()
    ]


def _fresh_cosines(seed: int) -> Iterator[tuple[str, float]]:
    stopping = Shape(3, branching=3, first_tokens=1, stop=True)
    short = Shape(2, branching=3, first_tokens=1, stop=True)
    outcome, turned = make_problem(stopping, seed), make_problem(stopping, seed, turn_rewards=True)
    small = make_problem(short, seed, turn_rewards=True)
    for text, problem, rule, group in (
        (
            "sequence_mean, variable length, R",
            outcome,
            _rule(credit=_TO_GO, aggregate=Aggregate("sequence_mean")),
            1,
        ),
        (
            "sequence_mean, variable length, R − leave-one-out mean",
            outcome,
            _rule(credit=_LEAVE_ONE_OUT, aggregate=Aggregate("sequence_mean")),
            2,
        ),
        (
            "prompt_mean (or token_mean of one group), variable length, G = 2",
            outcome,
            _rule(credit=_LEAVE_ONE_OUT, aggregate=Aggregate("prompt_mean")),
            2,
        ),
        (
            "turn-level comparison, variable length, leave one out, G = 2",
            turned,
            _rule(credit=_TURN_LEAVE_ONE_OUT),
            2,
        ),
        (
            "(R − mean) / std, more than two outcomes, G = 4",
            small,
            _rule(credit=GroupComparison(scale="std")),
            4,
        ),
        ("rest, more than two outcomes", turned, _rule(credit=Filter()), 1),
    ):
        yield text, quality(problem, enumerated(problem, rule, 0.0, group)).cosine
    lam = _rule(credit=GAE(lam=0.95), critic=Critic("network"))
    late_T = turned.value_T(turned.behaviour(0.8))
    for text, value_T in (
        ("GAE(λ = .95), V of a policy .8 ago", late_T),
        ("GAE(λ = .95), V = 0", torch.zeros_like(late_T)),
    ):
        yield text, quality(turned, enumerated(turned, lam, 0.0, 1, value_T)).cosine
    for group in (8, 64):
        text = f"(R − mean) / std, outcomes 0 and 1, tasks of success .1 and .5, G = {group}"
        yield text, _two_tasks(seed, group)


def _two_tasks(seed: int, group: int) -> float:
    """Cosine of E ĝ summed over two tasks with ∇(J₁ + J₂)."""
    hard = make_problem(Shape(3), seed, success=0.1)
    other = make_problem(Shape(3), seed + 100, success=0.5)
    # One policy, two tasks.
    easy = dataclasses.replace(hard, reward_K=other.reward_K)
    row = Row("std", _rule(credit=GroupComparison(scale="std")))
    mean_D = closed_form(hard, row, 0.0, group).mean_D + closed_form(easy, row, 0.0, group).mean_D
    truth_D = hard.gradient_D + easy.gradient_D
    return float(torch.nn.functional.cosine_similarity(mean_D, truth_D, dim=0))
