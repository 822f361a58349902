"""Repositories cut back to their base commit: nothing later is left, nothing earlier is lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from steelyard.agents import Workspace, prune_repository, prune_task, repositories
from steelyard.auditing.fix_git import describe, find_repositories, prune_git
from steelyard.sandbox import SandboxPool, SandboxSettings
from steelyard.tasks import CheckSpec, FunctionChecks, Task

CHECKS = FunctionChecks("code.py", "f", (CheckSpec("one", (1,), 2),))
QUIET = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    **{f"GIT_{who}_{what}": "someone@example.com" for who in ("AUTHOR", "COMMITTER")
       for what in ("NAME", "EMAIL")},
}  # fmt: skip


def git(repository: Path, *arguments: str, day: int = 1) -> str:
    date = f"2024-01-{day:02d}T00:00:00Z"
    done = subprocess.run(
        ["git", "-C", repository, *arguments],
        env={**os.environ, **QUIET, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def commit(repository: Path, text: str, day: int) -> str:
    (repository / "code.py").write_text(text)
    git(repository, "add", "code.py")
    git(repository, "commit", "-qm", f"day {day}", day=day)
    return git(repository, "rev-parse", "HEAD")


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    """HEAD on day 2; later commits on a branch, tag, remote, stash, and in the reflog alone."""
    repository = tmp_path / "repository"
    repository.mkdir()
    git(repository, "init", "-q", "-b", "work")
    commit(repository, "first\n", 1)
    base = commit(repository, "buggy\n", 2)
    commit(repository, "fixed on a branch\n", 3)
    git(repository, "branch", "fix")
    git(repository, "tag", "-a", "v2", "-m", "two")
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(repository, "only in the reflog\n", 4)
    git(repository, "reset", "-q", "--hard", base)
    (repository / "code.py").write_text("stashed\n")
    git(repository, "stash", "-q")
    subprocess.run(
        ["git", "-C", repository, "hash-object", "-w", "--stdin"],
        input=b"a loose blob of nobody\n",
        check=True,
        capture_output=True,
    )
    return repository


def everything(repository: Path) -> set[str]:
    listed = git(repository, "cat-file", "--batch-all-objects", "--batch-check=%(objectname)")
    return set(listed.split())


def closure(repository: Path, commit: str) -> set[str]:
    listed = git(repository, "rev-list", "--objects", commit)
    return {line.split()[0] for line in listed.splitlines()}


def read_all(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_only_the_closure_of_head_is_left_on_disk(leaky: Path) -> None:
    base = git(leaky, "rev-parse", "HEAD")
    wanted, before = closure(leaky, base), everything(leaky)
    git(leaky, "config", "remote.origin.url", "https://example.com/x.git")
    git(leaky, "config", "core.fsmonitor", "touch /tmp/owned")
    (leaky / ".git/hooks/post-checkout").write_text("#!/bin/sh\ntrue\n")

    pruned = prune_git(leaky)

    assert everything(leaky) == wanted
    assert pruned.objects_removed == len(before - wanted) > 0
    assert git(leaky, "rev-parse", "HEAD") == base == pruned.base
    assert git(leaky, "for-each-ref", "--format=%(refname)") == "refs/heads/work"
    assert git(leaky, "log", "--format=%s") == "day 2\nday 1"
    assert git(leaky, "status", "--porcelain") == ""
    assert git(leaky, "reflog") == ""
    assert git(leaky, "fsck", "--full", "--strict") == ""
    config = (leaky / ".git/config").read_text()
    assert "fsmonitor" not in config
    assert "example.com" not in config
    assert not (leaky / ".git/hooks").exists()
    said = describe(pruned)
    for part in (
        *("refs/heads/fix", "refs/tags/v2", "refs/remotes/origin/main", "refs/stash"),
        *(
            "the reflog",
            "hooks",
            "ORIG_HEAD",
            "setting core.fsmonitor",
            "setting remote.origin.url",
        ),
    ):
        assert part in said
    assert sorted(p.name for p in leaky.iterdir()) == [".git", "code.py"]


def test_a_pruned_repository_is_pruned_again_without_effect(leaky: Path) -> None:
    prune_git(leaky)
    before = everything(leaky)
    again = prune_git(leaky)
    assert (again.objects_removed, again.removed) == (0, ())
    assert describe(again).startswith("nothing to remove")
    assert everything(leaky) == before


def test_packed_history_and_packed_references_go_too(leaky: Path) -> None:
    wanted = closure(leaky, "HEAD")
    git(leaky, "gc", "-q", "--prune=now")
    assert list(leaky.glob(".git/objects/pack/*.pack"))
    prune_git(leaky)
    assert everything(leaky) == wanted


def test_the_base_commit_may_lie_before_head(leaky: Path) -> None:
    first = git(leaky, "rev-parse", "HEAD~1")
    prune_git(leaky, base=first)
    assert everything(leaky) == closure(leaky, first)
    assert git(leaky, "status", "--porcelain") == "M code.py"  # the working tree is not touched


def test_a_detached_head_and_a_shallow_clone_survive(leaky: Path, tmp_path: Path) -> None:
    shallow = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "-q", "--depth=1", "--no-local", f"file://{leaky}", str(shallow)],
        check=True,
        capture_output=True,
    )
    git(shallow, "checkout", "-q", "--detach")
    prune_git(shallow)
    assert git(shallow, "log", "--format=%s") == "day 2"
    assert git(shallow, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(shallow, "fsck", "--full") == ""


def test_borrowed_objects_are_not_lost_in_silence(leaky: Path) -> None:
    wanted = closure(leaky, "HEAD")
    objects = leaky / ".git/objects"
    objects.rename(leaky / ".git/elsewhere")
    (objects / "info").mkdir(parents=True)
    (objects / "info/alternates").write_text("../elsewhere\n")
    with pytest.raises(ValueError, match="the commit that HEAD names is not in it"):
        prune_git(leaky)
    assert everything(leaky) >= wanted


def test_a_repository_without_commits_keeps_no_object(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "x").write_text("staged\n")
    git(tmp_path, "add", "x")
    pruned = prune_git(tmp_path)
    assert pruned.base == ""
    assert everything(tmp_path) == set()
    assert git(tmp_path, "status", "--porcelain") == "?? x"


def test_what_cannot_be_pruned_stays_as_it_was(leaky: Path, tmp_path: Path) -> None:
    before = read_all(leaky)
    with pytest.raises(ValueError, match="it has no commit abcdef12; correct base_commit"):
        prune_git(leaky, base="abcdef12")
    with pytest.raises(ValueError, match="give a commit's hash"):
        prune_git(leaky, base="--all")
    pack = leaky / ".git/objects" / git(leaky, "rev-parse", "HEAD")[:2]
    for path in pack.iterdir():
        path.chmod(0o644)
        path.write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"\.git: "):
        prune_git(leaky)
    assert {*read_all(leaky)} == {*before}
    with pytest.raises(ValueError, match=r"has no \.git directory"):
        prune_git(tmp_path)
    (tmp_path / ".git").write_text("gitdir: elsewhere\n")
    with pytest.raises(ValueError, match="link to a repository elsewhere"):
        prune_git(tmp_path)


def test_pruning_runs_no_program_that_the_repository_names(leaky: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for key in ("core.fsmonitor", "core.sshCommand", "filter.x.smudge", "core.pager"):
        git(leaky, "config", key, f"touch {mark}; false")
    git(leaky, "config", "include.path", "/etc/passwd")
    (leaky / ".git/hooks/reference-transaction").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (leaky / ".git/hooks/reference-transaction").chmod(0o755)
    pruned = prune_git(leaky)
    assert not mark.exists()
    assert {f"setting {key}" for key in ("core.fsmonitor", "filter.x.smudge", "include.path")} <= {
        *pruned.removed
    }


def test_without_git_the_sentence_says_so(leaky: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sandbox's own PATH is fixed, so git is hidden by asking for another program's name."""
    from steelyard.agents import history

    hidden = "PATH=/nonexistent:; " + history._CUT.replace("mkdir -p", ": ")
    monkeypatch.setattr(history, "_CUT", hidden)
    with pytest.raises(ValueError, match=r"git is not installed; install git, or remove the \.git"):
        prune_git(leaky)


def test_repositories_are_found_where_they_lie() -> None:
    files = dict.fromkeys(
        (
            *(".git/HEAD", ".git/objects/aa/b", ".git/modules/x/HEAD", ".git/modules/x/objects/c"),
            *("lib/.git/HEAD", "lib/.git/objects/pack/p.pack", "mirror.git/HEAD"),
            *("mirror.git/objects/aa/c", "docs/HEAD", "objects/x"),
        ),
        b"",
    )
    assert repositories(files) == [".git", "lib/.git", "mirror.git"]
    assert repositories({"HEAD": b"", "objects/a": b""}) == ["."]
    assert repositories({"HEAD.txt": b"", "code.py": b""}) == []


def test_an_agent_finds_a_working_repository_without_a_future(leaky: Path) -> None:
    task = Task("t", "fix it", CHECKS, files=read_all(leaky))
    wanted = closure(leaky, "HEAD")
    pool = SandboxPool()
    pruned = prune_task(task, pool.settings)
    assert prune_task(task, pool.settings).files == pruned.files
    workspace = Workspace(pruned.files, pool)
    listing = "git cat-file --batch-all-objects --batch-check='%(objectname)'; git status -s"
    done = workspace.run(["sh", "-c", listing], timeout_seconds=20)
    workspace.close()
    pool.close()
    assert done.stderr == b""
    assert {*done.stdout.decode().split()} == wanted
    assert pruned.files["code.py"] == task.files["code.py"]


def test_the_tasks_base_commit_decides(leaky: Path) -> None:
    first = git(leaky, "rev-parse", "HEAD~1")
    files = read_all(leaky)
    pruned = prune_task(
        Task("t", "fix it", CHECKS, files=files, metadata={"base_commit": first}),
        SandboxSettings(),
    )
    assert (
        prune_repository({p[5:]: d for p, d in files.items() if p.startswith(".git/")}, base=first)
        .files["refs/heads/work"]
        .decode()
        .strip()
        == first
    )
    assert pruned.files[".git/refs/heads/work"].decode().strip() == first
    with pytest.raises(ValueError, match=r"task t: \.git: it has no commit 0{40}"):
        prune_task(
            Task("t", "fix it", CHECKS, files=files, metadata={"base_commit": "0" * 40}),
            SandboxSettings(),
        )


def test_a_task_without_a_repository_is_the_same_object() -> None:
    task = Task("t", "fix it", CHECKS, files={"code.py": b"x"})
    assert prune_task(task, SandboxSettings()) is task


def test_repositories_on_disk_are_found(leaky: Path, tmp_path: Path) -> None:
    assert find_repositories(tmp_path) == [leaky]
