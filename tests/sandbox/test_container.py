"""Sandboxes of docker and podman: the exact command line, real refusals, real containers."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pydantic
import pytest

from steelyard.sandbox import ReplyKind, Sandbox, SandboxError, SandboxSettings, SandboxUnavailable
from steelyard.sandbox.container import command_line, explain_failure
from steelyard.sandbox.launching import Launch
from steelyard.sandbox.sandbox import check_available

ENGINES = ("docker", "podman")
SLOW = 60.0


@pytest.mark.parametrize("engine", ENGINES)
def test_the_command_line_is_exactly_this(engine: str) -> None:
    settings = SandboxSettings(
        backend=engine, image="example/image:1", memory_mb=256, processes=20, workspace_mb=8
    )
    launch = Launch(settings, "/work", ("/tmp", "/dev/shm"))
    line = command_line(launch, name="steelyard-1-0", shared="/host/shared", uid=30_007)
    only = {"docker": [], "podman": ["--read-only-tmpfs=false", "--http-proxy=false"]}[engine]
    owner = {"docker": "uid=30007,gid=30007", "podman": "notmpcopyup,U"}[engine]
    tmpfs = f"rw,exec,nosuid,nodev,size=8m,mode=1777,{owner}"
    start = [
        *(engine, "run", "--rm", "--pull", "never", "--name", "steelyard-1-0"),
        *("--log-driver", "none", "--hostname", "sandbox", "--network", "none"),
        *("--ipc", "private", "--cap-drop", "ALL"),
        *("--security-opt", "no-new-privileges", "--read-only", *only),
        *("--user", "30007:30007", "--pids-limit", "36"),
        *("--memory", "344m", "--memory-swap", "344m"),  # 256 + 3 directories of 8 + 64
        *("--ulimit", "nproc=36:36", "--ulimit", "nofile=1024:1024"),
        *("--tmpfs", f"/work:{tmpfs}", "--tmpfs", f"/tmp:{tmpfs}", "--tmpfs", f"/dev/shm:{tmpfs}"),
        *("--mount", "type=bind,src=/host/shared,dst=/run/steelyard,readonly"),
        *("--workdir", "/work", "--env", "HOME=/work", "--env", "LANG=C.UTF-8"),
        *("--env", "TMPDIR=/tmp", "--env", "PYTHONHASHSEED=0"),
        *("--env", "PYTHONDONTWRITEBYTECODE=1"),
        *("--entrypoint", "python3", "example/image:1", "-s", "-S", "-c"),
    ]
    assert line[: len(start)] == start
    boot, control = line[len(start) :]
    assert "'/run/steelyard'" in boot
    assert control == "/run/steelyard/control"


def test_an_image_is_never_taken_for_an_option_and_there_is_no_back_end_without_isolation() -> None:
    with pytest.raises(pydantic.ValidationError, match="image"):
        SandboxSettings(image="--privileged")
    with pytest.raises(pydantic.ValidationError, match="backend"):
        SandboxSettings(backend="none")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_missing_engine_is_named_and_nothing_else_is_tried(
    engine: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bwrap = shutil.which("bwrap")
    assert bwrap is not None
    (tmp_path / "bwrap").symlink_to(bwrap)  # a fall-back would find it
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=f"^{engine} is not installed.*install {engine}"):
        check_available(SandboxSettings(backend=engine))


@pytest.mark.skipif(shutil.which("docker") is None, reason="docker's client is not installed")
def test_docker_without_its_daemon_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    sandbox = Sandbox(SandboxSettings(backend="docker"))
    with pytest.raises(SandboxUnavailable, match="daemon does not answer: start it") as caught:
        sandbox.run(["true"], timeout_seconds=5)
    assert "\n" not in str(caught.value)
    assert sandbox.closed


@pytest.mark.parametrize(
    ("said", "kind", "meant"),
    [
        (
            "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path "
            "is correct and if the daemon is running: dial unix /var/run/docker.sock: connect: no "
            "such file or directory",
            SandboxUnavailable,
            "daemon does not answer",
        ),
        (
            "docker: permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock: connect: permission denied",
            SandboxUnavailable,
            "join the group docker",
        ),
        (
            "docker: Error response from daemon: No such image: busybox:latest",
            SandboxUnavailable,
            "docker pull busybox",
        ),
        ("Error: busybox: image not known", SandboxUnavailable, "docker pull busybox"),
        (
            'OCI runtime create failed: exec: "python3": executable file not found in $PATH',
            SandboxUnavailable,
            "has no python3",
        ),
        ("something else\nentirely", SandboxError, "docker said: something else entirely"),
    ],
)
def test_what_an_engine_says_is_explained(said: str, kind: type[Exception], meant: str) -> None:
    error = explain_failure("docker", "busybox", said)
    assert type(error) is kind
    assert meant in str(error)


@pytest.fixture(scope="module", params=ENGINES)
def container(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A real container where an engine runs and the default image is there."""
    settings = SandboxSettings(
        backend=request.param, start_timeout_seconds=SLOW, workspace_mb=8, processes=16
    )
    if shutil.which(request.param) is None:
        pytest.skip(f"{request.param} is not installed")
    image = [request.param, "image", "inspect", settings.image]
    if subprocess.run(image, capture_output=True, check=False).returncode != 0:
        pytest.skip(f"{request.param} does not run or has no image {settings.image}")
    with Sandbox(settings) as made:
        yield made


def test_a_container_runs_commands_and_programs(container: Sandbox) -> None:
    container.put({"a/b.txt": b"1"})
    run = container.run(["sh", "-c", "cat; cat a/b.txt; id -u"], stdin=b"in ", timeout_seconds=20)
    assert run.stdout.startswith(b"in 13")  # the uid is 30,000 or one of the next
    source = b"def f(x):\n    return x + 1\n"
    with container.program({"m.py": source}, module="m.py", function="f") as program:
        assert program.caller.ready(10).kind is ReplyKind.RETURNED
        assert program.caller.call((1,), timeout_seconds=10).value == 2
    assert container.collect() == {}


def test_a_container_reaches_nothing(container: Sandbox) -> None:
    script = """
import ctypes, json, os, resource, socket
out = {}
def attempt(name, action):
    try:
        action()
        out[name] = "did"
    except OSError as error:
        out[name] = "failed"
def call(name, *args):
    if ctypes.CDLL(None, use_errno=True)[name](*args) < 0:
        raise OSError(ctypes.get_errno(), name)
attempt("root", lambda: open("/x", "w"))
attempt("etc", lambda: open("/etc/x", "w"))
attempt("ours", lambda: open("/run/steelyard/x", "w"))
attempt("network", lambda: socket.create_connection(("192.0.2.1", 80), timeout=2))
attempt("fds", lambda: os.listdir("/proc/1/fd"))
attempt("environ", lambda: open("/proc/1/environ").read())
attempt("limit", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)))
attempt("ptrace", lambda: call("ptrace", 16, 1, None, None))
attempt("mount", lambda: call("mount", b"x", b"/tmp", b"tmpfs", 0, None))
attempt("queue", lambda: call("mq_open", b"/q", os.O_CREAT | os.O_RDWR, 0o600, None))
for number in (2, 9, 15, 19):
    os.kill(1, number)
print(json.dumps([out, [n for n in os.environ if "proxy" in n.lower()]]))
"""
    run = container.run(["python3", "-c", script], timeout_seconds=20)
    assert run.exit_code == 0, run.stderr
    assert b"did" not in run.stdout
    assert run.stdout.rstrip().endswith(b"[]]")
    status = container.run(["cat", "/proc/self/status"], timeout_seconds=5).stdout.decode()
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert int(fields["CapBnd"], 16) == 0
    assert fields["NoNewPrivs"] == "1"


def test_a_container_is_bounded_and_wiped(container: Sandbox) -> None:
    assert container.run(["sh", "-c", "head -c 12M /dev/zero > f"], timeout_seconds=20).exit_code
    places = ("/work", "/tmp", "/dev/shm", "/dev/mqueue")
    script = "for d in /work /tmp /dev/shm /dev/mqueue; do echo s > $d/left; done 2>/dev/null"
    container.run(["sh", "-c", script], timeout_seconds=5)
    container.wipe()
    for place in places:
        assert container.run(["ls", "-A", place], timeout_seconds=5).stdout == b""


def test_an_absent_image_is_named(container: Sandbox) -> None:
    engine = container.settings.backend
    image = "localhost/steelyard/no-such-image:1"
    settings = SandboxSettings(backend=engine, image=image, start_timeout_seconds=SLOW)
    with pytest.raises(SandboxUnavailable, match=f"run {engine} pull {image}"):
        check_available(settings)
