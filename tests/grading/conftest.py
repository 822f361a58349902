"""One grader with one worker for all tests: what one program leaves, the next one meets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steelyard.grading import Grader, GradingSettings
from steelyard.sandbox import SandboxSettings


@pytest.fixture(scope="module")
def grader() -> Iterator[Grader]:
    sandbox = SandboxSettings(
        memory_mb=256, processes=16, cpu_seconds=10, file_mb=4, workspace_mb=8, output_kb=16
    )
    settings = GradingSettings(
        workers=1, call_timeout_seconds=1.0, max_hung_calls=1, sandbox=sandbox
    )
    with Grader(settings) as made:
        yield made
