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

_ROWS = (
    Algorithm(
        name="reinforce",
        source="Williams 1992",
        credit=RewardToGo(),
        aggregate=_EPISODE_SUM,
        sources={
            "credit": "Williams 1992; reward-to-go Sutton et al. 2000",
            "ratio": _ON_POLICY,
            "aggregate": "mean over episodes of the sum over tokens",
        },
    ),
    Algorithm(
        name="reinforce_baseline",
        source="Williams 1992; MIXER 2016",
        credit=RewardToGo(baseline="learned"),
        aggregate=_EPISODE_SUM,
        critic=Critic("head"),
        sources={
            "credit": "Williams 1992 §3; a learned baseline as in MIXER, Ranzato et al. 2016",
            "ratio": _ON_POLICY,
            "aggregate": "mean over episodes of the sum over tokens",
            "critic": "MIXER: linear, behind a stop-gradient",
        },
    ),
    Algorithm(
        name="rest",
        source="Gulcehre et al. 2023",
        credit=Filter(),
        aggregate=_EPISODE_SUM,
        sources={
            "credit": "a return above the threshold; 0 takes any reward",
            "ratio": "imitation of its own successes",
            "aggregate": "the sequence's log-likelihood",
        },
    ),
    Algorithm(
        name="rloo",
        source="Ahmadian et al. 2024",
        credit=GroupComparison(baseline="leave_one_out"),
        aggregate=_EPISODE_SUM,
        kl=KL(0.03, "k1_reward"),
        sources={
            "credit": "the mean of the others as baseline",
            "ratio": _ON_POLICY,
            "aggregate": "the sequence's log-probability",
            "kl": "in the reward; .03 as in TRL's RLOO trainer",
        },
    ),
    Algorithm(
        name="ppo",
        source="Schulman et al. 2017",
        credit=GAE(gamma=1.0, lam=0.95),
        ratio="token",
        limit=ClipMin(0.2, 0.2),
        critic=Critic("network"),
        sources={
            "credit": "GAE, Schulman et al. 2016; λ .95 PPO 2017; γ 1 for episodes that end",
            "ratio": "PPO 2017, eq. 6",
            "limit": "PPO 2017, eq. 7; ε .2",
            "critic": "InstructGPT, Ouyang et al. 2022: a network of its own",
            "aggregate": "PPO 2017: mean over time steps",
        },
    ),
    Algorithm(
        name="grpo",
        source="DeepSeekMath 2024",
        credit=_NORMALISED,
        ratio="token",
        limit=ClipMin(0.2, 0.2),
        aggregate=Aggregate("sequence_mean"),
        kl=KL(0.04, "k3"),
        sources={
            "credit": f"DeepSeekMath, Shao et al. 2024, §4.1.2; {_STD}",
            "ratio": "eq. 3",
            "limit": "eq. 3; ε .2 is PPO's",
            "aggregate": "eq. 3: 1/G Σ 1/|o|",
            "kl": "eq. 4 and §4.2: k3 as a loss, β .04",
        },
    ),
    Algorithm(
        name="dr_grpo",
        source="Liu et al. 2025",
        credit=_CENTRED,
        ratio="token",
        limit=ClipMin(0.2, 0.2),
        aggregate=Aggregate("constant"),
        sources={
            "credit": "Dr.GRPO, Liu et al. 2025, §3.2: no deviation",
            "ratio": "as PPO",
            "limit": "as PPO: ε .2",
            "aggregate": "§3.2: a constant, here the run's token limit",
        },
    ),
    Algorithm(
        name="dapo",
        source="Yu et al. 2025",
        credit=_NORMALISED,
        ratio="token",
        limit=ClipMin(0.2, 0.28),
        sources={
            "credit": f"DAPO, Yu et al. 2025, eq. 9; {_STD}; with rl.dynamic_sampling, §3.2",
            "ratio": "eq. 8",
            "limit": "§3.1 and §4.1: .2 and .28",
            "aggregate": "§3.3: every token the same",
        },
    ),
    Algorithm(
        name="cispo",
        source="MiniMax-M1 2025",
        credit=_NORMALISED,
        ratio="token",
        limit=StopGradientClip(highest_ratio=5.0),
        sources={
            "credit": f"MiniMax-M1 2025, §3.1: GRPO's; {_STD}",
            "ratio": "eq. 5",
            "limit": "eq. 4–5: no lower bound; the upper is not published, 5 is ScaleRL's",
            "aggregate": "eq. 4: Σ over all tokens of the group",
        },
    ),
    Algorithm(
        name="gspo",
        source="Zheng et al. 2025",
        credit=_NORMALISED,
        ratio="sequence",
        limit=ClipMin(3e-4, 4e-4),
        aggregate=Aggregate("sequence_mean"),
        sources={
            "credit": f"GSPO, Zheng et al. 2025, eq. 6; {_STD}",
            "ratio": "eq. 7, in the token form of eq. 13–14",
            "limit": "§5.1: 3e-4 and 4e-4, not PPO's .2",
            "aggregate": "eq. 5 and 13: a mean per sequence",
        },
    ),
    Algorithm(
        name="ctpo",
        source="CTPO (horizon-llm)",
        credit=_NORMALISED,
        ratio="prefix",
        limit=WideningWindow(0.025, 0.05, 0.5),
        aggregate=Aggregate("sequence_mean"),
        sources={
            "credit": f"GRPO's; {_STD}",
            "ratio": "action tokens only, stop-gradient on the prefix",
            "limit": ".025, .05, p = .5 (its code's default of 0 is a fixed window)",
            "aggregate": "the paper's 1/G Σ 1/|o|; its code takes the token mean",
        },
    ),
    Algorithm(
        name="full_ratio",
        source="Precup et al. 2000",
        credit=_CENTRED,
        ratio="full",
        limit=Truncate(5.0),
        aggregate=_EPISODE_SUM,
        sources={
            "credit": "the group mean as baseline",
            "ratio": "importance sampling of whole trajectories, Precup et al. 2000",
            "limit": "truncated at 5, as CTPO's script caps its sequence weight",
            "aggregate": "mean over episodes of the sum over tokens",
        },
    ),
    Algorithm(
        name="sft",
        source="maximum likelihood",
        credit=Imitation(),
        sources={"credit": "maximum likelihood", "aggregate": "every token the same"},
    ),
    Algorithm(
        name="opd",
        source="Thinking Machines 2025",
        credit=TeacherLogRatio(),
        ratio="token",
        anchor="behaviour",
        sources={
            "credit": "Thinking Machines 2025: sampled reverse KL, discount 0, coefficient 1",
            "ratio": "importance sampling over the sampler",
            "limit": "none in the source",
            "aggregate": "its sum over tokens, here the mean",
        },
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
            only = len(kinds) == 1
            named = {} if only else {"kind": kinds[type(value)]}
            value = named | dataclasses.asdict(value)
        elif isinstance(value, Mapping):
            value = dict(value)
        table[axis.name] = value
    return table
