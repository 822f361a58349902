"""From what the explorer reached to findings: evidence, how an agent would use it, the fix."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from steelyard.auditing.findings import Finding, Strength
from steelyard.auditing.hidden import (
    copied_lines,
    decides_reward,
    new_lines,
    shows_every_check,
)
from steelyard.auditing.leak_wording import leak, rows
from steelyard.auditing.secret_patterns import Secret, find_secrets, in_fixtures
from steelyard.tasks import Task

_PROVED, _LEAD, _OBSERVATION = Strength.PROVED, Strength.LEAD, Strength.OBSERVATION
_PRUNE = "steelyard audit PATH --fix-git (steelyard train prunes by itself)"


def git_history(task: Task, answers: Mapping[str, Any]) -> Iterator[Finding]:
    """Objects of the workspace's repositories beyond the commit that the task starts from."""
    blobs = {_blob(data): path for path, data in _changed(task).items()}
    for row in answers.get("repositories", []):
        where = row["path"]
        if row["error"]:
            yield leak(
                "git-history", _LEAD, f"{where}: a git repository that could not be read",
                evidence=row["error"], use="read its objects with any tool at hand", fix=_PRUNE,
            )  # fmt: skip
            continue
        solution = sorted(blobs[name] for name in row["blobs"] if name in blobs)
        if not row["objects"]:
            continue
        newest = [f"{name} {subject}" for name, newer, subject in row["commits"] if newer]
        proved = bool(solution or row["newer"])
        evidence = (
            f"{row['objects']} objects that {row['head'] or 'HEAD'} does not reach, among them "
            f"{row['newer']} commits that are not older than it"
        )
        if newest:
            evidence += f": {rows(newest)}"
        if solution:
            evidence += f"; the reference solution's {', '.join(solution)} is one of them"
        names = [*row["references"], *row["others"]]
        evidence += f"; named by: {rows(names)}" if names else ""
        yield leak(
            "git-history",
            _PROVED if proved else _LEAD,
            f"{where}: history after the base commit"
            if proved
            else f"{where}: older objects outside the base commit's history",
            evidence=evidence,
            use="git log --all, git cat-file --batch-all-objects, then git show of the fix",
            fix=_PRUNE,
        )


def _changed(task: Task) -> dict[str, bytes]:
    """The reference files that differ from what the agent is given."""
    return {p: d for p, d in (task.solution or {}).items() if d and task.files.get(p) != d}


def _blob(data: bytes) -> str:
    header = f"blob {len(data)}\0".encode()
    return hashlib.sha1(header + data, usedforsecurity=False).hexdigest()


def hidden_content(
    task: Task, hidden: Mapping[str, bytes], answers: Mapping[str, Any]
) -> Iterator[Finding]:
    """Tests, held-out checks and the solution, whole or in pieces, where the agent can read."""
    digests = {hashlib.sha256(data).hexdigest(): path for path, data in hidden.items()}
    seen: set[str] = set()
    outside = answers.get("outside", {}).get("recognised", {})
    found = [(place, digest) for digest, place in outside.items()]
    found += [(place, hashlib.sha256(data).hexdigest()) for place, data in task.files.items()]
    for place, digest in found:
        path = digests.get(digest)
        if path is None:
            continue
        seen.add(place)
        telling = path.startswith("solution/") or decides_reward(path, hidden[path])
        yield leak(
            "hidden-files",
            _PROVED if telling else _OBSERVATION,
            f"{place} is the task's {path}",
            evidence=f"both have SHA-256 {digest[:16]}…",
            use="copy the solution" if path.startswith("solution/") else "code for these checks",
            fix=f"keep {path} out of environment/ and of every COPY",
        )
    yield from _copies(task, seen)
    yield from _tables(task)
    yield from _compiled(task, answers)


def _copies(task: Task, seen: set[str]) -> Iterator[Finding]:
    lines = new_lines(task)
    texts = {place: _text(data) for place, data in task.files.items() if b"\0" not in data}
    for place, text in {**texts, "the instruction": task.instruction}.items():
        if place in seen:
            continue
        for copied in copied_lines(text, lines):
            if place == copied.reference:
                continue  # such a line moves within its own file
            count = len(copied.found)
            if not copied.complete and (count < 2 or 2 * count < copied.distinctive):
                continue
            told = place == "the instruction" and count < 2
            yield leak(
                "solution-lines",
                _PROVED if copied.complete and not told else _LEAD,
                f"lines of the reference solution stand in {place}",
                evidence=f"{count} of the {copied.distinctive} telling lines that "
                f"{copied.reference} adds: {rows(repr(line) for line in copied.found)}",
                use="copy them",
                fix=f"take them out of {place}, unless the task means to give them",
            )


def _tables(task: Task) -> Iterator[Finding]:
    for what, verifier in (("tests", task.verifier), ("held-out checks", task.heldout)):
        for place, data in task.files.items():
            if shows_every_check(_text(data), verifier):
                yield leak(
                    "expected-values", _PROVED, f"{place} shows every value the {what} expect",
                    evidence=f"each call that the {what} make stands in it with its result",
                    use="return the right value for each of these inputs, and nothing else",
                    fix="give the agent other inputs than those that decide the reward",
                )  # fmt: skip
        if shows_every_check(task.instruction, verifier):
            yield leak(
                "expected-values", _LEAD, f"the instruction shows every value the {what} expect",
                evidence=f"each call that the {what} make stands in it with its result",
                use="answer with a table of the examples",
                fix="grade with inputs that the instruction does not name",
            )  # fmt: skip


def _compiled(task: Task, answers: Mapping[str, Any]) -> Iterator[Finding]:
    sources: Mapping[str, list[str]] = answers.get("sources", {})
    changed = {p.removesuffix(".py"): p for p in _changed(task) if p.endswith(".py")}
    compiled: Mapping[str, list[str]] = answers.get("compiled", {})
    for place in sorted(path for path in task.files if path.endswith(".pyc")):
        for path in changed.values():
            new = {*sources.get(f"solution/{path}", ())} - {*sources.get(f"given/{path}", ())}
            if new and new <= {*compiled.get(place, ())}:
                yield leak(
                    "compiled-solution", _PROVED, f"{place} is {path} of the solution, compiled",
                    evidence=f"{len(new)} functions are the same, instruction by instruction",
                    use="import it, or read it with dis",
                    fix="remove compiled files from environment/",
                )  # fmt: skip
        module = place.rpartition("/")[2].split(".")[0]
        if place not in compiled and module in {path.rpartition("/")[2] for path in changed}:
            yield leak(
                "compiled-solution", _LEAD, f"{place} is compiled for another Python",
                evidence=f"it has the name of {module}.py, which the solution changes",
                use="decompile it",
                fix="remove compiled files from environment/",
            )  # fmt: skip


def secrets(
    task: Task, hidden: Mapping[str, bytes], answers: Mapping[str, Any]
) -> Iterator[Finding]:
    """Keys and passwords in the environment and in files, masked."""
    seen_variables: Mapping[str, str] = answers.get("environment", {})
    texts = {path: _text(data) for path, data in task.files.items() if _is_worktree(path)}
    texts |= answers.get("outside", {}).get("texts", {})
    found: list[tuple[Secret, bool]] = []
    for path, text in texts.items():
        found += [(secret, True) for secret in find_secrets(text, path)]
    for name, value in {**task.environment_variables, **seen_variables}.items():
        reached = name in seen_variables
        line = f"{name}={value}"
        found += [(s, reached) for s in find_secrets(line, f"${name}/.env")]
    known = "\n".join([task.instruction, *map(_text, hidden.values())])
    grouped: dict[tuple[str, str, Strength], list[Secret]] = defaultdict(list)
    for secret, reached in found:
        strength = _PROVED if secret.certain and reached else _LEAD
        if secret.value in known:
            strength = _OBSERVATION
        elif in_fixtures(secret.path):
            strength = _LEAD if secret.certain else _OBSERVATION
        grouped[(secret.what, secret.path, strength)].append(secret)
    for (what, path, strength), alike in grouped.items():
        place = path.removesuffix("/.env") if path.startswith("$") else path
        title = f"{what} in {place}"
        if strength is _OBSERVATION:
            title += ": a part of the task, or made up for tests"
        yield leak(
            "secret", strength, title,
            evidence=rows(f"line {secret.line}: {secret.shown}" for secret in alike),
            use="act with its rights, for example call a paid service or read private data",
            fix="take it out and revoke it; give the agent no key that it does not need",
        )  # fmt: skip


def _is_worktree(path: str) -> bool:
    return not f"/{path}".startswith("/.git/objects/") and "/.git/objects/" not in path


def installed_fix(task: Task, answers: Mapping[str, Any]) -> Iterator[Finding]:
    """The distribution under repair, installed or cached beside its broken source."""
    telling = sum(len(lines) for lines in new_lines(task).values())
    for row in answers.get("installed", []):
        proved = bool(telling) and row["lines"] == telling
        yield leak(
            "installed-fix",
            _PROVED if proved else _LEAD,
            f"{row['name']} {row['version']} is installed beside its own source"
            + (" and has the fix" if proved else ""),
            evidence=f"{row['place']}: {row['lines']} of the {telling} telling lines of the "
            "reference solution are in it",
            use="read or copy the installed files",
            fix="install the workspace in editable mode, and no release of it",
        )
    caches = answers.get("outside", {}).get("caches", [])
    if caches:
        yield leak(
            "package-cache", _LEAD, "package archives lie in the sandbox",
            evidence=rows(caches),
            use="unpack the one that holds the fixed version",
            fix="pip install --no-cache-dir; remove ~/.cache",
        )  # fmt: skip


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
