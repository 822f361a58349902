"""`steelyard doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Callable

import typer
from rich.console import Console


def doctor() -> None:
    """Check sandbox, packages, model, disk; each line says what is wrong and the fix."""
    console = Console()
    failures = 0
    for name, examine in _CHECKS.items():
        try:
            console.print(f"[green]ok[/]    {name}: {examine()}", highlight=False)
        except ValueError as error:
            failures += 1
            console.print(f"[red]wrong[/] {name}: ", end="", highlight=False)
            console.print(str(error), markup=False, highlight=False)
    if failures:
        raise typer.Exit(1)


def _machine() -> str:
    if platform.system() != "Linux":
        raise ValueError("training needs Linux (bubblewrap); show and algorithms work here")
    return f"Linux {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"


def _sandbox() -> str:
    from steelyard.sandbox import check_available

    check_available()
    return "bubblewrap runs"


def _packages() -> str:
    missing = [
        name
        for name in ("torch", "transformers", "peft", "safetensors", "gguf")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        raise ValueError(
            f"missing {', '.join(missing)}; install them with: pip install 'steelyard[train]'"
        )
    return f"torch {importlib.metadata.version('torch')}, transformers " + (
        importlib.metadata.version("transformers")
    )


def _model() -> str:
    if importlib.util.find_spec("transformers") is None:
        raise ValueError("needs the packages above")
    from steelyard.models import EMBEDDED, resolve

    found = resolve(EMBEDDED)
    return f"{EMBEDDED} at {found.path}"


def _accelerator() -> str:
    if importlib.util.find_spec("torch") is None:
        raise ValueError("needs the packages above")
    import torch

    if torch.cuda.is_available():
        use = "--set engine.device=cuda --set learner.device=cuda"
        return f"{torch.cuda.get_device_name()}; to use it: {use}"
    return "none; training runs on the CPU"


def _disk() -> str:
    free_gb = shutil.disk_usage(".").free / 1e9
    if free_gb < 5:
        raise ValueError(f"{free_gb:.1f} GB free here; a run of the demo needs about 5 GB")
    return f"{free_gb:.0f} GB free here"


_CHECKS: dict[str, Callable[[], str]] = {
    "machine": _machine,
    "sandbox": _sandbox,
    "packages": _packages,
    "embedded model": _model,
    "accelerator": _accelerator,
    "disk": _disk,
}
