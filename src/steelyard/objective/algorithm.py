"""An algorithm is one choice per axis; the table of them is data."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from steelyard.objective.aggregate import Aggregate
from steelyard.objective.credit import GroupComparison
from steelyard.objective.limit import ClipMin


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """Where the weight of a sampled token comes from, and how it is limited and averaged.

    `credit` None means that every token weighs 1 (imitation). `ratio` "none" weighs log π itself
    and is right only for fresh samples.
    """

    name: str
    credit: GroupComparison | None
    ratio: Literal["none", "token"]
    limit: ClipMin | None
    aggregate: Aggregate
    source: str

    def __post_init__(self) -> None:
        if self.limit is not None and self.ratio == "none":
            raise ValueError(
                f"algorithm {self.name!r}: a limit bounds a ratio, and ratio is 'none'; drop the "
                "limit or set ratio = 'token'"
            )
        if self.credit is None and self.ratio != "none":
            raise ValueError(
                f"algorithm {self.name!r}: imitation weighs demonstrated tokens, which no policy "
                "sampled, so no ratio exists; set ratio = 'none'"
            )


ALGORITHMS: dict[str, Algorithm] = {
    row.name: row
    for row in (
        Algorithm(
            name="sft",
            credit=None,
            ratio="none",
            limit=None,
            aggregate=Aggregate("token_mean"),
            source="maximum likelihood on demonstrations",
        ),
        Algorithm(
            name="rloo",
            credit=GroupComparison(baseline="leave_one_out"),
            ratio="none",
            limit=None,
            aggregate=Aggregate("token_mean"),
            source="Ahmadian et al. 2024, §2.3; token mean instead of the sequence sum",
        ),
        Algorithm(
            name="grpo",
            credit=GroupComparison(scale="std"),
            ratio="token",
            limit=ClipMin(0.2, 0.2),
            aggregate=Aggregate("sequence_mean"),
            source="DeepSeekMath §4.1, without its reference KL",
        ),
        Algorithm(
            name="dr_grpo",
            credit=GroupComparison(),
            ratio="token",
            limit=ClipMin(0.2, 0.2),
            aggregate=Aggregate("constant"),
            source="Liu et al. 2025 (Dr.GRPO), §3.2; length is the run's token limit",
        ),
        Algorithm(
            name="dapo",
            credit=GroupComparison(scale="std"),
            ratio="token",
            limit=ClipMin(0.2, 0.28),
            aggregate=Aggregate("token_mean"),
            source="Yu et al. 2025 (DAPO), §3; with rl.dynamic_sampling",
        ),
    )
}


def algorithm(name: str, **changes: Any) -> Algorithm:
    """The row `name` of the table, with some axes changed.

    Raises:
        ValueError: no such row, no such axis, or a combination that cannot be.
    """
    if name not in ALGORITHMS:
        known = ", ".join(sorted(ALGORITHMS))
        raise ValueError(f"algorithm.name: {name!r} is not known; choose one of {known}")
    return dataclasses.replace(ALGORITHMS[name], **changes)
