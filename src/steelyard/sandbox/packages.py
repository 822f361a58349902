"""The running environment's packages, shown in a sandbox as a virtual environment at /run."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import site
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.sandbox.errors import SandboxUnavailable
from steelyard.sandbox.interpreter import SandboxPython, find_python, readable_by_others

_ABI = "import sys; print(sys.implementation.cache_tag + sys.abiflags)"
_LAUNCHER = "/run/bin/.launch"
_LAUNCH = """#!/run/bin/python3
import importlib, os, sys
scripts = {scripts!r}
module, _, function = scripts[os.path.basename(sys.argv[0])].partition(":")
target = importlib.import_module(module)
for name in function.split("."):
    target = getattr(target, name)
sys.exit(target())
"""


@dataclass(frozen=True)
class SandboxPackages:
    """What makes /run a virtual environment: `binds` read-only, `links` and `files` as they are.

    Each maps a path in the sandbox: to a directory of the host, to a link's target, to a text.
    """

    binds: Mapping[str, str]
    links: Mapping[str, str]
    files: Mapping[str, str]


@functools.cache
def find_packages(python: SandboxPython) -> SandboxPackages:
    """The running environment's site-packages and console scripts, for the sandbox's `python`.

    What is installed in editable mode, or for one user only, stays outside. Raises
    SandboxUnavailable if the sandbox could not read or not import the packages.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    paths = sysconfig.get_paths()
    binds = {f"/run/lib/{version}/site-packages": paths["purelib"]}
    if os.path.realpath(paths["platlib"]) != os.path.realpath(paths["purelib"]):
        binds[f"/run/{sys.platlibdir}/{version}/site-packages"] = paths["platlib"]
    for directory in binds.values():
        if not readable_by_others(os.path.realpath(directory)):
            raise SandboxUnavailable(
                f"the packages in {directory} cannot be shown in a sandbox: an unprivileged user "
                "cannot read that directory; create the environment outside /root, or give "
                "others the permission x on every directory above it"
            )
    _require_same_abi(python)
    scripts = _console_scripts(tuple(binds.values()))
    shared = "true" if python.own and _has_system_packages() else "false"
    home = os.path.dirname(os.path.realpath(python.executable))
    return SandboxPackages(
        binds=binds,
        links={f"/run/bin/{name}": _LAUNCHER for name in scripts},
        files={
            "/run/pyvenv.cfg": f"home = {home}\ninclude-system-site-packages = {shared}\n",
            _LAUNCHER: _LAUNCH.format(scripts=scripts),
        },
    )


def _require_same_abi(python: SandboxPython) -> None:
    if python.own:
        return
    command = [python.executable, "-I", "-S", "-c", _ABI]
    theirs = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    ours = f"{sys.implementation.cache_tag}{sys.abiflags}"
    if theirs != ours:
        raise SandboxUnavailable(
            f"the running environment's packages are built for {ours}, but the sandbox runs "
            f"{python.executable}, which is {theirs}: {sys.base_prefix} cannot be read by an "
            f"unprivileged user; install Python outside /root, or use one of {theirs}"
        )


def _has_system_packages() -> bool:
    """Whether the running environment imports what its base interpreter has installed."""
    base = Path(sys.base_prefix)
    return sys.prefix == sys.base_prefix or any(
        Path(directory).is_relative_to(base) for directory in site.getsitepackages()
    )


def _console_scripts(directories: tuple[str, ...]) -> dict[str, str]:
    return {
        entry.name: entry.value.partition("[")[0].strip()
        for distribution in importlib.metadata.distributions(path=[*directories])
        for entry in distribution.entry_points
        if entry.group == "console_scripts" and "/" not in entry.name
        if not entry.name.startswith(("python", "."))
    }


@functools.cache
def packages_can_be_shown() -> bool:
    """Whether a sandbox here can import the running environment's packages."""
    try:
        find_packages(find_python())
    except SandboxUnavailable:
        return False
    return True
