"""Pid 1 of a sandbox: runs what it is told over one socket, and lets nothing outlive a request.

It shares its uid with the code that it runs, so it makes itself non-dumpable: nobody of that uid
can trace it or open its descriptors; as pid 1 of its namespace it cannot be killed from inside;
the seccomp filter keeps others from changing its limits. When its socket closes it exits, and the
kernel ends every process of the namespace with it. Standard library only.

Requests are frames (see wire.py) whose header has "op"; each gets one reply, which has "error" and
"errno" if it failed.
"""

from __future__ import annotations

# The modules signal and socket around these import enum and more: slow.
import _signal as signal  # type: ignore[import-not-found]
import _socket
import ctypes
import errno
import os
import resource
import select
import stat
import sys
import time

from steelyard.sandbox.frames import receive_request, send_reply

TYPE_CHECKING = False
if TYPE_CHECKING:  # every module that is imported here delays every sandbox
    import socket
    from collections.abc import Callable, Iterator
    from io import FileIO
    from typing import Any, NoReturn

_TICK_SECONDS = 0.1
_MAX_FILES = 10_000
_PR_SET_DUMPABLE = 4
_PR_SET_SECCOMP = 22
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_MESSAGE_QUEUES = "/dev/mqueue"
"""Container engines mount it, writable for everybody; bubblewrap does not."""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_INODE_BYTES = 1024
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
# What small programs import most: a forked child then finds it imported.
_ANSWERING = "steelyard.sandbox.answering"
_PRELOAD = (
    *("collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions"),
    *("functools", "heapq", "itertools", "math", "operator", "random", "re", "statistics"),
    *("string", "typing"),
)


class _suppress:
    def __init__(self, kind: type[OSError]) -> None:
        self._kind = kind

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, self._kind)


def main() -> None:
    """Serves until the socket closes; argv: its descriptor or its path."""
    if not hasattr(os, "pidfd_open"):  # a container's image may bring any interpreter
        sys.exit("the sandbox's python3 is older than 3.9")
    if not sys.argv[1].isdigit():
        __import__(_ANSWERING)  # in a container the sources are gone once we have connected
    control = _open_control(sys.argv[1])
    settings, _ = receive_request(control)
    if settings["seccomp"] is not None:
        _filter_system_calls(settings["seccomp"])
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        del os.environ[name]  # a container engine may pass on the host's, with a password in it
    with _suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if memory runs out, the sandbox goes first, not the trainer
    if ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        sys.exit("prctl(PR_SET_DUMPABLE) failed")
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python's handler would make pid 1 killable
    supervisor = _Supervisor(control, settings)
    if settings["backend"] != "bubblewrap":  # whose mounts are all ours
        supervisor.check_mounts()
    supervisor.serve()


def _open_control(where: str) -> socket.socket:
    if where.isdigit():
        os.set_inheritable(int(where), False)
        return _socket_of(int(where))
    control = _socket.socket(_socket.AF_UNIX)
    control.connect(where)
    return control  # type: ignore[return-value]


def _socket_of(descriptor: int) -> socket.socket:
    return _socket.socket(fileno=descriptor)  # type: ignore[return-value]


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]


def _filter_system_calls(code: bytes) -> None:
    """Installs the filter of seccomp.py on this process and everything that it will start."""
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _FilterProgram(len(code) // 8, ctypes.addressof(buffer))
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    one, nothing = ctypes.c_ulong(1), ctypes.c_ulong(0)
    if prctl(_PR_SET_NO_NEW_PRIVS, one, nothing, nothing, nothing) != 0 or prctl(
        _PR_SET_SECCOMP,
        ctypes.c_ulong(_SECCOMP_MODE_FILTER),
        ctypes.byref(program),
        nothing,
        nothing,
    ):
        sys.exit(f"the system call filter could not be installed: errno {ctypes.get_errno()}")


class _Supervisor:
    def __init__(self, control: socket.socket, settings: dict[str, Any]) -> None:
        self._control = control
        self._workspace: str = settings["workspace"]
        self._roots: list[str] = [self._workspace, *settings["scratch"]]
        if os.path.isdir(_MESSAGE_QUEUES):
            self._roots.append(_MESSAGE_QUEUES)  # so that it is wiped as well
        self._max_file_bytes = settings["file_mb"] << 20
        self._max_total_bytes = settings["workspace_mb"] << 20
        self._max_output_bytes = settings["output_kb"] << 10
        self._max_memory_bytes = settings["memory_mb"] << 20
        self._packages: bool = settings["packages"]
        self._processes: int = settings["processes"]
        self._cpu_seconds: int = settings["cpu_seconds"]
        self._program: int | None = None
        self._preloaded = False
        self._next_watch = 0.0
        self._operations: dict[str, Callable[..., tuple[dict[str, Any], bytes]]] = {
            "put": self._put,
            "read": self._read,
            "run": self._run,
            "collect": self._collect,
            "wipe": self._wipe,
            "program": self._start_program,
            "end": self._end_program,
        }

    def check_mounts(self) -> None:
        """Exits if a directory of ours cannot be written, or a place that is not ours can.

        An image's VOLUME is such a place: unbounded, not wiped, and not read-only with the rest.
        """
        for root in self._roots:
            if not os.access(root, os.W_OK):
                sys.exit(
                    f"the image has a directory {root} of its own that not everybody may write"
                )
        with open("/proc/self/mountinfo") as file:
            places = [line.split()[4] for line in file]
        for place in places:
            if place in (*self._roots, "/dev/pts") or not os.access(place, os.W_OK):
                continue
            if stat.S_ISDIR(mode := os.stat(place).st_mode) or stat.S_ISREG(mode):
                sys.exit(f"{place} is writable in this sandbox: take an image without VOLUME")

    def serve(self) -> NoReturn:
        send_reply(self._control, {"ready": True})
        while True:
            while self._program is not None and not self._readable(_TICK_SECONDS):
                self._watch_memory()
            try:
                header, blob = receive_request(self._control)
            except EOFError:
                os._exit(0)  # the namespace ends with us
            try:
                reply, data = self._operations[header.pop("op")](blob=blob, **header)
            except OSError as error:
                said = error.strerror or str(error)
                reply, data = {"errno": error.errno or errno.EIO, "error": said}, b""
            send_reply(self._control, reply, data)

    def _readable(self, timeout_seconds: float) -> bool:
        return bool(select.select([self._control], [], [], timeout_seconds)[0])

    # Files

    def _put(self, *, blob: bytes, files: list[list[Any]]) -> tuple[dict[str, Any], bytes]:
        offset = 0
        for path, size in files:
            self._write(path, blob[offset : offset + size])
            offset += size
        return {}, b""

    def _write(self, path: str, data: bytes) -> None:
        if len(data) > self._max_file_bytes:
            raise OSError(errno.EFBIG, f"{path}: larger than {self._max_file_bytes} bytes")
        mode = 0o755 if data.startswith(b"#!") else 0o644
        with self._opened(path, os.O_WRONLY | os.O_CREAT, mode=mode) as file:
            file.truncate(0)
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]

    def _read(self, *, blob: bytes, path: str) -> tuple[dict[str, Any], bytes]:
        return {}, self._content(path)

    def _content(self, path: str) -> bytes:
        with self._opened(path, os.O_RDONLY) as file:
            if os.fstat(file.fileno()).st_size > self._max_file_bytes:
                raise OSError(errno.EFBIG, f"{path}: larger than {self._max_file_bytes} bytes")
            return file.readall()[: self._max_file_bytes]

    def _opened(self, path: str, flags: int, mode: int = 0o644) -> FileIO:
        """Opens a regular file below one of the roots without following a symbolic link.

        A link could lead to this process's own files under /proc, or make the trusted side
        believe in a file that is elsewhere.
        """
        root, parts = self._locate(path)
        directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        try:
            for part in parts[:-1]:
                if flags & os.O_CREAT:
                    with _suppress(FileExistsError):
                        os.mkdir(part, dir_fd=directory)
                child = os.open(part, _DIRECTORY, dir_fd=directory)
                os.close(directory)
                directory = child
            flags |= os.O_NOFOLLOW | os.O_NONBLOCK  # a pipe must not block, a link is refused
            fd = os.open(parts[-1], flags, mode, dir_fd=directory)
        except OSError as error:
            raise OSError(error.errno, f"{path}: {_reason(error)}") from None
        finally:
            os.close(directory)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, f"{path}: not a regular file")
        return open(fd, "wb" if flags & os.O_WRONLY else "rb", buffering=0)

    def _locate(self, path: str) -> tuple[str, list[str]]:
        root, rest = self._workspace, path
        if path.startswith("/"):
            for root in self._roots:
                if path.startswith(root + "/"):
                    rest = path[len(root) :]
                    break
            else:
                raise OSError(errno.EACCES, f"{path}: not below {' or '.join(self._roots)}")
        parts = [part for part in rest.split("/") if part not in ("", ".")]
        if not parts or ".." in parts or "\0" in path or not _is_utf8(path):
            raise OSError(errno.EINVAL, f"{path!r}: not the path of a file in {root}")
        return root, parts

    def _collect(self, *, blob: bytes) -> tuple[dict[str, Any], bytes]:
        """Every acceptable file of the workspace; the others by name, with the reason."""
        self._kill_all()
        files: list[tuple[str, int]] = []
        refused: dict[str, str] = {}
        data = bytearray()
        for entry in _walk(self._workspace, refused):
            path = os.path.relpath(entry.path, self._workspace)
            try:
                reason = self._refusal(entry.stat(follow_symlinks=False), path, len(data))
                if not reason and len(files) == _MAX_FILES:
                    reason = f"more than {_MAX_FILES} files"
                if reason:
                    refused[ascii(path)[1:-1]] = reason
                    continue
                content = self._content(path)
            except OSError as error:
                refused[ascii(path)[1:-1]] = _reason(error)
                continue
            files.append((path, len(content)))
            data += content
        return {"files": files, "refused": refused}, bytes(data)

    def _refusal(self, status: os.stat_result, path: str, collected_bytes: int) -> str:
        if stat.S_ISLNK(status.st_mode):
            return "symbolic link"
        if not stat.S_ISREG(status.st_mode):
            return "not a regular file"
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            return "setuid or setgid"
        if status.st_size > self._max_file_bytes:
            return f"larger than {self._max_file_bytes} bytes"
        if collected_bytes + status.st_size > self._max_total_bytes:
            return f"more than {self._max_total_bytes} bytes in all"
        if not _is_utf8(path):
            return "name is not UTF-8"
        return ""

    def _wipe(self, *, blob: bytes) -> tuple[dict[str, Any], bytes]:
        self._kill_all()
        return {"clean": self._empty()}, b""

    def _empty(self) -> bool:
        """Empties every writable directory; False if something could not be removed."""
        import shutil

        try:
            for root in self._roots:
                if os.stat(root).st_uid == os.geteuid():  # else nobody in here could change it
                    os.chmod(root, 0o755)
                with os.scandir(root) as entries:
                    for entry in list(entries):
                        if entry.is_dir(follow_symlinks=False):
                            shutil.rmtree(entry.path)
                        else:
                            os.unlink(entry.path)
        except (OSError, RecursionError):
            return False
        return True

    # Processes

    def _run(
        self,
        *,
        blob: bytes,
        argv: list[str],
        env: dict[str, str],
        timeout_seconds: float,
        keep_background: bool,
    ) -> tuple[dict[str, Any], bytes]:
        started = time.monotonic()
        deadline = started + timeout_seconds
        stdin_r, stdin_w = os.pipe()
        stdout_r, stdout_w = os.pipe()
        stderr_r, stderr_w = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._execute(argv, env, (stdin_r, stdout_w, stderr_w))
        for fd in (stdin_r, stdout_w, stderr_w):
            os.close(fd)
        streams = {fd: _Capture(self._max_output_bytes) for fd in (stdout_r, stderr_r)}
        child = os.pidfd_open(pid)
        poller = select.poll()
        for fd in (child, self._control.fileno(), *streams):
            poller.register(fd, select.POLLIN)
        for fd in (stdin_w, *streams):
            os.set_blocking(fd, False)
        pending = memoryview(blob)
        poller.register(stdin_w, select.POLLOUT)
        status: int | None = None
        timed_out = over_memory = False
        while status is None and not (timed_out or over_memory):
            remaining = deadline - time.monotonic()
            events = poller.poll(max(0.0, min(remaining, _TICK_SECONDS)) * 1000)
            timed_out = remaining <= 0
            for fd, _ in events:
                if fd == self._control.fileno():
                    os._exit(0)  # nobody waits for the answer: the namespace ends with us
                elif fd == child:
                    status = os.waitpid(pid, 0)[1]
                elif fd in streams:
                    if not streams[fd].fill(fd):
                        poller.unregister(fd)
                elif fd == stdin_w:
                    pending = _feed(stdin_w, pending)
                    if not pending:
                        poller.unregister(stdin_w)
                        os.close(stdin_w)
                        stdin_w = -1
            over_memory = self._watch_memory()
            if status is None:
                status = _reap(pid)
        if status is None or not keep_background:
            statuses = self._kill_all()
            status = statuses.get(pid, status)
        for fd, capture in streams.items():
            capture.drain(fd)
        for fd in (child, stdout_r, stderr_r, *([stdin_w] if stdin_w >= 0 else [])):
            os.close(fd)
        stdout, stderr = streams[stdout_r], streams[stderr_r]
        if over_memory:
            stderr.data += b"\n[killed: more than %d MiB of memory]\n" % (
                self._max_memory_bytes >> 20
            )
        return {
            "exit_code": os.waitstatus_to_exitcode(status or 0),
            "stdout_bytes": len(stdout.data),
            "timed_out": timed_out,
            "truncated": stdout.truncated or stderr.truncated,
            "seconds": time.monotonic() - started,
        }, bytes(stdout.data + stderr.data)

    def _execute(self, argv: list[str], env: dict[str, str], stdio: tuple[int, int, int]) -> None:
        """Becomes the command; never returns."""
        try:
            os.setsid()
            for target, fd in enumerate(stdio):
                os.dup2(fd, target)
            os.closerange(3, _max_descriptor())
            os.chdir(self._workspace)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores both
                signal.signal(number, signal.SIG_DFL)
            self._limit()
            os.execvpe(argv[0], argv, {**os.environ, **env})
        except BaseException as error:
            os.write(2, f"{argv[0]}: {_reason(error)}\n".encode())
        finally:
            os._exit(127)

    def _limit(self) -> None:
        for kind, value in (
            (resource.RLIMIT_AS, self._max_memory_bytes),
            (resource.RLIMIT_NPROC, self._processes),
            (resource.RLIMIT_CPU, self._cpu_seconds),
            (resource.RLIMIT_FSIZE, self._max_file_bytes),
            (resource.RLIMIT_NOFILE, 512),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(kind)[1]
            allowed = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (allowed, allowed))

    def _watch_memory(self) -> bool:
        """Kills everything if all processes together hold too much; says whether it did.

        Looks ten times a second at most, however often it is called.
        """
        now = time.monotonic()
        if now < self._next_watch:
            return False
        self._next_watch = now + _TICK_SECONDS
        resident = 0
        for name in os.listdir("/proc"):
            if name.isdigit() and name != "1":
                with _suppress(OSError), open(f"/proc/{name}/statm", "rb") as file:
                    resident += int(file.read().split()[1]) * _PAGE_BYTES
        for root in self._roots:  # an empty file takes none of a tmpfs's size, but the kernel's
            usage = os.statvfs(root)
            resident += (usage.f_files - usage.f_ffree) * _INODE_BYTES
        if resident <= self._max_memory_bytes:
            return False
        self._signal_all()
        return True

    def _kill_all(self) -> dict[int, int]:
        """Kills and reaps every other process of the namespace; their wait statuses by pid."""
        statuses: dict[int, int] = {}
        while True:
            self._signal_all()
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return statuses
            statuses[pid] = status

    def _signal_all(self) -> None:
        with _suppress(ProcessLookupError):
            os.kill(-1, signal.SIGKILL)  # everything but ourselves; no fork can slip through

    # Programs

    def _start_program(
        self, *, blob: bytes, files: list[list[Any]], module: str, function: str
    ) -> tuple[dict[str, Any], bytes]:
        """Forks a child that answers calls on a socket of its own, which follows the request."""
        channel = _socket_of(_receive_descriptor(self._control))
        try:
            self._put(blob=blob, files=files)
            self._preload()
            pid = os.fork()
            if pid == 0:
                self._become_program(channel, module, function)
        finally:
            channel.close()
        self._program = pid
        return {}, b""

    def _preload(self) -> None:
        if self._preloaded:
            return
        self._preloaded = True
        import gc
        from importlib import import_module

        for name in (*_PRELOAD, _ANSWERING):
            import_module(name)
        gc.collect()
        gc.freeze()  # a child's collector then does not touch, and copy, what it inherited

    def _become_program(self, channel: socket.socket, module: str, function: str) -> None:
        try:
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for fd in (0, 1, 2):
                os.dup2(null, fd)
            os.dup2(channel.fileno(), 3)  # as grading/checking.py knows
            channel.detach()
            os.closerange(4, _max_descriptor())
            os.chdir(self._workspace)
            self._limit()
            import random  # both preloaded by now; too slow to import before a sandbox is ready

            from steelyard.sandbox.answering import answer_calls

            if self._packages:
                _add_packages()
            random.seed(0)  # one program, one verdict, even if it throws dice
            answer_calls(_socket_of(3), self._workspace, module, function)
        finally:
            os._exit(0)

    def _end_program(self, *, blob: bytes, wait_seconds: float) -> tuple[dict[str, Any], bytes]:
        """Ends the program with every process that it started, and wipes what it wrote.

        `wait_seconds` gives a child that has closed its channel the time to have exited, so that
        its own exit status is reported and not our signal.
        """
        pid, self._program = self._program, None
        status: int | None = None
        deadline = time.monotonic() + wait_seconds
        while pid is not None and status is None:
            status = _reap(pid)
            if status is None and time.monotonic() >= deadline:
                break
            if status is None:
                time.sleep(0.002)
        self._kill_all()
        return {
            "exit_code": None if status is None else os.waitstatus_to_exitcode(status),
            "clean": self._empty(),
        }, b""


def _add_packages() -> None:
    """Makes importable what `python3` in this sandbox can import; only ever in a child."""
    if os.path.exists("/run/pyvenv.cfg"):
        sys.executable = "/run/bin/python3"
        sys.prefix = sys.exec_prefix = "/run"
    import site

    site.main()


def _receive_descriptor(control: socket.socket) -> int:
    _, ancillary, _, _ = control.recvmsg(1, _socket.CMSG_LEN(4))
    return int.from_bytes(ancillary[0][2][:4], sys.byteorder)


class _Capture:
    """The first bytes of a stream; the rest is read and thrown away, so that nobody blocks."""

    def __init__(self, max_bytes: int) -> None:
        self.data = bytearray()
        self.truncated = False
        self._max_bytes = max_bytes

    def fill(self, fd: int) -> bool:
        """Reads once; False at the end of the stream."""
        try:
            chunk = os.read(fd, 65536)
        except BlockingIOError:
            return True
        room = self._max_bytes - len(self.data)
        self.data += chunk[:room]
        self.truncated = self.truncated or len(chunk) > room
        return bool(chunk)

    def drain(self, fd: int) -> None:
        """Reads what is in the pipe now, which a kept background process may go on filling."""
        for _ in range(32):
            if not select.select([fd], [], [], 0)[0] or not self.fill(fd):
                return


def _feed(fd: int, pending: memoryview) -> memoryview:
    try:
        return pending[os.write(fd, pending[:65536]) :] if pending else pending
    except BlockingIOError:
        return pending
    except BrokenPipeError:
        return pending[:0]


def _reap(pid: int) -> int | None:
    """Reaps whoever has ended, orphans included; the status of `pid` if it is among them."""
    status = None
    with _suppress(ChildProcessError):
        while True:
            ended, its_status = os.waitpid(-1, os.WNOHANG)
            if ended == 0:
                break
            if ended == pid:
                status = its_status
    return status


def _walk(directory: str, refused: dict[str, str]) -> Iterator[os.DirEntry[str]]:
    """Everything below a directory but the directories, without recursion or links, by name."""
    waiting = [directory]
    while waiting:
        current = waiting.pop()
        try:
            with os.scandir(current) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            refused[ascii(os.path.relpath(current, directory))[1:-1]] = _reason(error)
            continue
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            else:
                yield entry


def _is_utf8(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "symbolic link"
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _max_descriptor() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
