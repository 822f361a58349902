"""Git repositories in a workspace, cut back to the commit that the task starts from.

An agent that finds a `.git` reads more than the present: later commits, tags, remotes, the reflog
and objects that no branch names any more, often with the very fix that is asked for. A repository
is therefore made anew from the base commit's closure alone. Git reads the old one inside a
sandbox, because a repository can make git run programs; what comes back are files.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from steelyard.sandbox import Completed, Sandbox, SandboxSettings
from steelyard.tasks import Task

_TIMEOUT_SECONDS = 120.0
_GIT = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_TERMINAL_PROMPT": "0",
}
_KEPT_CONFIG: Mapping[str, frozenset[str]] = {
    "core": frozenset(
        {"repositoryformatversion", "filemode", "bare", "symlinks", "ignorecase", "autocrlf", "eol"}
    ),
    "extensions": frozenset({"objectformat"}),
    "user": frozenset({"name", "email"}),
}
"""None of these names a program, a file or a remote."""

# $1: the base commit, or HEAD; $2: whether the repository has an index. Prints one fact per line.
_CUT = """
set -e
old() { git --git-dir=old "$@"; }
new() { git --git-dir=new "$@"; }
mkdir -p old/refs old/objects
old cat-file --batch-all-objects --batch-check > all
echo "before $(wc -l < all)"
old for-each-ref --format='ref %(refname)'
branch=$(old symbolic-ref -q HEAD || echo refs/heads/main)
git init -q --bare --template= --object-format="$(old rev-parse --show-object-format)" new
new symbolic-ref HEAD "$branch"
base=$(old rev-parse -q --verify "$1^{commit}" || true)
if [ -n "$base" ]; then
  echo "$base" | old pack-objects -q --revs --no-use-bitmap-index --stdout > pack
  new index-pack --stdin < pack > packed
  new update-ref "$branch" "$base"
  if [ -f old/shallow ]; then
    while read -r id; do new cat-file -e "$id" 2>/dev/null && echo "$id"; done < old/shallow \
      > new/shallow || true
  fi
  if [ "$2" = yes ]; then GIT_INDEX_FILE=new/index new read-tree "$base"; fi
elif [ "$1" != HEAD ]; then
  exit 3
elif old rev-parse -q --verify HEAD > /dev/null; then
  exit 4
fi
echo "base $base"
rm -rf old all pack packed new/hooks new/info new/description new/branches
"""

# Prints every object that the one reference does not reach, and every other reference.
_CHECK = """
set -e
mkdir -p new/refs new/objects
g() { git --git-dir=new "$@"; }
g cat-file --batch-all-objects --batch-check='%(objectname)' | sort -u > all
if g rev-parse -q --verify HEAD > /dev/null; then
  g rev-list --objects HEAD | cut -d' ' -f1 | sort -u > reached
else : > reached; fi
comm -3 all reached
g for-each-ref --format='%(refname)' > refs
g symbolic-ref HEAD | grep -vxF -f - refs || true
"""


@dataclass(frozen=True, slots=True)
class Pruned:
    """A repository's new files, by path inside its `.git`, and what they no longer hold."""

    files: Mapping[str, bytes]
    base: str
    """The commit that all that is left is reached from; empty where there is none."""
    objects_removed: int
    removed: tuple[str, ...]
    """One sentence part each: references, reflogs, hooks, configuration ..."""


def repositories(files: Mapping[str, bytes]) -> list[str]:
    """The git directories among `files` (`.git`, `lib/.git`, a bare `x.git`), outermost only."""
    heads = {path.rpartition("HEAD")[0] for path in files if f"/{path}".endswith("/HEAD")}
    found = sorted(h for h in heads if any(path.startswith(f"{h}objects/") for path in files))
    outer = [h for h in found if not any(h != other and h.startswith(other) for other in found)]
    return [h.rstrip("/") or "." for h in outer]


def prune_task(task: Task, settings: SandboxSettings) -> Task:
    """The task as an agent may find it: each repository among its files without later history.

    The base is HEAD, or `[metadata] base_commit`. Without a repository this costs nothing; else
    the result is kept for the next episode. Raises ValueError with one sentence where a
    repository cannot be read, and as a sandbox does.
    """
    roots = repositories(task.files)
    if not roots:
        return task
    files = dict(task.files)
    base = str(task.metadata.get("base_commit", "HEAD"))
    for root in roots:
        prefix = "" if root == "." else f"{root}/"
        inside = {p[len(prefix) :]: d for p, d in files.items() if p.startswith(prefix)}
        # A bare or nested repository has commits of its own.
        wanted = base if root == ".git" else "HEAD"
        try:
            pruned = _prune_cached(tuple(sorted(inside.items())), wanted, settings)
        except ValueError as error:
            raise ValueError(f"task {task.name}: {root}: {error}") from None
        files = {p: d for p, d in files.items() if not p.startswith(prefix)}
        files |= {f"{prefix}{p}": d for p, d in pruned.files.items()}
    return replace(task, files=files)


@functools.lru_cache(maxsize=64)
def _prune_cached(
    files: tuple[tuple[str, bytes], ...], base: str, settings: SandboxSettings
) -> Pruned:
    return prune_repository(dict(files), base=base, settings=settings)


def prune_repository(
    files: Mapping[str, bytes],
    *,
    base: str = "HEAD",
    settings: SandboxSettings | None = None,
) -> Pruned:
    """A new repository with nothing but what `base` reaches, from the files of a `.git`.

    One branch is left, the one HEAD was on (`main` where it was on none). A second, fresh
    sandbox checks that no other object and no other reference is left. Raises ValueError with
    one sentence where git is missing, the repository is damaged or lacks `base`.
    """
    if base != "HEAD" and not re.fullmatch(r"[0-9a-fA-F]{4,64}", base):
        raise ValueError(f"base_commit = {base!r} is not valid; give a commit's hash")
    config, dropped = _clean_config(files.get("config", b""))
    old = {f"old/{path}": data for path, data in files.items() if _belongs(path)}
    old["old/config"] = config
    with Sandbox(_room_for(files, settings or SandboxSettings())) as sandbox:
        sandbox.put(old)
        cut = sandbox.run(
            ["sh", "-c", _CUT, "cut", base, "yes" if "index" in files else "no"],
            timeout_seconds=_TIMEOUT_SECONDS,
            env=_GIT,
        )
        _require_success(cut, base)
        kept = sandbox.collect()
        if sandbox.refused:
            path, reason = next(iter(sandbox.refused.items()))
            raise ValueError(f"the cut-back repository could not be copied out: {path}: {reason}")
        sandbox.wipe()
        sandbox.put(kept)
        check = sandbox.run(["sh", "-c", _CHECK], timeout_seconds=_TIMEOUT_SECONDS, env=_GIT)
    if check.exit_code != 0 or check.stdout.strip():
        raise ValueError(f"history is left after pruning: {_last_line(check)}; remove the .git")
    new = {path.removeprefix("new/"): data for path, data in kept.items()}
    new["config"] = config
    if "info/exclude" in files:
        new["info/exclude"] = files["info/exclude"]
    facts = [
        line.partition(" ")[::2] for line in cut.stdout.decode("utf-8", "replace").splitlines()
    ]
    count = next(int(value) for key, value in facts if key == "before")
    references = [value for key, value in facts if key == "ref"]
    return Pruned(
        files=new,
        base=next(value for key, value in facts if key == "base"),
        objects_removed=count - _objects_in(new),
        removed=(*_removed(files, references, new), *dropped),
    )


def _belongs(path: str) -> bool:
    """Whether git needs the file to read objects and references: nothing that it would run."""
    return path.startswith(("objects/", "refs/")) or path in ("HEAD", "packed-refs", "shallow")


def _clean_config(config: bytes) -> tuple[bytes, list[str]]:
    """The few settings that a repository needs, and one phrase for each that was dropped."""
    section, lines, dropped = "", dict[str, list[str]](), list[str]()
    for line in config.decode("utf-8", "replace").splitlines():
        header = re.match(r'\s*\[\s*([\w.-]+)(?:\s+"(.*)")?\s*\]', line)
        if header:
            section = header[1].lower() + (f".{header[2]}" if header[2] is not None else "")
            line = line[header.end() :]
        setting = re.match(r'\s*([A-Za-z][\w-]*)\s*=\s*([^"\\#;]*?)\s*$', line)
        if setting and setting[1].lower() in _KEPT_CONFIG.get(section, ()):
            lines.setdefault(section, []).append(f"\t{setting[1]} = {setting[2]}\n")
        elif re.match(r"\s*[A-Za-z]", line):
            dropped.append(f"setting {section}.{re.split(r'[ =]', line.strip())[0].lower()}")
    lines.setdefault("core", ["\trepositoryformatversion = 0\n"])
    text = "".join(f"[{name}]\n{''.join(body)}" for name, body in lines.items())
    return text.encode(), dropped


def _room_for(files: Mapping[str, bytes], settings: SandboxSettings) -> SandboxSettings:
    """`settings` with room for the repository, its new pack and a copy of that."""
    size_mb = (sum(map(len, files.values())) >> 20) + 1
    return settings.model_copy(
        update={
            "file_mb": max(settings.file_mb, 2 * size_mb),
            "workspace_mb": max(settings.workspace_mb, 4 * size_mb + 16),
            "memory_mb": max(settings.memory_mb, 6 * size_mb + 512),
        }
    )


def _require_success(cut: Completed, base: str) -> None:
    if cut.exit_code == 0:
        return
    if b"git: not found" in cut.stderr:
        raise ValueError(
            "it cannot be pruned because git is not installed; install git, or remove the .git"
        )
    if cut.exit_code == 3:
        raise ValueError(f"it has no commit {base}; correct base_commit in [metadata]")
    if cut.exit_code == 4:
        raise ValueError(
            "the commit that HEAD names is not in it; fetch it, or make borrowed objects its own "
            "(git repack -a -d)"
        )
    if cut.timed_out:
        raise ValueError(f"git needed more than {_TIMEOUT_SECONDS:.0f} seconds; make it smaller")
    raise ValueError(f"git cannot read it ({_last_line(cut)}); repair it, or remove it")


def _last_line(completed: Completed) -> str:
    said = (completed.stderr or completed.stdout).decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in reversed(said) if line.strip()), "no message")[:200]


def _objects_in(files: Mapping[str, bytes]) -> int:
    """The number of objects in the one pack that there is, from its header (12 bytes)."""
    packs = [data for path, data in files.items() if path.endswith(".pack")]
    return sum(int.from_bytes(data[8:12], "big") for data in packs)


def _removed(
    files: Mapping[str, bytes], references: list[str], new: Mapping[str, bytes]
) -> list[str]:
    """What else the old repository held, in the order of its paths."""
    kept = new["HEAD"].decode().removeprefix("ref:").strip()
    found = [reference for reference in references if reference != kept]
    for folder, what in {
        "logs/": "the reflog",
        "hooks/": "hooks",
        "modules/": "repositories of submodules",
        "worktrees/": "worktrees",
        "lfs/": "large files of Git LFS",
        "rr-cache/": "recorded merges",
    }.items():
        if any(p.startswith(folder) and not p.endswith(".sample") for p in files):
            found.append(what)
    heads = {p for p in files if re.fullmatch(r"[A-Z_]+_HEAD(\.lock)?|AUTO_MERGE", p)}
    borrowed = {p for p in files if p in ("objects/info/alternates", "info/grafts")}
    return [*found, *sorted(heads | borrowed)]
