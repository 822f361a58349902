"""An agent that tries to leave its sandbox: every attempt fails, and fails in its own sandbox."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from steelyard.sandbox import Sandbox, SandboxError, SandboxSettings

OrdinaryUser = Callable[[list[str]], subprocess.CompletedProcess[str]]
ATTEMPT = """
import ctypes, json, os, signal, socket
libc = ctypes.CDLL(None, use_errno=True)
out = {}
def attempt(name, action):
    try:
        action()
        out[name] = "did"
    except (OSError, MemoryError) as error:
        out[name] = type(error).__name__
def call(name, *args):
    if libc[name](*args) < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
"""


def attempts(sandbox: Sandbox, source: str) -> dict[str, str]:
    code = f"{ATTEMPT}{source}\nprint(json.dumps(out))"
    run = sandbox.run(["python3", "-c", code], timeout_seconds=20)
    assert run.exit_code == 0, run.stderr
    out: dict[str, str] = json.loads(run.stdout)
    return out


def succeeded(out: dict[str, str]) -> set[str]:
    assert out
    return {name for name, how in out.items() if how == "did"}


def test_mounts_cannot_be_changed_and_namespaces_not_entered(sandbox: Sandbox) -> None:
    out = attempts(
        sandbox,
        """
REMOUNT, BIND, NEWUSER, NEWNS = 32, 4096, 0x10000000, 0x20000
attempt("mount", lambda: call("mount", b"x", b"/tmp", b"tmpfs", 0, None))
attempt("remount /", lambda: call("mount", None, b"/", None, REMOUNT | BIND, None))
attempt("remount /usr", lambda: call("mount", None, b"/usr", None, REMOUNT | BIND, None))
attempt("bind", lambda: call("mount", b"/proc/1/root", b"/tmp", None, BIND, None))
attempt("umount", lambda: call("umount2", b"/proc", 2))
attempt("unshare user", lambda: call("unshare", NEWUSER))
attempt("unshare mount", lambda: call("unshare", NEWNS))
attempt("chroot", lambda: os.chroot("/tmp"))
attempt("pivot", lambda: call("pivot_root", b"/tmp", b"/tmp"))
for name in ("mnt", "net", "pid", "user"):
    attempt("setns " + name, lambda: call("setns", os.open("/proc/1/ns/" + name, os.O_RDONLY), 0))
attempt("disk", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)))
attempt("memory", lambda: os.mknod("/tmp/mem", 0o20600, os.makedev(1, 1)))
attempt("root", lambda: os.setuid(0))
attempt("owner", lambda: os.chown("/tmp", 0, 0))
attempt("hostname", lambda: socket.sethostname("other"))
""",
    )
    assert succeeded(out) == set()


def test_a_setuid_program_gains_nothing(sandbox: Sandbox) -> None:
    script = "cp /usr/bin/id i && chmod u+s i && ./i -u; id -u; su -c id 2>&1 </dev/null"
    run = sandbox.run(["sh", "-c", script], timeout_seconds=10)
    assert run.stdout.split()[:2] == [b"1000", b"1000"]
    assert b"uid=0" not in run.stdout


def test_proc_offers_no_lever_and_no_other_process(sandbox: Sandbox) -> None:
    out = attempts(
        sandbox,
        """
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches",
        "/proc/sys/kernel/modprobe", "/proc/1/oom_score_adj", "/proc/1/mem", "/proc/1/clear_refs"):
    attempt("write " + path, lambda: open(path, "w").write("1"))
for path in ("/proc/kcore", "/proc/kmsg", "/proc/1/mem", "/proc/1/environ", "/proc/1/auxv"):
    attempt("read " + path, lambda: open(path, "rb").read(1))
for path in ("/proc/1/root/etc", "/proc/1/cwd", "/proc/1/fd", "/proc/1/map_files"):
    attempt("list " + path, lambda: os.listdir(path))
attempt("terminal", lambda: open("/dev/tty"))
attempt("block", lambda: os.listdir("/sys/block"))
""",
    )
    assert succeeded(out) == set()
    pids = sandbox.run(["sh", "-c", "echo /proc/[0-9]*"], timeout_seconds=5).stdout.split()
    assert len(pids) == 2  # the supervisor and the shell


def test_signals_reach_no_process_of_the_host(sandbox: Sandbox) -> None:
    victim = subprocess.Popen(["sleep", "60"])
    try:
        sandbox.run(
            ["python3", "-c", f"import os\ntry: os.kill({victim.pid}, 9)\nexcept OSError: 0"],
            timeout_seconds=5,
        )
        run = sandbox.run(["python3", "-c", "import os; os.kill(-1, 9)"], timeout_seconds=5)
        assert run.exit_code in (0, 1, -9)
        sandbox.run(["sh", "-c", "kill -9 -1; kill -STOP 1; kill -9 0"], timeout_seconds=5)
        time.sleep(0.05)
        assert victim.poll() is None
        assert sandbox.run(["echo", "alive"], timeout_seconds=5).stdout == b"alive\n"
    finally:
        victim.kill()
        victim.wait()


def test_no_socket_of_the_host_can_be_reached(sandbox: Sandbox, tmp_path: Path) -> None:
    name = f"steelyard-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as abstract, socket.socket() as inet:
        abstract.bind(f"\0{name}")
        abstract.listen(1)
        inet.bind(("127.0.0.1", 0))
        inet.listen(1)
        port = inet.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()  # from the host it works
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(f"\0{name}")
        out = attempts(
            sandbox,
            f"""
def unix(where):
    socket.socket(socket.AF_UNIX).connect(where)
attempt("abstract", lambda: unix(chr(0) + {name!r}))
attempt("lease", lambda: unix(chr(0) + "steelyard-uid-1900000000"))
for path in ("/var/run/docker.sock", "/run/docker.sock", "/run/dbus/system_bus_socket"):
    attempt(path, lambda: unix(path))
attempt("loopback", lambda: socket.create_connection(("127.0.0.1", {port}), timeout=2))
attempt("metadata", lambda: socket.create_connection(("169.254.169.254", 80), timeout=2))
attempt("ipv6", lambda: socket.create_connection(("2001:db8::1", 80), timeout=2))
attempt("name", lambda: socket.getaddrinfo("example.com", 80))
attempt("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
attempt("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
""",
        )
    assert succeeded(out) == set()


def test_two_sandboxes_cannot_reach_each_other(sandbox: Sandbox) -> None:
    with Sandbox(sandbox.settings) as other:
        serve = "import socket,time; s=socket.socket(socket.AF_UNIX); s.bind(chr(0)+'meet');"
        serve += "s.listen(1); open('/dev/shm/mine','w').write('x'); time.sleep(30)"
        other.run(
            ["sh", "-c", f'python3 -c "{serve}" >/dev/null 2>&1 & sleep 0.5'],
            timeout_seconds=10,
            keep_background=True,
        )
        assert other.run(["ls", "/dev/shm"], timeout_seconds=5).stdout == b"mine\n"
        out = attempts(
            sandbox,
            """
attempt("socket", lambda: socket.socket(socket.AF_UNIX).connect(chr(0) + "meet"))
attempt("file", lambda: open("/dev/shm/mine"))
""",
        )
        assert succeeded(out) == set()


def test_a_full_disk_leaves_the_workspace_to_be_graded(sandbox: Sandbox) -> None:
    sandbox.write("answer.py", b"print(42)\n")
    fill = "for d in /tmp /dev/shm /work; do n=0; while head -c 1M /dev/zero >$d/f$n; do "
    run = sandbox.run(
        ["bash", "-c", fill + "n=$((n+1)); done; done 2>/dev/null"], timeout_seconds=20
    )
    assert not run.timed_out
    assert sandbox.collect()["answer.py"] == b"print(42)\n"


def test_a_flood_of_empty_files_is_ended(sandbox: Sandbox) -> None:
    flood = "import os\nn = 0\nwhile True:\n    os.mknod(f'/tmp/{n}'); n += 1"
    run = sandbox.run(["python3", "-c", flood], timeout_seconds=60)
    assert not run.timed_out
    assert run.exit_code == -9
    assert b"more than 256 MiB of memory" in run.stderr


def test_an_attack_is_its_own_sandboxes_failure_and_the_others_go_on(sandbox: Sandbox) -> None:
    """A fork bomb, a memory hog and a dead sandbox beside one that works."""
    settings = SandboxSettings(memory_mb=128, processes=16, workspace_mb=8)
    bomb, hog, dead = (Sandbox(settings) for _ in range(3))
    results: dict[str, object] = {}

    def attack(name: str, attacker: Sandbox, script: str) -> None:
        try:
            results[name] = attacker.run(["bash", "-c", script], timeout_seconds=3)
        except SandboxError as error:
            results[name] = error

    grow = "import time\nx = [b'x' * (30 << 20) for _ in range(2)]\ntime.sleep(9)"
    hogs = " & ".join([f'python3 -c "{grow}"'] * 4)
    threads = [
        threading.Thread(target=attack, args=("bomb", bomb, ":(){ :|:& };:; sleep 9")),
        threading.Thread(target=attack, args=("hog", hog, f"{hogs} & sleep 9")),
        threading.Thread(target=attack, args=("dead", dead, "sleep 9")),
    ]
    try:
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        assert dead.pid is not None
        os.kill(dead.pid, 9)
        for _ in range(10):
            fork = sandbox.run(["bash", "-c", "true | cat; echo fine"], timeout_seconds=10)
            assert fork.stdout == b"fine\n", fork.stderr
        for thread in threads:
            thread.join()
    finally:
        for attacker in (bomb, hog, dead):
            attacker.close()
    assert isinstance(results["dead"], SandboxError)
    assert b"more than 128 MiB" in results["hog"].stderr  # type: ignore[attr-defined]
    assert results["bomb"].timed_out or results["bomb"].exit_code  # type: ignore[attr-defined]
    assert not sandbox.closed


def test_the_host_file_behind_a_link_is_never_delivered(sandbox: Sandbox, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    script = f"ln -s {tmp_path}/secret a; ln -s /etc/passwd b; ln /etc/passwd c 2>/dev/null; true"
    sandbox.run(["sh", "-c", script], timeout_seconds=5)
    assert sandbox.collect() == {}


def test_what_is_collected_is_plain_bytes_without_modes(sandbox: Sandbox) -> None:
    """Nothing that is carried out can be a program with privileges on the host."""
    sandbox.run(["sh", "-c", "echo a >a; chmod 6755 a; echo b >b; chmod 777 b"], timeout_seconds=5)
    assert sandbox.collect() == {"b": b"b\n"}
    assert sandbox.refused == {"a": "setuid or setgid"}


def test_an_ordinary_users_sandboxes_withstand_the_same(ordinary_user: OrdinaryUser) -> None:
    files = ["tests/test_escape.py", "tests/test_isolation.py", "tests/test_pool.py"]
    done = ordinary_user(["-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *files])
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert " passed" in done.stdout
    reasons = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all("only root" in line for line in reasons), reasons
