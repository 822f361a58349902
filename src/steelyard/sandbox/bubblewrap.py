"""How a sandbox is started with bubblewrap: its uid on the host, the command line."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path

from steelyard.sandbox.errors import SandboxError, SandboxUnavailable
from steelyard.sandbox.interpreter import SandboxPython, find_python, system_python
from steelyard.sandbox.launching import (
    HostUid,
    Launch,
    Launched,
    environment,
    sources,
    spawn,
    supervisor_command,
)
from steelyard.sandbox.packages import SandboxPackages, find_packages

_SOURCE_ROOT = "/run/source"
_AGENT_ID = 1000
_IN_A_CONTAINER = (
    "in a container, start it with --security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined --security-opt systempaths=unconfined"
)
_REMEDIES = (
    (("ENOSPC", "No space left"), "set sysctl user.max_user_namespaces to more than 0"),
    (("Can't mount proc", "pivot_root", "Failed to make / slave"), _IN_A_CONTAINER),
    (
        ("uid map", "RTM_NEWADDR"),
        "on Ubuntu 23.10 or newer give bwrap an AppArmor profile with userns, or set sysctl "
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    (
        ("namespace", "Operation not permitted", "setpriv"),
        f"set sysctl kernel.unprivileged_userns_clone=1 where it exists; {_IN_A_CONTAINER}",
    ),
)
"""What bwrap prints, most specific first, and what to do about it."""
_SYSTEM_DIRECTORIES = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime", "/etc/mime.types")
_OWN_FILES: Mapping[str, str] = {
    "/etc/passwd": f"agent:x:{_AGENT_ID}:{_AGENT_ID}::/work:/bin/bash\n",
    "/etc/group": f"agent:x:{_AGENT_ID}:\n",
    "/etc/hosts": "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
_UID_BASES = (1_900_000_000, 30_000)
"""First of the host uids that sandboxes of a root trainer get. systemd leaves the first range to
nobody; the second is for containers that map no more than 65,536 uids."""


def start(launch: Launch) -> Launched:
    """Starts bubblewrap with the supervisor as pid 1, under a uid of its own if we are root.

    Raises SandboxUnavailable if a program that this needs is not installed, and SandboxError if
    the workspace would hide every Python that could run in it.
    """
    uid: HostUid | None = None
    descriptors: list[int] = []
    ours, theirs = socket.socketpair()
    try:
        if os.geteuid() == 0:
            uid = HostUid(HostUid.mapped_base(_UID_BASES))
        python, packages = _interpreter(launch)
        supervisor = supervisor_command(python.executable, _SOURCE_ROOT, str(theirs.fileno()))
        command = command_line(
            launch, python, packages, supervisor, None if uid is None else uid.uid, descriptors
        )
        process = spawn(command, (theirs.fileno(), *descriptors))
        return _Bubblewrap(process, ours, uid)
    except BaseException:
        ours.close()
        if uid is not None:
            uid.release()
        raise
    finally:
        theirs.close()
        for descriptor in descriptors:
            os.close(descriptor)


def command_line(
    launch: Launch,
    python: SandboxPython,
    packages: SandboxPackages | None,
    command: list[str],
    uid: int | None,
    descriptors: list[int],
) -> list[str]:
    """bubblewrap with everything that keeps `command` in its place, under the host's `uid`.

    Appends the descriptors that it needs to inherit; the caller closes them.
    """
    bwrap = _installed("bwrap", "bubblewrap")
    privileges: list[str] = []
    if uid is not None:
        setpriv = _installed("setpriv", "util-linux")
        privileges = [setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    return [
        *privileges,
        bwrap,
        *_isolation(),
        *_file_system(python, launch),
        *_laid_files(descriptors),
        *_read_only(descriptors, launch.read_only),
        *(_packages(descriptors, packages) if packages is not None else ()),
        *_environment(launch),
        "--remount-ro", "/dev",
        "--remount-ro", "/",
        "--chdir", launch.workspace,
        "--", *command,
    ]  # fmt: skip


def _interpreter(launch: Launch) -> tuple[SandboxPython, SandboxPackages | None]:
    """The Python of this sandbox, the system's where the workspace would hide ours, and its
    packages. Raises SandboxError where neither will do: it concerns this workspace alone."""

    def furnished(python: SandboxPython) -> tuple[SandboxPython, SandboxPackages | None]:
        return python, find_packages(python) if launch.settings.packages else None

    python = find_python()
    if _apart(python, launch.workspace):
        return furnished(python)
    why = "there is no other"
    try:
        system = system_python()
        if _apart(system, launch.workspace):
            return furnished(system)
    except SandboxUnavailable as error:
        why = str(error)
    raise SandboxError(
        f"the workspace {launch.workspace} and this machine's Python, {_prefix(python)}, cannot "
        "both be in a sandbox: give the task another WORKDIR, or run Steelyard with a Python "
        f"elsewhere ({why})"
    )


def _apart(python: SandboxPython, workspace: str) -> bool:
    """Whether neither would hide the other."""
    prefix = _prefix(python)
    return not (prefix.is_relative_to(workspace) or Path(workspace).is_relative_to(prefix))


def _prefix(python: SandboxPython) -> Path:
    return Path(python.prefix or "/usr")


class _Bubblewrap(Launched):
    def __init__(
        self, process: subprocess.Popen[bytes], control: socket.socket, uid: HostUid | None
    ) -> None:
        super().__init__(process, control)
        self._uid = uid

    def kill(self) -> None:
        self.process.kill()  # the namespace dies with it

    def release(self) -> None:
        if self._uid is not None:
            self._uid.release()

    def explain(self, stderr: str) -> SandboxError | SandboxUnavailable:
        return explain_failure(stderr)


def _isolation() -> list[str]:
    return [
        "--unshare-all", "--unshare-user", "--disable-userns",
        "--die-with-parent", "--new-session", "--as-pid-1",
        "--cap-drop", "ALL",
        "--uid", str(_AGENT_ID), "--gid", str(_AGENT_ID),
        "--hostname", "sandbox",
    ]  # fmt: skip


def _file_system(python: SandboxPython, launch: Launch) -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for directory in _SYSTEM_DIRECTORIES:
        if os.path.islink(directory):
            arguments += ["--symlink", os.readlink(directory), directory]
        elif os.path.isdir(directory):
            arguments += ["--ro-bind", directory, directory]
    for path in _SYSTEM_FILES:
        arguments += ["--ro-bind-try", path, path]
    if python.prefix is not None:
        arguments += ["--ro-bind", python.prefix, python.prefix]
    for name in ("python", "python3"):
        arguments += ["--symlink", python.executable, f"/run/bin/{name}"]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    size_bytes = launch.settings.workspace_mb << 20
    for directory in (launch.workspace, *launch.scratch):
        arguments += ["--size", str(size_bytes), "--tmpfs", directory]
    return arguments


def _laid_files(descriptors: list[int]) -> list[str]:
    files = {path: text.encode() for path, text in _OWN_FILES.items()}
    files |= {f"{_SOURCE_ROOT}/{name}": data for name, data in sources().items()}
    arguments: list[str] = []
    for path, data in files.items():
        descriptor = _data_descriptor(descriptors, data)
        arguments += ["--perms", "0444", "--file", str(descriptor), path]  # on / (read-only)
    return arguments


def _read_only(descriptors: list[int], directories: Mapping[str, Mapping[str, bytes]]) -> list[str]:
    arguments: list[str] = []
    for directory, files in directories.items():
        arguments += ["--tmpfs", directory]
        for path, data in files.items():
            descriptor = str(_data_descriptor(descriptors, data))
            mode = "0755" if data.startswith(b"#!") else "0644"
            arguments += ["--perms", mode, "--file", descriptor, f"{directory}/{path}"]
        arguments += ["--remount-ro", directory]
    return arguments


def _packages(descriptors: list[int], packages: SandboxPackages) -> list[str]:
    arguments: list[str] = []
    for path, directory in packages.binds.items():
        arguments += ["--ro-bind", directory, path]
    for path, target in packages.links.items():
        arguments += ["--symlink", target, path]
    for path, text in packages.files.items():
        descriptor = _data_descriptor(descriptors, text.encode())
        arguments += ["--perms", "0555", "--file", str(descriptor), path]
    return arguments


def _environment(launch: Launch) -> list[str]:
    variables = {
        "PATH": "/run/bin:/usr/local/bin:/usr/bin:/bin",
        **environment(launch.workspace),
    }
    if launch.settings.packages:
        # A linear algebra library starts a thread per core of the machine, which the limits on
        # processes and address space would turn into failures.
        variables |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    arguments = ["--clearenv"]
    for name, value in variables.items():
        arguments += ["--setenv", name, value]
    return arguments


def _data_descriptor(descriptors: list[int], data: bytes) -> int:
    descriptor = os.memfd_create("steelyard")
    descriptors.append(descriptor)
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _installed(program: str, package: str) -> str:
    path = shutil.which(program)
    if path is None:
        raise SandboxUnavailable(
            f"{program} is not installed, and nothing runs without a sandbox: install the package "
            f"{package} (Debian, Ubuntu: apt-get install {package}; Fedora: dnf install {package})"
        )
    return path


def explain_failure(stderr: str) -> SandboxError | SandboxUnavailable:
    """Why bubblewrap did not start, from what it printed."""
    said = " ".join(stderr.split())[-300:] or "nothing"
    if "unknown option" in stderr.lower():
        return SandboxUnavailable(f"bubblewrap 0.8 or newer is needed (bwrap said: {said})")
    for hints, remedy in _REMEDIES:
        if any(hint in stderr for hint in hints):
            return SandboxUnavailable(
                f"user namespaces are not available to bubblewrap: {remedy} (bwrap said: {said})"
            )
    return SandboxError(f"the sandbox did not start (bwrap said: {said})")
