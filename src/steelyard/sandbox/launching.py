"""What every back end needs to start a supervisor, and what it hands back."""

from __future__ import annotations

import functools
import marshal
import os
import select
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib.util import MAGIC_NUMBER, cache_from_source
from pathlib import Path
from typing import Any

from steelyard.sandbox.errors import SandboxError, SandboxUnavailable
from steelyard.sandbox.seccomp import seccomp_filter
from steelyard.sandbox.settings import SandboxSettings

_SOURCES = ("supervisor.py", "frames.py", "answering.py", "wire.py")
_UIDS = 4096


@dataclass(frozen=True)
class Launch:
    """What to start: limits, and the directories that shall be writable."""

    settings: SandboxSettings
    workspace: str
    scratch: tuple[str, ...]
    read_only: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """Directories that hold these files, and that nobody can write to."""

    @property
    def supervisor_settings(self) -> dict[str, Any]:
        """What the supervisor is told first."""
        code = seccomp_filter()
        places = {"workspace": self.workspace, "scratch": self.scratch}
        return {**self.settings.model_dump(), **places, "seccomp": code}


class Launched(ABC):
    """A supervisor that is starting or running: its process on the host, our end of its socket."""

    exit_seconds = 1.0
    """How long it may take to end by itself once its socket is closed."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket) -> None:
        self.process = process
        self.control = control

    def printed(self) -> str:
        """What was printed on stderr by the process, which has ended or is killed."""
        self.process.kill()
        self.process.wait()
        assert self.process.stderr is not None
        os.set_blocking(self.process.stderr.fileno(), False)
        return (self.process.stderr.read() or b"").decode(errors="replace")

    def wait(self) -> bool:
        """Whether it ends by itself within `exit_seconds`; Popen's own wait sleeps in steps."""
        if self.process.poll() is None:
            descriptor = os.pidfd_open(self.process.pid)
            try:
                poller = select.poll()  # select() takes no descriptor above 1023
                poller.register(descriptor, select.POLLIN)
                poller.poll(self.exit_seconds * 1000)
            finally:
                os.close(descriptor)
        return self.process.poll() is not None

    @abstractmethod
    def kill(self) -> None:
        """Ends it with everything in it, now."""

    @abstractmethod
    def release(self) -> None:
        """Gives back what it held, once it has ended."""

    @abstractmethod
    def explain(self, stderr: str) -> SandboxError | SandboxUnavailable:
        """Why it did not start, from what was printed."""


class HostUid:
    """An unprivileged host uid that no other live sandbox has, of this or any other trainer.

    Limits on processes count per uid, and processes of one uid could reach each other's files. The
    lease is an abstract socket, which the kernel frees with this process.
    """

    def __init__(self, base: int) -> None:
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

    @staticmethod
    def mapped_base(bases: tuple[int, ...]) -> int:
        """The first of `bases` whose uids exist in our user namespace."""
        for base in bases:
            if _is_mapped(base + _UIDS - 1):
                return base
        raise SandboxUnavailable(
            "no uid for the sandbox: this container maps fewer than "
            f"{bases[-1] + _UIDS} uids (/proc/self/uid_map); run as an ordinary user"
        )

    def release(self) -> None:
        """Gives the uid back, once no process has it any more."""
        self._lease.close()


def _is_mapped(uid: int) -> bool:
    with open("/proc/self/uid_map") as file:
        ranges = [[int(number) for number in line.split()] for line in file]
    return any(first <= uid < first + count for first, _, count in ranges)


@functools.cache
def sources() -> Mapping[str, bytes]:
    """Our own files in a sandbox, as namespace packages: nothing else of the package comes along.

    Their names are relative to the directory that `supervisor_command` is told. Compiled code goes
    with them; an interpreter of another version passes it over.
    """
    here = Path(__file__).parent
    files: dict[str, bytes] = {}
    for name in _SOURCES:
        inside = f"steelyard/sandbox/{name}"
        files[inside] = (here / name).read_bytes()
        code = compile(files[inside], inside, "exec", dont_inherit=True)
        # The header of an unchecked hash-based pyc (PEP 552): magic, flags, a hash nobody reads.
        header = MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8)
        files[cache_from_source(inside)] = header + marshal.dumps(code)
    return files


def supervisor_command(python: str, root: str, control: str) -> list[str]:
    """The command that runs the supervisor from the `sources` below `root`."""
    boot = (
        f"import sys; sys.path[:] = [{root!r}] + [p for p in sys.path if p]; "
        "from steelyard.sandbox.supervisor import main; del sys.path[0]; main()"
    )
    # -I would also ignore PYTHONHASHSEED; every other variable in there is ours or the image's.
    return [python, "-s", "-S", "-c", boot, control]


def environment(workspace: str) -> dict[str, str]:
    """The variables that every command in a sandbox gets."""
    return {
        "HOME": workspace,
        "LANG": "C.UTF-8",
        "TMPDIR": "/tmp",
        # One program, one verdict: the order of a set must not differ between two sandboxes.
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def spawn(
    command: list[str], descriptors: tuple[int, ...] = (), env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Starts a process that lives as long as ours may; its stderr is a pipe."""

    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            cwd="/",
            env=env or {},
            start_new_session=True,  # Ctrl-C is for the trainer, which then ends us in order
        )

    return _spawner(os.getpid()).submit(start).result()


@functools.cache
def _spawner(process: int) -> ThreadPoolExecutor:
    """One thread that lives as long as this process.

    The kernel's "die with parent" means the thread that forked: a sandbox started by a short-lived
    thread would be killed when that thread ends.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="sandbox-spawner")
