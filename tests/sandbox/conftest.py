"""One real sandbox per test; starting one takes some 50 ms."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from steelyard.sandbox import Sandbox, SandboxSettings


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    settings = SandboxSettings(
        memory_mb=256, processes=16, cpu_seconds=10, file_mb=4, workspace_mb=8, output_kb=16
    )
    with Sandbox(settings) as made:
        yield made
