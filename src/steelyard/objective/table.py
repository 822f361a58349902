"""The table of algorithms: rows of frozen records, each number with its source."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from steelyard.objective.aggregate import Aggregate
from steelyard.objective.algorithm import Algorithm
from steelyard.objective.correction import Correction
from steelyard.objective.credit import (
    GAE,
    Filter,
    GroupComparison,
    Imitation,
    RewardToGo,
    TeacherLogRatio,
)
from steelyard.objective.critic import Critic
from steelyard.objective.distillation import Distillation
from steelyard.objective.limit import ClipMin, Mask, StopGradientClip, Truncate, WideningWindow
from steelyard.objective.penalty import KL, ClipCov, KLCov

_ON_POLICY = "fresh samples only; no ratio in the source"
_EPISODE_SUM = Aggregate("constant", length=1)
_CENTRED = GroupComparison()
_NORMALISED = GroupComparison(scale="std")
_STD = "ddof 1 and ε 1e-4 are TRL's; the paper states neither"


def _row(name: str, source: str, **axes: tuple[Any, str]) -> Algorithm:
    """The algorithm that makes these choices, each with its source."""
    choices = {axis: choice for axis, (choice, _) in axes.items()}
    sources = {axis: told for axis, (_, told) in axes.items()}
    return Algorithm(name=name, source=source, sources=sources, **choices)


_ROWS = (
    _row(
        "reinforce",
        "Williams 1992",
        credit=(RewardToGo(), "Williams 1992; reward-to-go Sutton et al. 2000"),
        ratio=("none", _ON_POLICY),
        aggregate=(_EPISODE_SUM, "mean over episodes of the sum over tokens"),
    ),
    _row(
        "reinforce_baseline",
        "Williams 1992; MIXER 2016",
        credit=(RewardToGo(baseline="learned"), "Williams 1992; MIXER, Ranzato et al. 2016"),
        ratio=("none", _ON_POLICY),
        aggregate=(_EPISODE_SUM, "mean over episodes of the sum over tokens"),
        critic=(Critic("head"), "MIXER: linear, behind a stop-gradient"),
    ),
    _row(
        "rest",
        "Gulcehre et al. 2023",
        credit=(Filter(), "a return above the threshold; 0 takes any reward"),
        ratio=("none", "imitation of its own successes"),
        aggregate=(_EPISODE_SUM, "the sequence's log-likelihood"),
    ),
    _row(
        "rloo",
        "Ahmadian et al. 2024",
        credit=(GroupComparison(baseline="leave_one_out"), "the mean of the others as baseline"),
        ratio=("none", _ON_POLICY),
        aggregate=(_EPISODE_SUM, "the sequence's log-probability"),
        kl=(KL(0.03, "k1_reward"), "in the reward; .03 for TL;DR, appendix C"),
    ),
    _row(
        "ppo",
        "Schulman et al. 2017",
        credit=(GAE(1.0, 0.95), "Schulman et al. 2016; PPO 2017, table 3: λ .95; γ .99, here 1"),
        ratio=("token", "PPO 2017, eq. 6"),
        limit=(ClipMin(0.2, 0.2), "PPO 2017, eq. 7; ε .2"),
        aggregate=(Aggregate("token_mean"), "PPO 2017: mean over time steps"),
        critic=(Critic("network"), "a network of its own, as InstructGPT, Ouyang et al. 2022"),
    ),
    _row(
        "grpo",
        "DeepSeekMath 2024",
        credit=(_NORMALISED, f"DeepSeekMath, Shao et al. 2024, §4.1.2; {_STD}"),
        ratio=("token", "eq. 3"),
        limit=(ClipMin(0.2, 0.2), "eq. 3; gives no ε: .2 is PPO's"),
        aggregate=(Aggregate("sequence_mean"), "eq. 3: 1/G Σ 1/|o|"),
        kl=(KL(0.04, "k3"), "eq. 4 and §4.2: k3 as a loss, β .04"),
    ),
    _row(
        "dr_grpo",
        "Liu et al. 2025",
        credit=(_CENTRED, "Dr.GRPO, Liu et al. 2025, §3.2: no deviation"),
        ratio=("token", "as PPO"),
        limit=(ClipMin(0.2, 0.2), "as PPO; ε .2, table 6"),
        aggregate=(Aggregate("constant"), "§3.2: a constant, here the run's token limit"),
    ),
    _row(
        "dapo",
        "Yu et al. 2025",
        credit=(_NORMALISED, f"DAPO, eq. 9; {_STD}; with rl.dynamic_sampling, §3.2"),
        ratio=("token", "eq. 8"),
        limit=(ClipMin(0.2, 0.28), "§3.1 and §4.1: .2 and .28"),
        aggregate=(Aggregate("token_mean"), "§3.3; eq. 12 per group, here per batch as in verl"),
    ),
    _row(
        "maxrl",
        "Tajwar et al. 2026",
        credit=(GroupComparison(scale="mean"), "MaxRL, arXiv:2602.02710: ÷ the group's mean"),
        ratio=("token", "as PPO, in its code (verl)"),
        limit=(ClipMin(0.2, 0.2), "as PPO; ε .2, verl's default"),
        aggregate=(Aggregate("token_mean"), "verl's default; its theorem sums over tokens"),
    ),
    _row(
        "cispo",
        "MiniMax-M1 2025",
        credit=(_NORMALISED, f"MiniMax-M1 2025, §3.1: GRPO's; {_STD}"),
        ratio=("token", "eq. 5"),
        limit=(
            StopGradientClip(highest_ratio=5.0),
            "§3.1: no lower bound; the upper is not published: 5 is TRL's, for ScaleRL",
        ),
        aggregate=(Aggregate("token_mean"), "eq. 4 per group, here per batch as in TRL"),
    ),
    _row(
        "gspo",
        "Zheng et al. 2025",
        credit=(_NORMALISED, f"GSPO, Zheng et al. 2025, eq. 6; {_STD}"),
        ratio=("sequence", "eq. 7, in the token form of eq. 13–14"),
        limit=(ClipMin(3e-4, 4e-4), "§5.1: 3e-4 and 4e-4, not PPO's .2"),
        aggregate=(Aggregate("sequence_mean"), "eq. 5 and 13: a mean per sequence"),
    ),
    _row(
        "ctpo",
        "Zhang et al. 2026",
        credit=(_NORMALISED, "CTPO, arXiv:2605.07331: GRPO's; ddof 1 and ε 1e-4 are TRL's"),
        ratio=("prefix", "its code: action tokens only, stop-gradient on the prefix"),
        limit=(WideningWindow(0.025, 0.05, 0.5), "p .5; .025, .05 as in its code (default p: 0)"),
        aggregate=(Aggregate("sequence_mean"), "1/G Σ 1/|o|; its code takes the token mean"),
    ),
    _row(
        "full_ratio",
        "Precup et al. 2000",
        credit=(_CENTRED, "the group mean as baseline"),
        ratio=("full", "importance sampling of whole trajectories, Precup et al. 2000"),
        limit=(Truncate(5.0), "truncated at 5, as CTPO's script caps its sequence weight"),
        aggregate=(_EPISODE_SUM, "mean over episodes of the sum over tokens"),
    ),
    _row(
        "sft",
        "maximum likelihood",
        credit=(Imitation(), "maximum likelihood"),
        aggregate=(Aggregate("token_mean"), "every token the same"),
    ),
    _row(
        "opd",
        "Thinking Machines 2025",
        credit=(TeacherLogRatio(), "sampled reverse KL, discount 0, coefficient 1"),
        ratio=("token", "importance sampling over the sampler"),
        anchor=("behaviour", "the sampler"),
        limit=(None, "none in the source"),
        aggregate=(Aggregate("token_mean"), "its sum over tokens, here the mean"),
    ),
)

ALGORITHMS: dict[str, Algorithm] = {row.name: row for row in _ROWS}

KINDS: Mapping[str, Mapping[str, type[Any]]] = {
    "credit": {
        "imitation": Imitation,
        "filter": Filter,
        "reward_to_go": RewardToGo,
        "group_comparison": GroupComparison,
        "gae": GAE,
        "teacher_log_ratio": TeacherLogRatio,
    },
    "limit": {
        "clip_min": ClipMin,
        "stop_gradient_clip": StopGradientClip,
        "widening_window": WideningWindow,
        "mask": Mask,
        "truncate": Truncate,
    },
    "aggregate": {"aggregate": Aggregate},
    "correction": {"correction": Correction},
    "kl": {"kl": KL},
    "covariance": {"clip_cov": ClipCov, "kl_cov": KLCov},
    "critic": {"critic": Critic},
    "distillation": {"distillation": Distillation},
}
"""Per axis, the records it may hold, by the name that a run file gives them."""


def algorithm(name: str, **changes: Any) -> Algorithm:
    """The row `name` of the table, with some axes changed.

    Raises:
        ValueError: no such row, or a combination that cannot be.
    """
    if name not in ALGORITHMS:
        known = ", ".join(sorted(ALGORITHMS))
        raise ValueError(f"algorithm.name: {name!r} is not known; choose one of {known}")
    row = ALGORITHMS[name]
    sources = {axis: s for axis, s in row.sources.items() if axis not in changes}
    return dataclasses.replace(row, **changes, sources=sources)


def as_table(row: Algorithm) -> dict[str, Any]:
    """The record as JSON values, each axis with its kind."""
    table: dict[str, Any] = {}
    for axis in dataclasses.fields(row):
        value = getattr(row, axis.name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            kinds = {record: kind for kind, record in KINDS[axis.name].items()}
            named = {"kind": kinds[type(value)]} if len(kinds) > 1 else {}
            value = named | dataclasses.asdict(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        table[axis.name] = value
    return table
