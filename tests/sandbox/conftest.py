"""One real sandbox per test; starting one takes some 50 ms."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from steelyard.sandbox import Sandbox, SandboxSettings
from steelyard.sandbox.interpreter import find_python

SITE = Path(sysconfig.get_paths()["purelib"])
NEEDED = (
    *("pytest", "_pytest", "py.py", "pluggy", "iniconfig", "packaging", "pygments", "pydantic"),
    *("pydantic_core", "typing_extensions.py", "annotated_types", "typing_inspection"),
    f"pytest-{metadata.version('pytest')}.dist-info",
)


@pytest.fixture
def sandbox() -> Iterator[Sandbox]:
    settings = SandboxSettings(
        memory_mb=256, processes=16, cpu_seconds=10, file_mb=4, workspace_mb=8, output_kb=16
    )
    with Sandbox(settings) as made:
        yield made


@pytest.fixture(scope="session")
def open_directory() -> Iterator[Path]:
    """A directory that other users may enter; pytest's own are closed by each of its sessions."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture(scope="session")
def ordinary_user(
    open_directory: Path,
) -> Callable[[list[str]], subprocess.CompletedProcess[str]]:
    """Runs Python as an unprivileged uid, in an environment of its own with our sources."""
    if os.geteuid() != 0:
        pytest.skip("only root can become an ordinary user")
    root = open_directory
    environment = root / "environment"
    make = [find_python().executable, "-m", "venv", "--without-pip", str(environment)]
    if subprocess.run(make, capture_output=True, check=False).returncode != 0:
        pytest.skip("the sandbox's Python has no venv module")
    site = next(environment.glob("lib/python*/site-packages"))
    if site.parent.name != f"python{sys.version_info.major}.{sys.version_info.minor}":
        pytest.skip("the sandbox's Python is of another version than the running one")
    for name in NEEDED:
        copy = shutil.copytree if (SITE / name).is_dir() else shutil.copy
        copy(SITE / name, site / name)
    here = Path(__file__).parent
    shutil.copytree(here.parents[1] / "src" / "steelyard", root / "source" / "steelyard")
    shutil.copytree(here, root / "source" / "tests")
    python = str(environment / "bin" / "python3")

    def run(arguments: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", python, *arguments],
            env={"PYTHONPATH": str(root / "source"), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            cwd=root / "source",
            check=False,
        )

    return run
