"""Commands, files and limits of a sandbox."""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path

import pytest

from steelyard.sandbox import Sandbox, SandboxError, SandboxSettings, SandboxUnavailable
from steelyard.sandbox.sandbox import check_available


def python(source: str) -> list[str]:
    return ["python3", "-c", source]


def test_a_command_gets_its_input_and_gives_its_output_and_exit_code(sandbox: Sandbox) -> None:
    completed = sandbox.run(
        ["bash", "-c", "cat; echo $NAME >&2; exit 3"],
        stdin=b"x" * 10_000,
        env={"NAME": "value"},
        timeout_seconds=5,
    )
    assert completed.stdout == b"x" * 10_000
    assert completed.stderr == b"value\n"
    assert completed.exit_code == 3
    assert not completed.timed_out
    assert not completed.truncated


def test_a_command_that_reads_no_input_ends(sandbox: Sandbox) -> None:
    assert sandbox.run(["true"], stdin=b"x" * 1_000_000, timeout_seconds=5).exit_code == 0


def test_a_missing_command_is_127_and_says_so(sandbox: Sandbox) -> None:
    completed = sandbox.run(["no-such-command"], timeout_seconds=5)
    assert completed.exit_code == 127
    assert b"no-such-command" in completed.stderr


def test_files_round_trip_and_are_collected(sandbox: Sandbox) -> None:
    files = {"a.txt": b"\x00\xff", "deep/er/b.py": b"print(1)", "empty": b"", "ü.txt": b"u"}
    sandbox.put(files)
    sandbox.write("a.txt", b"new")
    assert sandbox.read("a.txt") == b"new"
    assert sandbox.read("/work/deep/er/b.py") == b"print(1)"
    assert sandbox.collect() == {**files, "a.txt": b"new"}
    assert sandbox.refused == {}
    sandbox.wipe()
    assert sandbox.collect() == {}


def test_a_script_with_an_interpreter_line_may_run(sandbox: Sandbox) -> None:
    sandbox.put({"go.sh": b"#!/bin/sh\necho ran\n"})
    assert sandbox.run(["./go.sh"], timeout_seconds=5).stdout == b"ran\n"


@pytest.mark.parametrize(
    "path",
    ["../up", "a/../../up", "/etc/passwd", "/work", "", ".", "/workother/x", "a\0b", "\ud800"],
)
def test_a_path_outside_is_refused_by_name(sandbox: Sandbox, path: str) -> None:
    for attempt in (lambda: sandbox.read(path), lambda: sandbox.write(path, b"x")):
        with pytest.raises(OSError, match=r"not below|not the path"):
            attempt()


def test_a_missing_file_is_file_not_found_and_the_sandbox_lives_on(sandbox: Sandbox) -> None:
    with pytest.raises(FileNotFoundError, match=r"nothing\.txt"):
        sandbox.read("nothing.txt")
    assert sandbox.run(["true"], timeout_seconds=5).exit_code == 0


def test_links_pipes_setuid_and_oversize_are_left_behind_and_never_followed(
    sandbox: Sandbox,
) -> None:
    sandbox.put({"good.txt": b"good"})
    made = sandbox.run(
        [
            "bash",
            "-c",
            "ln -s /etc/passwd link; ln -s /tmp dirlink; ln -s /proc/1/environ env; mkfifo pipe;"
            "echo s >suid; chmod u+s suid; mkdir d; ln -s ../good.txt d/in;"
            "echo t >/tmp/t; python3 -c \"open(b'bad\\xff','w')\"; mkdir shut; chmod 0 shut",
        ],
        timeout_seconds=5,
    )
    assert made.exit_code == 0, made.stderr
    assert sandbox.collect() == {"good.txt": b"good"}
    assert set(sandbox.refused) == {
        *("link", "dirlink", "env", "pipe", "suid", "d/in", "bad\\udcff", "shut"),
    }
    assert sandbox.refused["link"] == "symbolic link"
    for path in ("link", "dirlink/t", "env", "pipe", "d/in"):
        with pytest.raises(OSError, match=r"symbolic link|ot a directory|ot a regular file"):
            sandbox.read(path)
        with pytest.raises(OSError, match=path):
            sandbox.write(path, b"x")
    assert sandbox.read("/tmp/t") == b"t\n"


def test_oversize_is_refused_one_by_one_and_in_all(sandbox: Sandbox) -> None:
    with pytest.raises(OSError, match="big: larger than 4194304 bytes"):
        sandbox.write("big", b"x" * ((4 << 20) + 1))
    # Files with holes take no room in the workspace, but would in the collection.
    made = sandbox.run(["bash", "-c", "truncate -s 4M a b c; truncate -s 5M d"], timeout_seconds=5)
    assert made.exit_code != 0
    assert [*sandbox.collect()] == ["a", "b", "d"]
    assert sandbox.refused == {"c": "more than 8388608 bytes in all"}


def test_output_is_capped_and_the_command_is_not_blocked(sandbox: Sandbox) -> None:
    completed = sandbox.run(
        python("import sys; sys.stdout.write('x' * 3_000_000); print('done', file=sys.stderr)"),
        timeout_seconds=10,
    )
    assert len(completed.stdout) == 16 << 10
    assert completed.truncated
    assert completed.stderr == b"done\n"


def test_a_timeout_kills_and_says_so(sandbox: Sandbox) -> None:
    started = time.monotonic()
    completed = sandbox.run(
        python("print('begun', flush=True)\nwhile True: pass"), timeout_seconds=0.5
    )
    assert time.monotonic() - started < 3
    assert completed.timed_out
    assert completed.exit_code == -9
    assert completed.stdout == b"begun\n"
    assert sandbox.run(["echo", "alive"], timeout_seconds=5).stdout == b"alive\n"


def count_sleepers(sandbox: Sandbox) -> bytes:
    script = "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n' | grep -c '^86399$'"
    return sandbox.run(["bash", "-c", script], timeout_seconds=5, keep_background=True).stdout


def test_background_children_die_with_their_command(sandbox: Sandbox) -> None:
    script = "setsid sleep 86399 & (setsid sleep 86399 &) ; nohup sleep 86399 >/dev/null 2>&1 &"
    sandbox.run(["bash", "-c", script], timeout_seconds=5)
    assert count_sleepers(sandbox) == b"0\n"
    sandbox.run(["bash", "-c", script], timeout_seconds=5, keep_background=True)
    assert count_sleepers(sandbox) == b"3\n"
    sandbox.collect()
    assert count_sleepers(sandbox) == b"0\n"


def test_nothing_outlives_the_sandbox() -> None:
    mark = f"86{os.getpid()}"
    with Sandbox() as sandbox:
        script = f"setsid sleep {mark} >/dev/null 2>&1 & sleep 0.1"
        sandbox.run(["bash", "-c", script], timeout_seconds=5, keep_background=True)
        assert host_processes(mark)
    assert not host_processes(mark)
    with pytest.raises(SandboxError, match="closed"):
        sandbox.run(["true"], timeout_seconds=1)


def host_processes(mark: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if file.read() == b"sleep\0" + mark.encode() + b"\0":
                    found.append(pid)
        except OSError:
            continue
    return found


def test_a_fork_bomb_is_bounded(sandbox: Sandbox) -> None:
    source = """
import os, time
born = 0
try:
    while born < 200:
        if os.fork() == 0:
            time.sleep(60)
        born += 1
except BlockingIOError:
    pass
print(born)
"""
    completed = sandbox.run(python(source), timeout_seconds=10)
    assert 0 < int(completed.stdout) < 16  # the supervisor and the command count too
    bomb = sandbox.run(["bash", "-c", ":(){ :|:& };:"], timeout_seconds=1)
    assert bomb.exit_code is not None
    assert sandbox.run(["echo", "alive"], timeout_seconds=5).stdout == b"alive\n"


def test_memory_of_one_process_is_bounded(sandbox: Sandbox) -> None:
    completed = sandbox.run(python("x = bytearray(400 << 20)"), timeout_seconds=10)
    assert b"MemoryError" in completed.stderr


def test_memory_of_all_processes_together_is_bounded(sandbox: Sandbox) -> None:
    source = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        x = b"x" * (120 << 20)
        time.sleep(30)
time.sleep(30)
"""
    completed = sandbox.run(python(source), timeout_seconds=20)
    assert not completed.timed_out
    assert completed.exit_code == -9
    assert b"more than 256 MiB" in completed.stderr


@pytest.mark.parametrize("directory", ["/work", "/tmp", "/dev/shm"])
def test_disk_is_bounded(sandbox: Sandbox, directory: str) -> None:
    script = f"for i in 1 2 3 4; do head -c 3M /dev/zero >{directory}/f$i || exit 9; done"
    assert sandbox.run(["bash", "-c", script], timeout_seconds=10).exit_code == 9
    one = f"head -c 5M /dev/zero >{directory}/g"
    assert sandbox.run(["bash", "-c", f"rm {directory}/f*; {one}"], timeout_seconds=5).exit_code
    sandbox.wipe()
    assert sandbox.run(["true"], timeout_seconds=5).exit_code == 0


def test_cpu_time_is_bounded() -> None:
    with Sandbox(SandboxSettings(cpu_seconds=1)) as sandbox:
        completed = sandbox.run(python("while True: pass"), timeout_seconds=15)
    assert not completed.timed_out
    assert completed.exit_code == -9


def test_several_run_at_once_and_do_not_see_each_other() -> None:
    results: dict[int, tuple[bytes, dict[str, bytes]]] = {}

    def work(number: int) -> None:
        with Sandbox() as sandbox:
            sandbox.write("mine.txt", str(number).encode())
            completed = sandbox.run(
                ["bash", "-c", "sleep 0.2; ls | wc -l; cat mine.txt"], timeout_seconds=10
            )
            results[number] = completed.stdout, sandbox.collect()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: (b"1\n%d" % n, {"mine.txt": b"%d" % n}) for n in range(6)}


def test_a_sandbox_survives_the_thread_that_started_it() -> None:
    sandbox = Sandbox()
    thread = threading.Thread(target=lambda: sandbox.write("a", b"1"))
    thread.start()
    thread.join()
    with sandbox:
        assert sandbox.read("a") == b"1"


def test_closing_ends_another_threads_command(sandbox: Sandbox) -> None:
    errors: list[str] = []

    def work() -> None:
        try:
            sandbox.run(["sleep", "60"], timeout_seconds=60)
        except SandboxError as error:
            errors.append(str(error))

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.5)
    started = time.monotonic()
    sandbox.close()
    thread.join()
    assert time.monotonic() - started < 5
    assert "died" in errors[0]


def test_a_dead_sandbox_is_a_sandbox_error(sandbox: Sandbox) -> None:
    sandbox.run(["true"], timeout_seconds=5)
    assert sandbox.pid is not None
    os.kill(sandbox.pid, 9)
    with pytest.raises(SandboxError, match="died"):
        sandbox.run(["true"], timeout_seconds=5)
    assert sandbox.closed


def test_a_machine_without_bubblewrap_is_told_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(SandboxUnavailable, match="install the package bubblewrap"):
        check_available()


@pytest.mark.parametrize(
    ("said", "setting"),
    [
        (
            "No permissions to create new namespace, likely because the kernel does not allow "
            "non-privileged user namespaces. On e.g. debian this can be enabled with 'sysctl "
            "kernel.unprivileged_userns_clone=1'.",
            "set sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            "Creating new namespace failed: nesting depth or /proc/sys/user/max_*_namespaces "
            "exceeded (ENOSPC)",
            "set sysctl user.max_user_namespaces",
        ),
        ("setting up uid map: Permission denied", "kernel.apparmor_restrict_unprivileged_userns=0"),
        (
            "loopback: Failed RTM_NEWADDR: Operation not permitted",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            "Can't mount proc on /newroot/proc: Operation not permitted",
            "--security-opt systempaths=unconfined",
        ),
        ("Unknown option --disable-userns", "bubblewrap 0.8 or newer is needed"),
    ],
)
def test_what_bubblewrap_says_names_the_setting_and_nothing_runs_without_it(
    said: str, setting: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program that prints what bwrap prints stands in for one that the kernel refuses."""
    stand_in = tmp_path / "bwrap"
    stand_in.write_text(f'#!/bin/sh\necho "bwrap: {said}" >&2\nexit 1\n')
    stand_in.chmod(0o755)
    if os.geteuid() == 0:  # bwrap is then started by a uid that must be able to reach it
        for directory in (tmp_path, *list(tmp_path.parents)[:-2]):
            directory.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    sandbox = Sandbox()
    with pytest.raises(SandboxUnavailable) as caught:
        sandbox.run(["true"], timeout_seconds=5)
    assert setting in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sandbox.closed


def test_this_machine_can_sandbox_and_starts_quickly() -> None:
    check_available()
    seconds = []
    for _ in range(5):
        started = time.perf_counter()
        with Sandbox() as sandbox:
            sandbox.run(["true"], timeout_seconds=5)
            seconds.append(time.perf_counter() - started)
    print(f"a sandbox starts and runs its first command in {statistics.median(seconds):.3f} s")
    assert statistics.median(seconds) < 1.0  # some 0.05 s on an idle machine
