"""How programs are graded."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from steelyard.sandbox import SandboxSettings


class GradingSettings(BaseModel):
    """Settings of the grader. Times are in seconds of wall clock."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    workers: int = Field(default=2, ge=1, description="Programs that are graded at the same time.")
    call_timeout_seconds: float = Field(
        default=3.0,
        gt=0,
        description="How long one call of a graded function, or the import of its file, may take.",
    )
    max_hung_calls: int = Field(
        default=2,
        ge=1,
        description="Calls without an answer after which a program's other checks fail untried.",
    )
    sandbox: SandboxSettings = Field(
        default=SandboxSettings(cpu_seconds=30),
        description="Limits of the sandboxes in which programs are graded.",
    )
