"""How a sandbox is started with bubblewrap: its uid on the host, the command line."""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from steelyard.sandbox.errors import SandboxError, SandboxUnavailable
from steelyard.sandbox.interpreter import SandboxPython, find_python
from steelyard.sandbox.packages import SandboxPackages, find_packages
from steelyard.sandbox.seccomp import seccomp_filter

# Our own files in the sandbox, as namespace packages: nothing else of the package comes along.
_SOURCE_ROOT = "/run/source"
_SOURCES = ("supervisor.py", "answering.py", "wire.py")
_BOOT = (
    f"import sys; sys.path[:] = [{_SOURCE_ROOT!r}] + [p for p in sys.path if p]; "
    "from steelyard.sandbox.supervisor import main; del sys.path[0]; main()"
)
_AGENT_ID = 1000
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
_UIDS = 4096


class HostUid:
    """An unprivileged host uid that no other live sandbox has, of this or any other trainer.

    As root only: limits on processes count per uid, and processes of one uid could reach each
    other's files. The lease is an abstract socket, which the kernel frees with this process.
    """

    def __init__(self) -> None:
        base = next((b for b in _UID_BASES if _is_mapped(b + _UIDS - 1)), None)
        if base is None:
            raise SandboxUnavailable(
                "no uid for the sandbox: this container maps fewer than "
                f"{_UID_BASES[-1] + _UIDS} uids (/proc/self/uid_map); run as an ordinary user"
            )
        self._lease = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        for uid in range(base, base + _UIDS):
            try:
                self._lease.bind(f"\0steelyard-uid-{uid}")
            except OSError:
                continue
            self.uid = uid
            return
        self._lease.close()
        raise SandboxError(f"{_UIDS} sandboxes are alive on this machine: no uid is left")

    def release(self) -> None:
        """Gives the uid back, once no process has it any more."""
        self._lease.close()


def _is_mapped(uid: int) -> bool:
    with open("/proc/self/uid_map") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    return any(first <= uid < first + count for first, _, count in ranges)


def start(
    *,
    workspace: str,
    scratch: Sequence[str],
    workspace_mb: int,
    supervisor_settings: str,
    control: socket.socket,
    uid: int | None,
    packages: bool,
    read_only: Mapping[str, Mapping[str, bytes]],
) -> subprocess.Popen[bytes]:
    """Starts bubblewrap with the supervisor as pid 1, talking on `control`; stderr is a pipe.

    Raises SandboxUnavailable if a program that this needs is not installed.
    """
    bwrap = _installed("bwrap", "bubblewrap")
    python = find_python()
    shown = find_packages(python) if packages else None
    privileges: list[str] = []
    if uid is not None:
        setpriv = _installed("setpriv", "util-linux")
        privileges = [setpriv, f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    descriptors: list[int] = []
    try:
        arguments = [
            *_isolation(),
            *_file_system(python, workspace, scratch, workspace_mb << 20),
            *_laid_files(descriptors),
            *_read_only(descriptors, read_only),
            *(_packages(descriptors, shown) if shown is not None else ()),
            *_environment(workspace, packages),
            "--remount-ro", "/dev",
            "--remount-ro", "/",
            "--chdir", workspace,
        ]  # fmt: skip
        seccomp = seccomp_filter()
        if seccomp is not None:
            arguments += ["--seccomp", str(_data_descriptor(descriptors, seccomp))]
        # -I would also ignore PYTHONHASHSEED; every variable in there is ours (--clearenv).
        supervisor = [python.executable, "-s", "-S", "-c", _BOOT]
        command = [*privileges, bwrap, *arguments, "--", *supervisor]
        return _spawn(
            [*command, str(control.fileno()), supervisor_settings],
            (control.fileno(), *descriptors),
        )
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def _isolation() -> list[str]:
    return [
        "--unshare-all", "--unshare-user", "--disable-userns",
        "--die-with-parent", "--new-session", "--as-pid-1",
        "--cap-drop", "ALL",
        "--uid", str(_AGENT_ID), "--gid", str(_AGENT_ID),
        "--hostname", "sandbox",
    ]  # fmt: skip


def _file_system(
    python: SandboxPython, workspace: str, scratch: Sequence[str], size_bytes: int
) -> list[str]:
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
    for directory in (workspace, *scratch):
        arguments += ["--size", str(size_bytes), "--tmpfs", directory]
    return arguments


def _laid_files(descriptors: list[int]) -> list[str]:
    here = Path(__file__).parent
    files = {path: text.encode() for path, text in _OWN_FILES.items()}
    for name in _SOURCES:
        files[f"{_SOURCE_ROOT}/steelyard/sandbox/{name}"] = (here / name).read_bytes()
    arguments: list[str] = []
    for path, data in files.items():
        descriptor = _data_descriptor(descriptors, data)
        arguments += ["--perms", "0444", "--ro-bind-data", str(descriptor), path]
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


def _environment(workspace: str, packages: bool) -> list[str]:
    variables = {
        "PATH": "/run/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": workspace,
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        # One program, one verdict: the order of a set must not differ between two sandboxes.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    if packages:
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


def _spawn(command: list[str], descriptors: tuple[int, ...]) -> subprocess.Popen[bytes]:
    def spawn() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            cwd="/",
            env={},
            start_new_session=True,  # Ctrl-C is for the trainer, which then ends us in order
        )

    return _spawner(os.getpid()).submit(spawn).result()


@functools.cache
def _spawner(process: int) -> ThreadPoolExecutor:
    """One thread that lives as long as this process.

    The kernel's "die with parent" means the thread that forked: a sandbox started by a short-lived
    thread would be killed when that thread ends.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-spawner")


def explain_failure(stderr: str) -> SandboxError | SandboxUnavailable:
    """Why bubblewrap did not start, from what it printed."""
    said = " ".join(stderr.split())[-300:] or "nothing"
    if "unknown option" in stderr.lower():
        return SandboxUnavailable(f"bubblewrap 0.8 or newer is needed (bwrap said: {said})")
    hints = ("namespace", "uid map", "RTM_NEWADDR", "Operation not permitted", "setpriv")
    if any(hint in stderr for hint in hints):
        return SandboxUnavailable(
            "user namespaces are not available to bubblewrap: set sysctl "
            "kernel.unprivileged_userns_clone=1 and user.max_user_namespaces>0; on Ubuntu 24.04 "
            "allow it with an AppArmor profile for bwrap or sysctl "
            f"kernel.apparmor_restrict_unprivileged_userns=0 (bwrap said: {said})"
        )
    return SandboxError(f"the sandbox did not start (bwrap said: {said})")
