"""What a sandbox may use."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class SandboxSettings(BaseModel):
    """Limits of one sandbox. Sizes are in MiB and KiB, times in seconds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    backend: Literal["bubblewrap", "docker", "podman"] = Field(
        default="bubblewrap",
        description="What isolates. If it is missing nothing runs: there is no fall-back.",
    )
    image: str = Field(
        default="docker.io/library/python:3.12-slim",
        min_length=1,
        pattern="^[^-]",
        description="With docker or podman: the image, which must be there and have python3.",
    )
    memory_mb: int = Field(
        default=1024,
        ge=64,
        description="Address space of each process, and resident memory of all of them together.",
    )
    processes: int = Field(
        default=64,
        ge=2,
        description="Processes and threads at once, the supervisor included.",
    )
    cpu_seconds: int = Field(default=60, ge=1, description="CPU time of each process.")
    file_mb: int = Field(
        default=16, ge=1, description="Largest file that may be written, read or collected."
    )
    workspace_mb: int = Field(
        default=64, ge=1, description="Size of the workspace, and of each scratch directory."
    )
    output_kb: int = Field(
        default=64, ge=1, description="How much of stdout, and of stderr, is kept of one command."
    )
    packages: bool = Field(
        default=False,
        description="Whether the running environment's Python packages can be imported inside; "
        "with docker or podman those of the image.",
    )
    start_timeout_seconds: float = Field(
        default=10.0, gt=0, description="How long a sandbox may take to start."
    )
    grace_seconds: float = Field(
        default=5.0,
        gt=0,
        description="How long the supervisor may take beyond a request's own time limit.",
    )
