"""The running environment's packages inside a sandbox, where they are asked for."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterator

import pytest

from steelyard.sandbox import Sandbox, SandboxSettings


@pytest.fixture(params=[True, False], ids=["with packages", "without"])
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    with Sandbox(SandboxSettings(packages=request.param)) as started:
        yield started


def output(sandbox: Sandbox, command: str) -> tuple[int, str]:
    completed = sandbox.run(["sh", "-c", command], timeout_seconds=20)
    return completed.exit_code, (completed.stdout + completed.stderr).decode()


@pytest.mark.parametrize(
    "command",
    ["python3 -I -c 'import pytest'", "python3 -I -m pytest --version", "pytest --version"],
)
def test_packages_and_their_programs_are_there_only_if_asked_for(
    sandbox: Sandbox, command: str
) -> None:
    code, said = output(sandbox, command)
    assert (code == 0) == sandbox.settings.packages, said


def test_packages_are_read_only_and_the_interpreter_names_no_host_path() -> None:
    folder = sysconfig.get_path("purelib")
    with Sandbox(SandboxSettings(packages=True)) as sandbox:
        code, said = output(sandbox, "python3 -c 'import sys; print(sys.path, sys.prefix)'")
        assert code == 0
        assert folder not in said
        assert output(sandbox, "touch /run/lib/python3*/site-packages/x")[0] != 0
