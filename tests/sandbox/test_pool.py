import pytest

from steelyard.sandbox import SandboxPool, SandboxUnavailable

LEFTOVERS = "echo secret > /tmp/t; mkdir d; echo secret > d/w; sleep 99 &"
LOOK = "ls -AR /app /tmp /dev/shm; cat /proc/[0-9]*/comm"


def test_an_episode_finds_nothing_of_the_one_before():
    pool = SandboxPool()
    first = pool.take()
    first.run(["sh", "-c", LEFTOVERS], timeout_seconds=5, keep_background=True)
    pool.give_back(first)
    second = pool.take()
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
    first = pool.take()
    first.run(["sh", "-c", "mkdir -p d/e; chmod 0 d"], timeout_seconds=5)
    pool.give_back(first)
    assert first.closed
    assert pool.take() is not first


def test_a_dead_sandbox_is_not_lent_again():
    pool = SandboxPool()
    first = pool.take()
    first.run(["true"], timeout_seconds=5)
    first.close()
    pool.give_back(first)
    assert pool.take() is not first


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


def test_a_workspace_that_would_hide_the_interpreter_is_refused():
    with pytest.raises(SandboxUnavailable, match="give the task another WORKDIR"):
        SandboxPool().take("/usr/lib").run(["true"], timeout_seconds=5)


def test_concurrent_episodes_get_their_own():
    pool = SandboxPool()
    assert pool.take() is not pool.take()
