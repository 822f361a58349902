"""How an audit is run."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from steelyard.auditing.target import DEFAULT_THRESHOLD
from steelyard.grading import GradingSettings


class AuditSettings(BaseModel):
    """Settings of an audit."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    quick: bool = Field(
        default=False, description="Only the reference, doing nothing, leaks and the static lint."
    )
    only: str = Field(
        default="", description="One probe (exits/atexit), or one family (exits), and nothing else."
    )
    threshold: float = Field(
        default=DEFAULT_THRESHOLD, gt=0, le=1, description="The reward that counts as a success."
    )
    shared: bool = Field(
        default=False,
        description="Grade in the agent's own sandbox, as Harbor's default mode does.",
    )
    explored: int | None = Field(
        default=None,
        ge=0,
        description="Tasks whose sandbox is explored for leaks, the first ones; absent: all.",
    )
    max_examples: int = Field(
        default=8, ge=1, description="Examples of a JSONL that a reward function is tried on."
    )
    max_mutants: int = Field(
        default=24,
        ge=0,
        description="Mutants of the reference that are graded, for each task; four times as many "
        "where its checks are data.",
    )
    gold_runs: int = Field(
        default=5,
        ge=1,
        description="How often the reference is graded, to see whether it is flaky.",
    )
    grading: GradingSettings = Field(
        default=GradingSettings(), description="Settings of the grader under audit."
    )
