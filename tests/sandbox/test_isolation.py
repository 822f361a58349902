"""What code in a sandbox can see and reach: nothing of the host, nothing of its supervisor."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pydantic
import pytest

from steelyard.sandbox import Sandbox
from steelyard.sandbox.bubblewrap import find_python

SOURCE = Path(__file__).parents[2] / "src"


def ask(sandbox: Sandbox, source: str) -> Any:
    """Runs Python source that leaves its findings in `out`."""
    code = f"import os, json\nout = {{}}\n{source}\nprint(json.dumps(out))"
    completed = sandbox.run(["python3", "-c", code], timeout_seconds=10)
    assert completed.exit_code == 0, completed.stderr
    return json.loads(completed.stdout)


TRY = """
def attempt(name, action):
    try:
        out[name] = ["did", repr(action())]
    except BaseException as error:
        out[name] = ["failed", type(error).__name__]
"""


def test_there_is_no_network(sandbox: Sandbox) -> None:
    out = ask(
        sandbox,
        """
import socket
out["interfaces"] = [name for _, name in socket.if_nameindex()]
out["routes"] = open("/proc/net/route").read().splitlines()[1:]
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError as error:
    out["connect"] = error.errno
""",
    )
    assert out == {"interfaces": ["lo"], "routes": [], "connect": 101}  # network is unreachable


def test_the_hosts_files_and_variables_are_invisible(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("API_KEY", "secret")
    (tmp_path / "secret").write_text("secret")
    out = ask(
        sandbox,
        f"""
out["env"] = sorted(os.environ)
out["top"] = sorted(os.listdir("/"))
out["seen"] = [p for p in ["/root", "/home", "/var", "/sys", "/etc/shadow", {str(tmp_path)!r},
    {str(Path(__file__))!r}] if os.path.exists(p)]
out["etc"] = sorted(os.listdir("/etc"))
""",
    )
    assert "API_KEY" not in out["env"]
    assert {*out["env"]} <= {
        *("HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "TMPDIR"),
        *("PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED"),
    }
    assert out["seen"] == []
    assert {*out["top"]} <= {
        *("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32"),
        *("proc", "run", "sbin", "tmp", "usr", "work"),
    }
    assert {*out["etc"]} <= {
        *("alternatives", "group", "hosts", "ld.so.cache", "localtime", "mime.types"),
        *("nsswitch.conf", "passwd"),
    }


def test_only_workspace_and_scratch_are_writable(sandbox: Sandbox) -> None:
    out = ask(
        sandbox,
        """
for directory in ("/", "/usr", "/etc", "/run", "/run/source", "/dev", "/bin", "/work", "/tmp"):
    try:
        open(directory + "/probe", "w").close()
        out[directory] = True
    except OSError:
        out[directory] = False
""",
    )
    assert {name for name, writable in out.items() if writable} == {"/work", "/tmp"}


def test_there_are_no_privileges_to_use_or_gain(sandbox: Sandbox) -> None:
    status = sandbox.run(["cat", "/proc/self/status"], timeout_seconds=5).stdout.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(fields[name], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    assert fields["Uid"].split()[0] != "0"
    for command in (["unshare", "--user", "true"], ["mount", "-t", "tmpfs", "x", "/tmp"]):
        assert sandbox.run(command, timeout_seconds=5).exit_code != 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give each sandbox a uid of its own")
def test_each_live_sandbox_of_root_has_a_uid_of_its_own() -> None:
    sandboxes = [Sandbox() for _ in range(3)]
    try:
        for sandbox in sandboxes:
            sandbox.run(["true"], timeout_seconds=5)
        uids = {process_uid(sandbox) for sandbox in sandboxes}
    finally:
        for sandbox in sandboxes:
            sandbox.close()
    assert len(uids) == 3
    assert 0 not in uids


def process_uid(sandbox: Sandbox) -> int:
    status = Path(f"/proc/{sandbox.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1])


def test_the_supervisor_cannot_be_killed_traced_limited_or_opened(sandbox: Sandbox) -> None:
    out = ask(
        sandbox,
        TRY
        + """
import ctypes, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    result = libc[name](*args)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result
attempt("ptrace", lambda: call("ptrace", 16, 1, None, None))
attempt("fds", lambda: os.listdir("/proc/1/fd"))
attempt("environ", lambda: open("/proc/1/environ").read())
attempt("memory", lambda: open("/proc/1/mem", "rb").read(1))
attempt("maps", lambda: open("/proc/1/maps").read())
attempt("root", lambda: os.listdir("/proc/1/root"))
buffer = ctypes.create_string_buffer(16)
class IOVec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
local = IOVec(ctypes.addressof(buffer), 16)
attempt("readv", lambda: call("process_vm_readv", 1, ctypes.byref(local), 1,
    ctypes.byref(IOVec(id(out), 16)), 1, 0))
attempt("pidfd", lambda: call("syscall", 438, os.pidfd_open(1), 0, 0))
attempt("limit", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)))
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGSEGV):
    os.kill(1, number)
""",
    )
    assert {name for name, (how, _) in out.items() if how == "did"} == set()
    assert sandbox.run(["echo", "alive"], timeout_seconds=5).stdout == b"alive\n"


def test_a_command_inherits_only_its_three_descriptors(sandbox: Sandbox) -> None:
    out = sandbox.run(["ls", "/proc/self/fd"], timeout_seconds=5).stdout.split()
    assert out == [b"0", b"1", b"2", b"3"]  # 3 is the directory that ls reads


def test_state_that_outlives_processes_is_denied(sandbox: Sandbox) -> None:
    out = ask(
        sandbox,
        TRY
        + """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def positive(value):
    if value < 0:
        raise OSError(ctypes.get_errno(), "")
    return value
attempt("shm", lambda: positive(libc.shmget(0x1234, 4096, 0o1600)))
attempt("msg", lambda: positive(libc.msgget(0x1234, 0o1600)))
attempt("sem", lambda: positive(libc.semget(0x1234, 1, 0o1600)))
KEYCTL_GET_KEYRING_ID, USER_KEYRING, keyctl = 0, -4, {"x86_64": 250}.get(os.uname().machine, 219)
attempt("key", lambda: positive(libc.syscall(keyctl, KEYCTL_GET_KEYRING_ID, USER_KEYRING, 1)))
""",
    )
    assert {name for name, (how, _) in out.items() if how == "did"} == set()


def run_as_ordinary_user(script: str, *wrapper: str) -> subprocess.CompletedProcess[str]:
    """Runs our code with the system's Python under another uid; skips where that is impossible."""
    if os.geteuid() != 0:
        pytest.skip("only root can become an ordinary user")
    packages = Path(pydantic.__file__).parents[1]
    prefix = ["setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", *wrapper]
    python = find_python().executable
    paths = f"import sys; sys.path[:0] = [{str(SOURCE)!r}, {str(packages)!r}]\n"

    def run(code: str) -> subprocess.CompletedProcess[str]:
        command = [*prefix, python, "-c", paths + code]
        return subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)

    if run("import steelyard, pydantic").returncode != 0:
        pytest.skip("an ordinary user cannot import pydantic with the system's Python here")
    return run(script)


def test_a_sandbox_of_an_ordinary_user_is_as_isolated() -> None:
    script = """
from steelyard.sandbox import Sandbox, SandboxSettings
with Sandbox(SandboxSettings(processes=16)) as sandbox:
    bomb = "import os, time\\nfor n in range(100):\\n  os.fork() or time.sleep(9)"
    print(sandbox.run(["python3", "-c", bomb], timeout_seconds=9).stderr.decode()[-40:].strip())
    print(sandbox.run(["id", "-un"], timeout_seconds=9).stdout.decode().strip())
    print(sandbox.run(["cat", "/proc/1/environ"], timeout_seconds=9).exit_code)
"""
    done = run_as_ordinary_user(script)
    assert done.stderr == ""
    unavailable, user, denied = done.stdout.splitlines()
    assert "Resource temporarily unavailable" in unavailable
    assert (user, denied) == ("agent", "1")


def test_a_machine_without_user_namespaces_is_told_so_in_one_sentence() -> None:
    done = run_as_ordinary_user(
        "from steelyard.sandbox import check_available; check_available()",
        *("bwrap", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/"),
        *("--proc", "/proc", "--dev", "/dev"),
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert "SandboxUnavailable: user namespaces are not available" in last
