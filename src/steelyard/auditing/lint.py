"""Reads a Harbor task directory and names what invites trouble; runs nothing.

The configuration rules follow those of `harbor lint` (Harbor 0.26) by what they are about.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from steelyard.auditing.findings import Finding, Strength
from steelyard.auditing.lint_instruction import contradictions
from steelyard.auditing.lint_script import reward_script
from steelyard.auditing.task_files import TaskFiles, hygiene, read_files
from steelyard.tasks.harbor_schema import unknown_keys

_COMPOSE = re.compile(r"^environment/(docker-)?compose\.ya?ml$")
_COMPOSE_RULES = {
    "privileged": (r"^\s*privileged\s*:\s*(?:true|yes)\b", "a privileged container"),
    "capabilities": (r"^\s*cap_add\s*:", "added capabilities"),
    "engine-socket": (r"docker\.sock|podman\.sock|containerd\.sock", "the engine's socket"),
    "host-namespace": (r"^\s*(?:network_mode|pid|ipc)\s*:\s*[\"']?host\b", "a host namespace"),
    "bind-mount": (r"^\s*-\s*[\"']?(?:\.{0,2}/|~|\$)[^:\n]*:/|^\s*(?:-\s*)?type\s*:\s*bind\b",
                   "a folder of the host"),
}  # fmt: skip
_INSTALL = re.compile(
    r"\b(?:pip3?\s+install|uv\s+(?:pip\s+install|add|tool\s+install|run\s+--with)|uvx|pipx\s+run|"
    r"apt(?:-get)?\s+(?:-\S+\s+)*install|apk\s+add|npm\s+(?:install|i|ci)|npx|"
    r"cargo\s+install|go\s+install|gem\s+install|conda\s+install)\b"
)
_DOWNLOAD = re.compile(r"\b(?:curl|wget)\b[^\n|;&]*https?://|\bgit\s+clone\b")
_PIP = re.compile(r"(?:\bpip3?|\buv\s+pip)\s+install\s+([^\n;&|]*)")
_PIP_VALUES = frozenset(
    {"-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-e",
     "--editable", "-t", "--target", "--python", "-f", "--find-links"}
)  # fmt: skip


def lint(directory: Path) -> list[Finding]:
    """What static reading finds in one task directory, the proved first.

    All are hygiene leads and observations, except where reading alone leaves no doubt. Raises
    ValueError where there is no valid `task.toml`.
    """
    task = read_files(directory)
    findings = [
        *_verifier_mode(task),
        *_artifacts(task),
        *_network(task),
        *_unknown(task),
        *_compose(task),
        *_dockerfile(task),
        *_verifier_installs(task),
        *reward_script(task),
        *contradictions(task),
    ]
    return sorted(findings, key=lambda finding: not finding.proved)


def _verifier_mode(task: TaskFiles) -> Iterator[Finding]:
    verifiers = {"[verifier]": task.config.verifier}
    for step in task.config.steps or []:
        verifiers[f"[verifier] of step {step.name}"] = step.verifier
    if not task.scripts:
        return  # checks as data are compared out of process
    for place, verifier in verifiers.items():
        mode = verifier.environment_mode
        if mode == "separate" or (mode is None and verifier.environment is not None):
            continue
        if task.config.steps and place == "[verifier]":
            continue
        yield hygiene(
            "shared-verifier", f"{place} runs in the agent's own container",
            evidence='environment_mode is "shared"' + ("" if mode else ", Harbor's default"),
            use="leave a process, a module beside the tests or a shadowed program for the verifier",
            fix='environment_mode = "separate", with what it needs declared in artifacts',
        )  # fmt: skip


def _artifacts(task: TaskFiles) -> Iterator[Finding]:
    steps = task.config.steps or []
    listed = [*task.config.artifacts, *(item for step in steps for item in step.artifacts)]
    sources = [item if isinstance(item, str) else item.source for item in listed]
    for source in sources:
        clean = "/" + source.strip("/")
        if clean in ("/", "/logs") or re.match(r"/logs/(verifier|agent)(/|$)", clean):
            yield hygiene(
                "artifact-log-overlap", f"the artifact {source} overlaps the logs",
                evidence=f"artifacts names {source}",
                use="hand in a reward file as an artifact",
                fix="name files of the workspace",
            )  # fmt: skip
    verifier = task.config.verifier
    if verifier.environment_mode == "separate" and not sources and task.scripts and not steps:
        yield hygiene(
            "no-artifacts", "a separate verifier without artifacts sees no work",
            evidence='environment_mode = "separate" and artifacts is empty',
            use="none: right work is graded as if nothing had been done",
            fix="list in artifacts what the verifier must see",
        )  # fmt: skip


def _network(task: TaskFiles) -> Iterator[Finding]:
    environment = task.config.environment
    mode = task.config.agent.network_mode or environment.network_mode
    if mode in ("no-network", "allowlist") or environment.allow_internet is False:
        return
    yield hygiene(
        "public-network", "under Harbor the agent reaches the whole network",
        evidence='network_mode is "public"' + ("" if mode else ", Harbor's default"),
        use="look the solution up",
        fix='network_mode = "no-network" in [environment], or an allow-list',
        strength=Strength.OBSERVATION,
    )  # fmt: skip


def _unknown(task: TaskFiles) -> Iterator[Finding]:
    for sentence in unknown_keys(task.config, "task.toml"):
        yield hygiene(
            "unknown-key", sentence.removeprefix("task.toml: ").partition(",")[0],
            evidence=sentence, use="none", fix="correct or remove the key",
            strength=Strength.OBSERVATION,
        )  # fmt: skip


def _compose(task: TaskFiles) -> Iterator[Finding]:
    for path, text in task.below("environment/").items():
        if not _COMPOSE.match(path):
            continue
        plain = re.sub(r"(^|\s)#.*", r"\1", text)
        for rule, (pattern, what) in _COMPOSE_RULES.items():
            match = re.search(pattern, plain, re.MULTILINE)
            if match:
                yield hygiene(
                    f"compose-{rule}", f"{path} gives the agent {what}",
                    evidence=match[0].strip(),
                    use="leave the container, or reach files of the host",
                    fix="remove it from the compose file",
                )  # fmt: skip


def _dockerfile(task: TaskFiles) -> Iterator[Finding]:
    images = [("task.toml", task.config.environment.docker_image or "")]
    user = str(task.config.agent.user if task.config.agent.user is not None else "")
    for path, text in task.below("environment/Dockerfile", "tests/Dockerfile").items():
        stages: set[str] = set()
        for keyword, rest in _instructions(text):
            words = rest.split()
            if keyword == "FROM" and words:
                image = next(word for word in words if not word.startswith("--"))
                if image not in stages and "$" not in image:
                    images.append((path, image))
                stages |= {words[-1]} if len(words) > 2 else set()
            elif keyword == "RUN":
                yield from _unpinned(path, rest)
            elif keyword == "USER" and path.startswith("environment/") and words:
                user = user or words[0]
            elif keyword in ("COPY", "ADD"):
                yield from _copied(task, path, words)
    for path, image in images:
        if image and image != "scratch" and _is_unpinned_image(image):
            yield hygiene(
                "unpinned-image", f"{path}: the image {image} changes under the task",
                evidence=f"{image} names no version",
                use="none: rewards of different days are not comparable",
                fix="name a version, or better a digest",
            )  # fmt: skip
    if user in ("root", "0"):
        yield hygiene(
            "root-agent", "the agent is root by request",
            evidence=f"the user is {user}",
            use="change programs and libraries that the verifier trusts",
            fix="a user of its own for the agent", strength=Strength.OBSERVATION,
        )  # fmt: skip


def _is_unpinned_image(image: str) -> bool:
    if "@sha256:" in image:
        return False
    _, colon, tag = image.rpartition("/")[2].partition(":")
    return not colon or tag == "latest"


def _unpinned(path: str, text: str) -> Iterator[Finding]:
    loose = [word for match in _PIP.finditer(text) for word in _loose_requirements(match[1])]
    if loose:
        yield hygiene(
            "unpinned-dependency", f"{path}: dependencies without a version",
            evidence="pip install " + " ".join(loose),
            use="none: a new release can turn the verifier's verdict",
            fix="name==version, or a requirements file with versions",
        )  # fmt: skip


def _loose_requirements(arguments: str) -> list[str]:
    """The requirements of a pip command that name no version."""
    try:
        words = shlex.split(arguments, comments=True)
    except ValueError:
        return []
    loose, value = [], False
    for word in words:
        if not value and re.fullmatch(r"[A-Za-z][\w.-]*(\[[\w,-]+\])?", word):
            loose.append(word)
        value = word in _PIP_VALUES
    return loose


def _copied(task: TaskFiles, path: str, words: list[str]) -> Iterator[Finding]:
    for source in (word.strip("\"'[],") for word in words[:-1] if not word.startswith("--")):
        first = source.removeprefix("./").partition("/")[0]
        folder = {"test": "tests", "solutions": "solution"}.get(first, first)
        names = {p.rpartition("/")[2] for p in task.below(f"environment/{first}/")}
        kept = (
            {p.rpartition("/")[2] for p in task.below(f"{folder}/")} if folder != first else set()
        )
        kept |= {p.rpartition("/")[2] for p in task.below(f"{folder}/")}
        if folder in ("solution", "heldout") or (folder == "tests" and names & kept):
            yield hygiene(
                "image-leak", f"{path}: the image holds {source}",
                evidence=f"COPY {' '.join(words)}",
                use="read the expected results or the solution",
                fix="lay tests and solution only for the verifier",
            )  # fmt: skip


def _verifier_installs(task: TaskFiles) -> Iterator[Finding]:
    for path, text in task.below("tests/").items():
        if not path.endswith(".sh"):
            continue
        plain = re.sub(r"(?m)^\s*#.*$", "", text)
        yield from _unpinned(path, plain)
        for rule, pattern, what in (
            ("verifier-install", _INSTALL, "installs software"),
            ("verifier-download", _DOWNLOAD, "downloads"),
        ):
            match = pattern.search(plain)
            if match:
                yield hygiene(
                    rule, f"{path} {what} while it verifies",
                    evidence=match[0].strip()[:120],
                    use="none: a registry that is slow or away fails right work",
                    fix="put it into the image",
                )  # fmt: skip


def _instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Keyword and rest of each instruction, continued lines joined."""
    joined = re.sub(r"\\\s*\n", " ", re.sub(r"(?m)^\s*#.*\n?", "", dockerfile))
    for line in joined.splitlines():
        keyword, _, rest = line.strip().partition(" ")
        if keyword:
            yield keyword.upper(), rest.strip()
