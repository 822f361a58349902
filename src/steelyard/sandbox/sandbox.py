"""A sandbox as the trusted side sees it: files in, commands run, files out."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self

from steelyard.sandbox import bubblewrap, container
from steelyard.sandbox.calling import MAX_REPLY_BYTES, Caller
from steelyard.sandbox.errors import SandboxError
from steelyard.sandbox.frames import FrameError, receive_reply, send_request
from steelyard.sandbox.launching import Launch, Launched
from steelyard.sandbox.settings import SandboxSettings

_EXIT_WAIT_SECONDS = 0.2
"""A program's channel closes a moment before its process has exited."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A command that ended, or was ended.

    `exit_code` is negative for a signal, 127 if the command could not be started. `truncated` says
    that more was printed than is kept.
    """

    exit_code: int
    stdout: bytes
    stderr: bytes
    timed_out: bool
    truncated: bool
    seconds: float


class Program:
    """An untrusted program that answers calls: `caller` while it runs, `ending` afterwards."""

    def __init__(self, caller: Caller, channel: socket.socket) -> None:
        self.caller = caller
        self.channel = channel
        self.ending = ""


class Sandbox:
    """A place without network, host files or privileges, with a small writable workspace.

    It starts at the first request. Every process in it ends with it, and by default with the
    command that started it. One request at a time; requests of several threads wait for each other.

    Paths are relative to the workspace, or absolute below the workspace, /tmp, /dev/shm or one of
    the `directories`. No symbolic link is ever followed. A request raises OSError for what the
    file system inside answered, and SandboxError if the sandbox itself died; a dead sandbox stays
    dead. Starting raises SandboxUnavailable (a ValueError) if this machine cannot sandbox.

    `read_only` maps further directories to the files, by relative path, that they hold from the
    start: nobody inside can change one or add one, and no request can write there.
    """

    def __init__(
        self,
        settings: SandboxSettings | None = None,
        *,
        workspace: str = "/work",
        directories: Sequence[str] = (),
        read_only: Mapping[str, Mapping[str, bytes]] | None = None,
    ) -> None:
        self.settings = settings or SandboxSettings()
        self.refused: Mapping[str, str] = {}
        """What the last `collect` left behind, with the reason."""
        self.workspace = workspace
        self._scratch = ("/tmp", "/dev/shm", *directories)
        self._read_only = read_only or {}
        self._lock = threading.RLock()
        self._launched: Launched | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The host's process id of bubblewrap, or docker's client, while the sandbox runs."""
        return None if self._launched is None else self._launched.process.pid

    @property
    def closed(self) -> bool:
        return self._closed

    def put(self, files: Mapping[str, bytes]) -> None:
        """Writes files, with the directories that they need. Those that begin with #! may run."""
        self._request("put", {"files": _listing(files)}, b"".join(files.values()))

    def write(self, path: str, data: bytes) -> None:
        """Writes one file, with the directories that it needs."""
        self.put({path: data})

    def read(self, path: str) -> bytes:
        """The content of one regular file."""
        return self._request("read", {"path": path})[1]

    def run(
        self,
        argv: Sequence[str],
        *,
        timeout_seconds: float,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        keep_background: bool = False,
    ) -> Completed:
        """Runs a command in the workspace, then kills whatever it left running.

        With `keep_background`, processes that it started live on until the next command without.
        """
        reply, output = self._request(
            "run",
            {
                "argv": list(argv),
                "env": dict(env or {}),
                "timeout_seconds": timeout_seconds,
                "keep_background": keep_background,
            },
            stdin,
            timeout_seconds=timeout_seconds,
        )
        split = reply["stdout_bytes"]
        return Completed(
            exit_code=reply["exit_code"],
            stdout=output[:split],
            stderr=output[split:],
            timed_out=reply["timed_out"],
            truncated=reply["truncated"],
            seconds=reply["seconds"],
        )

    def collect(self) -> dict[str, bytes]:
        """Kills everything, then returns every regular file of the workspace by its path.

        Symbolic links, devices, pipes, setuid and oversize files are left behind and named in
        `refused`.
        """
        reply, data = self._request("collect")
        self.refused = reply["refused"]
        files: dict[str, bytes] = {}
        offset = 0
        for path, size in reply["files"]:
            files[path] = data[offset : offset + size]
            offset += size
        return files

    def wipe(self) -> None:
        """Kills everything and empties every writable directory."""
        reply, _ = self._request("wipe")
        if not reply["clean"]:
            self._fail("a file could not be removed")

    @contextlib.contextmanager
    def program(
        self,
        files: Mapping[str, bytes],
        *,
        module: str,
        function: str,
        max_reply_bytes: int = MAX_REPLY_BYTES,
    ) -> Iterator[Program]:
        """Runs `function` of the file `module` as a server of calls, in a child of its own.

        The child's channel is a socket that nothing else in the sandbox has. On leaving, every
        process but the supervisor is killed and the workspace is wiped, so that programs that
        follow each other in one sandbox share nothing; if that cannot be done the sandbox is
        closed. `ending` then says how the child ended, if it did so by itself.
        """
        with self._lock:
            ours, theirs = socket.socketpair()
            with ours:
                with theirs:
                    try:
                        self._request(
                            "program",
                            {"files": _listing(files), "module": module, "function": function},
                            b"".join(files.values()),
                            descriptor=theirs.fileno(),
                        )
                    except OSError:
                        self.wipe()
                        raise
                program = Program(Caller(ours, max_reply_bytes), ours)
                try:
                    yield program
                finally:
                    if not self._closed:
                        program.ending = self._end_program(program.caller.gone)

    def _end_program(self, gone: bool) -> str:
        wait_seconds = _EXIT_WAIT_SECONDS if gone else 0.0
        reply, _ = self._request("end", {"wait_seconds": wait_seconds})
        if not reply["clean"]:
            self.close()
        code = reply["exit_code"]
        if code is None:
            return ""
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    def close(self) -> None:
        """Ends the sandbox with everything in it, also during another thread's request, which
        then raises SandboxError. Never raises; may be called again."""
        self._closed = True  # also for a thread that is starting it now
        if not self._lock.acquire(blocking=False):
            launched = self._launched
            if launched is not None:
                launched.kill()  # the request ends now, and with it the wait for the lock
            self._lock.acquire()
        try:
            launched, self._launched = self._launched, None
            if launched is not None:
                launched.control.close()  # the supervisor exits, and its namespace with it
                if not launched.wait():
                    launched.kill()
                    launched.process.wait()
                assert launched.process.stderr is not None
                launched.process.stderr.close()
                launched.release()
        finally:
            self._lock.release()

    def _request(
        self,
        operation: str,
        header: Mapping[str, Any] | None = None,
        blob: bytes = b"",
        *,
        timeout_seconds: float = 0.0,
        descriptor: int | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        with self._lock:
            control = self._started()
            deadline = time.monotonic() + timeout_seconds + self.settings.grace_seconds
            try:
                control.settimeout(timeout_seconds + self.settings.grace_seconds)
                send_request(control, {"op": operation, **(header or {})}, blob)
                if descriptor is not None:
                    socket.send_fds(control, [b"\0"], [descriptor])
                reply, data = receive_reply(control, self._max_reply_bytes, deadline)
            except (OSError, EOFError, FrameError) as error:
                self._fail(f"{operation}: {error or type(error).__name__}")
            except BaseException:  # Ctrl-C: the answer would be taken for the next request's
                self.close()
                raise
            if "error" in reply:
                raise OSError(reply["errno"], reply["error"])
            return reply, data

    @property
    def _max_reply_bytes(self) -> int:
        return (self.settings.workspace_mb + 2 * self.settings.file_mb + 16) << 20

    def _started(self) -> socket.socket:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        if self._launched is None:
            self._start()
            if self._closed:  # by another thread, which waits for this one to end what started
                raise SandboxError("the sandbox is closed")
        assert self._launched is not None
        return self._launched.control

    def _start(self) -> None:
        seconds = self.settings.start_timeout_seconds
        start = bubblewrap.start if self.settings.backend == "bubblewrap" else container.start
        launch = Launch(self.settings, self.workspace, self._scratch, self._read_only)
        try:
            self._launched = start(launch)
            send_request(self._launched.control, launch.supervisor_settings)
            receive_reply(self._launched.control, 1024, time.monotonic() + seconds)
        except (EOFError, ConnectionError, FrameError):
            assert self._launched is not None
            error = self._launched.explain(self._launched.printed())
            self.close()
            raise error from None
        except TimeoutError:
            self.close()
            raise SandboxError(f"the sandbox did not start in {seconds} seconds") from None
        except BaseException:
            self.close()
            raise

    def _fail(self, reason: str) -> NoReturn:
        assert self._launched is not None
        self._launched.kill()
        stderr = " ".join(self._launched.printed().split())[-300:]
        self.close()
        raise SandboxError(f"the sandbox died ({reason}){': ' + stderr if stderr else ''}")


def _listing(files: Mapping[str, bytes]) -> list[tuple[str, int]]:
    return [(path, len(data)) for path, data in files.items()]


def check_available(settings: SandboxSettings | None = None) -> None:
    """Starts a sandbox and runs a command in it.

    Raises SandboxUnavailable or SandboxError, each with one sentence that says what to do.
    """
    with Sandbox(settings) as sandbox:
        completed = sandbox.run(["python3", "-c", "print('ready')"], timeout_seconds=10)
    if completed.stdout != b"ready\n":
        raise SandboxError(
            "a sandbox starts here but Python does not run in it: "
            + completed.stderr.decode(errors="replace").strip()[-300:]
        )
