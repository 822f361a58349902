"""How a sandbox is started with docker or podman: the command line, its socket, its refusals."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from steelyard.sandbox.errors import SandboxError, SandboxUnavailable
from steelyard.sandbox.launching import (
    HostUid,
    Launch,
    Launched,
    environment,
    sources,
    spawn,
    supervisor_command,
)
from steelyard.sandbox.settings import SandboxSettings

_SHARED = "/run/steelyard"
"""Where the container sees our sources and the socket, read-only."""
_UID_BASE = 30_000
"""First uid of containers: one that rootless engines and remapping daemons map as well."""
_SUPERVISOR_MB = 64
_SUPERVISOR_PROCESSES = 16
_POLL_SECONDS = 0.05
_KILL_SECONDS = 10.0
_numbers = itertools.count()


def start(launch: Launch) -> Launched:
    """Starts a container with the supervisor as pid 1, and waits until it has connected.

    The image must be present: nothing is pulled. Raises SandboxUnavailable, SandboxError, or
    TimeoutError after the settings' start_timeout_seconds.
    """
    engine = launch.settings.backend
    program = shutil.which(engine)
    if program is None:
        raise SandboxUnavailable(
            f"{engine} is not installed, and nothing runs without a sandbox: install {engine}, or "
            'use sandbox.backend = "bubblewrap"'
        )
    uid = HostUid(_UID_BASE)
    name = f"steelyard-{os.getpid()}-{next(_numbers)}"
    directory = tempfile.mkdtemp(prefix="steelyard-")  # for us alone; `shared` is reached by mount
    try:
        shared = os.path.join(directory, "shared")
        _lay(shared)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(os.path.join(shared, "control"))
            os.chmod(os.path.join(shared, "control"), 0o666)
            listener.listen(1)
            arguments = command_line(launch, name=name, shared=shared, uid=uid.uid)
            # The client finds its engine by variables such as DOCKER_HOST.
            process = spawn([program, *arguments[1:]], env=os.environ)
            launched = _Container(process, launch.settings, name, uid)
            launched.accept(listener)
        return launched
    except BaseException:
        uid.release()
        raise
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def command_line(launch: Launch, *, name: str, shared: str, uid: int) -> list[str]:
    """`docker run` or `podman run` with everything that keeps the container in its place."""
    settings = launch.settings
    directories = [launch.workspace, *launch.scratch]
    # tmpfs counts as memory here; the supervisor's own watch is meant to be the one that acts.
    memory_mb = settings.memory_mb + len(directories) * settings.workspace_mb + _SUPERVISOR_MB
    processes = settings.processes + _SUPERVISOR_PROCESSES
    arguments = [settings.backend, "run", "--rm", "--pull", "never", "--name", name]
    arguments += ["--log-driver", "none", "--hostname", "sandbox", "--network", "none"]
    arguments += ["--ipc", "private", "--cap-drop", "ALL"]
    arguments += ["--security-opt", "no-new-privileges", "--read-only"]
    if settings.backend == "podman":  # both would undo what is asked for here
        arguments += ["--read-only-tmpfs=false", "--http-proxy=false"]
    arguments += ["--user", f"{uid}:{uid}", "--pids-limit", str(processes)]
    arguments += ["--memory", f"{memory_mb}m", "--memory-swap", f"{memory_mb}m"]
    arguments += ["--ulimit", f"nproc={processes}:{processes}", "--ulimit", "nofile=1024:1024"]
    options = f"rw,exec,nosuid,nodev,size={settings.workspace_mb}m,mode=1777"
    # Where the image has the directory, some runtimes keep its mode: the owner matters then.
    # Podman would also copy what the image has there, if it were not told otherwise.
    options += ",notmpcopyup,U" if settings.backend == "podman" else f",uid={uid},gid={uid}"
    for directory in directories:
        arguments += ["--tmpfs", f"{directory}:{options}"]
    arguments += ["--mount", f"type=bind,src={shared},dst={_SHARED},readonly"]
    arguments += ["--workdir", launch.workspace]
    for variable, value in environment(launch.workspace).items():
        arguments += ["--env", f"{variable}={value}"]
    supervisor = supervisor_command("python3", _SHARED, f"{_SHARED}/control")
    return [*arguments, "--entrypoint", supervisor[0], settings.image, *supervisor[1:]]


def _lay(shared: str) -> None:
    for name, data in sources().items():
        path = Path(shared, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o444)
    for directory, _, _ in os.walk(shared):
        os.chmod(directory, 0o755)  # whatever our umask is


class _Container(Launched):
    exit_seconds = 5.0

    def __init__(
        self, process: subprocess.Popen[bytes], settings: SandboxSettings, name: str, uid: HostUid
    ) -> None:
        super().__init__(process, socket.socket(socket.AF_UNIX))
        self._settings = settings
        self._name = name
        self._uid = uid

    def accept(self, listener: socket.socket) -> None:
        """Takes the supervisor's connection: the first, made before anything untrusted runs."""
        listener.settimeout(_POLL_SECONDS)
        deadline = time.monotonic() + self._settings.start_timeout_seconds
        while True:
            with contextlib.suppress(TimeoutError):
                self.control = listener.accept()[0]
                return
            if self.process.poll() is not None:
                raise self.explain(self.printed())
            if time.monotonic() >= deadline:
                self.kill()
                self.printed()
                raise TimeoutError

    def kill(self) -> None:
        """Ends the container; the client's own end would leave it running."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(
                [self._settings.backend, "rm", "--force", self._name],
                capture_output=True,
                timeout=_KILL_SECONDS,
                check=False,
            )
        self.process.kill()

    def release(self) -> None:
        self._uid.release()

    def explain(self, stderr: str) -> SandboxError | SandboxUnavailable:
        return explain_failure(self._settings.backend, self._settings.image, stderr)


def explain_failure(engine: str, image: str, stderr: str) -> SandboxError | SandboxUnavailable:
    """Why the container did not start, from what docker or podman printed."""
    said = " ".join(stderr.split())[-300:] or "nothing"
    lower = said.lower()
    if "permission denied" in lower and ("docker api" in lower or "docker daemon" in lower):
        return SandboxUnavailable(
            "docker is installed, but this user may not use its daemon: join the group docker, or "
            f"use podman or bubblewrap (docker said: {said})"
        )
    if any(hint in lower for hint in ("connect to the docker", "connect to podman", "daemon run")):
        return SandboxUnavailable(
            f"{engine} is installed, but its daemon does not answer: start it (systemctl start "
            f'{engine}), or use sandbox.backend = "bubblewrap" ({engine} said: {said})'
        )
    if "no such image" in lower or "image not known" in lower:
        return SandboxUnavailable(
            f"the image {image} is not on this machine, and a sandbox pulls nothing: run "
            f"{engine} pull {image}"
        )
    if "python3" in lower and ("not found" in lower or "no such file" in lower):
        return SandboxUnavailable(
            f"the image {image} has no python3: name one with Python 3.9 or newer ({engine} "
            f"said: {said})"
        )
    return SandboxError(f"the sandbox did not start ({engine} said: {said})")
