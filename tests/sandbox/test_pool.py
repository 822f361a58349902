import os
import shutil
import sys
import tempfile

import pytest

from steelyard.sandbox import Sandbox, SandboxError, SandboxPool
from steelyard.sandbox.interpreter import find_python

LEFTOVERS = "echo secret > /tmp/t; mkdir d; echo secret > d/w; sleep 99 &"
LOOK = "ls -AR /app /tmp /dev/shm; cat /proc/[0-9]*/comm"


def test_an_episode_finds_nothing_of_the_one_before():
    pool = SandboxPool()
    first = pool.take("/app")
    first.run(["sh", "-c", LEFTOVERS], timeout_seconds=5, keep_background=True)
    pool.give_back(first)
    second = pool.take("/app")
    assert second is first, "it is reused"
    seen = second.run(
        ["sh", "-c", "ls -A /app /tmp /dev/shm; ps ax || ls /proc"], timeout_seconds=5
    )
    assert b"sleep" not in seen.stdout
    assert seen.stdout.startswith(b"/app:\n\n/dev/shm:\n\n/tmp:\n")
    assert second.collect() == {}
    pool.give_back(second)
    pool.close()
    assert first.closed


def test_what_cannot_be_emptied_is_not_lent_again():
    pool = SandboxPool()
    first = pool.take("/app")
    first.run(["sh", "-c", "mkdir -p d/e; chmod 0 d"], timeout_seconds=5)
    pool.give_back(first)
    assert first.closed
    assert pool.take("/app") is not first


def test_a_dead_sandbox_is_not_lent_again():
    pool = SandboxPool()
    first = pool.take("/app")
    first.run(["true"], timeout_seconds=5)
    first.close()
    pool.give_back(first)
    assert pool.take("/app") is not first


def test_an_episode_gets_the_workspace_of_its_task():
    pool = SandboxPool()
    made = {}
    for place in ("/srv/w", "/app", "/srv/w"):
        sandbox = pool.take(place)
        where = sandbox.run(["sh", "-c", "pwd; touch x; ls $HOME"], timeout_seconds=5).stdout
        assert where == f"{place}\nx\n".encode()
        assert made.setdefault(place, sandbox) is sandbox, "it is reused"
        pool.give_back(sandbox)
    pool.close()
    assert all(sandbox.closed for sandbox in made.values())


def test_the_longest_idle_goes_first_whatever_its_workspace():
    pool = SandboxPool(max_idle=2)
    lent = [pool.take(place) for place in ("/srv/a", "/srv/b", "/srv/c", "/srv/a")]
    for sandbox in lent:
        pool.give_back(sandbox)
    assert [sandbox.closed for sandbox in lent] == [True, True, False, False]
    assert pool.take("/srv/c") is lent[2]
    assert pool.take("/srv/a") is lent[3]
    pool.close()
    for sandbox in lent[2:]:
        pool.give_back(sandbox)
        assert sandbox.closed


@pytest.fixture
def python_elsewhere(monkeypatch):
    """The folder in which the running Python now seems to lie: a copy of the system's."""
    system = os.path.realpath("/usr/bin/python3")
    if not os.path.exists(system):
        pytest.skip("no system Python")
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        copy = f"{folder}/py/bin/python3"
        os.makedirs(os.path.dirname(copy))
        shutil.copy(system, copy)
        monkeypatch.setattr(sys, "base_prefix", f"{folder}/py")
        monkeypatch.setattr(sys, "_base_executable", copy)
        find_python.cache_clear()
        yield folder
    find_python.cache_clear()


def test_a_workspace_over_the_running_python_gets_the_system_s(python_elsewhere):
    ask = ["sh", "-c", "readlink /run/bin/python3; python3 -c 'print(6)'"]
    for place, python in (
        ("/srv/w", f"{python_elsewhere}/py/bin/python3"),
        (python_elsewhere, "/usr/bin/python3"),
        (f"{python_elsewhere}/py/w", "/usr/bin/python3"),
    ):
        with Sandbox(workspace=place) as sandbox:
            assert sandbox.run(ask, timeout_seconds=9).stdout.decode() == f"{python}\n6\n"


def test_a_workspace_that_would_hide_every_interpreter_fails_alone():
    """Not SandboxUnavailable, which ends a run: other tasks can go on."""
    with pytest.raises(SandboxError, match="give the task another WORKDIR"):
        SandboxPool().take("/usr/lib").run(["true"], timeout_seconds=5)


def test_concurrent_episodes_get_their_own():
    pool = SandboxPool()
    assert pool.take("/app") is not pool.take("/app")
