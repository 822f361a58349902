"""The workspace that a task's `environment/` describes, by a subset of Dockerfile.

FROM, WORKDIR, COPY, ADD of local files, ENV and some of RUN are understood; what only describes
an image (LABEL, EXPOSE ...) is passed over; every other instruction is refused with a sentence,
because leaving it out would change the task without a word.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from posixpath import normpath

from steelyard.tasks.run_instruction import run_effect
from steelyard.tasks.task import WORKING_DIRECTORY

_CONTROL_FILES = frozenset({"Dockerfile", ".dockerignore"})
_COMPOSE_FILES = frozenset(
    {"docker-compose.yaml", "docker-compose.yml", "compose.yaml", "compose.yml"}
)
_DESCRIPTIVE = frozenset({"LABEL", "EXPOSE", "MAINTAINER", "ARG", "SHELL", "STOPSIGNAL"})
"""Instructions that change nothing in which a command of a task runs."""
_IDLE = {
    "CMD": "it is kept, but a sandbox starts no program of its own",
    "ENTRYPOINT": "it is kept, but a sandbox starts no program of its own",
    "USER": "it is kept, but a sandbox has one user, without privileges",
}
_RESERVED = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/proc", "/run"),
    *("/sbin", "/sys", "/usr", "/tmp", "/tests", "/solution", "/logs", "/home/verifier"),
)
"""What a sandbox has of its own: a workspace cannot lie there, nor above."""
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


@dataclass(frozen=True, slots=True)
class Workspace:
    """The files that an agent finds, where they lie, its variables and its Python packages."""

    files: Mapping[str, bytes]
    working_directory: str
    variables: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


@dataclass(slots=True)
class _Image:
    working_directory: str = ""
    files: dict[str, bytes] = field(default_factory=dict)  # by absolute path
    copied: set[str] = field(default_factory=set)  # sources, relative to the folder
    variables: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)
    folders: dict[str, str] = field(default_factory=dict)  # made by RUN mkdir, and its place


def workspace_of(
    environment: Mapping[str, bytes], file: str, working_directory: str | None = None
) -> Workspace:
    """The workspace of an `environment/` folder, whose files are keyed by relative path.

    Without a Dockerfile, the workspace is every file of the folder. `working_directory` overrides
    WORKDIR. `file` names the folder in error messages; ValueError names the line.
    """
    for name in sorted(_COMPOSE_FILES & environment.keys()):
        raise ValueError(
            f"{file}/{name}: compose environments are not supported; describe one container by "
            "a Dockerfile with FROM, WORKDIR, COPY and ENV"
        )
    if _lines(environment.get(".dockerignore", b"")):
        raise ValueError(
            f"{file}/.dockerignore: its patterns are not supported; remove the file and name "
            "what belongs into the workspace in COPY"
        )
    content = {path: data for path, data in environment.items() if path not in _CONTROL_FILES}
    if "Dockerfile" not in environment:
        root = _place(working_directory or WORKING_DIRECTORY, file)
        return Workspace(content, root, {})

    image = _Image()
    for number, keyword, rest in _instructions(environment["Dockerfile"]):
        _apply(image, keyword, rest, content, f"{file}/Dockerfile line {number}")
    root = working_directory or image.working_directory
    if not root:
        raise ValueError(f"{file}/Dockerfile: it has no WORKDIR; add WORKDIR {WORKING_DIRECTORY}")
    root = _place(root, f"{file}/Dockerfile")
    return Workspace(
        _relative_to(image.files, root, f"{file}/Dockerfile"),
        root,
        image.variables,
        (*image.warnings, *_empty_folders(image, root), *_left_out(image, content, file)),
        tuple(dict.fromkeys(image.packages)),
    )


def _place(directory: str, file: str) -> str:
    """Where the workspace shall lie, as a clean path. ValueError where a sandbox cannot lay it."""
    root = _absolute(directory)
    place = PurePosixPath(root)
    taken = any(
        place.is_relative_to(path) or PurePosixPath(path).is_relative_to(root) for path in _RESERVED
    )
    if taken or set(root) & set("$:,") or not root.isprintable():
        why = "a sandbox has its own files there" if taken else "its path is no plain one"
        raise ValueError(
            f"{file}: WORKDIR {directory} cannot be the workspace, since {why}; write WORKDIR "
            f"{WORKING_DIRECTORY}"
        )
    return root


def _absolute(path: str, folder: str = "") -> str:
    """The clean path from the root. POSIX lets two leading slashes stand; Linux knows one root."""
    whole = path if path.startswith("/") else f"{folder}/{path}"
    return "/" + normpath(f"/{whole}").lstrip("/")


def write_dockerfile(
    folder: str | None,
    variables: Mapping[str, str],
    packages: Sequence[str] = (),
    directory: str = WORKING_DIRECTORY,
) -> str:
    """A Dockerfile whose workspace is the content of `folder`, or empty."""
    lines = ["FROM python:3.12-slim", f"WORKDIR {directory}"]
    if packages:
        lines.append(f"RUN pip install --no-cache-dir {shlex.join(packages)}")
    lines += [f"ENV {name}={json.dumps(value)}" for name, value in variables.items()]
    if folder is not None:
        lines.append(f"COPY {json.dumps([f'{folder}/', f'{directory}/'])}" if " " in directory else
                     f"COPY {folder}/ {directory}/")  # fmt: skip
    return "\n".join(lines) + "\n"


def _instructions(dockerfile: bytes) -> Iterator[tuple[int, str, str]]:
    """Line number, keyword and rest of each instruction; continued lines are joined."""
    pending, started = "", 0
    for number, line in enumerate(dockerfile.decode("utf-8", "replace").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        started = started or number
        if line.rstrip().endswith("\\"):
            pending += line.rstrip()[:-1] + " "
            continue
        keyword, _, rest = (pending + line).strip().partition(" ")
        yield started, keyword.upper(), rest.strip()
        pending, started = "", 0
    if pending:
        keyword, _, rest = pending.strip().partition(" ")
        yield started, keyword.upper(), rest.strip()


def _apply(
    image: _Image, keyword: str, rest: str, content: Mapping[str, bytes], place: str
) -> None:
    if keyword == "FROM":
        _from(image, rest, place)
    elif keyword == "WORKDIR":
        image.working_directory = _absolute(rest, image.working_directory)
    elif keyword == "COPY" or (keyword == "ADD" and not _fetches(rest)):
        _copy(image, rest, content, place)
    elif keyword == "ENV":
        image.variables.update(_variables(rest, place))
    elif keyword == "RUN":
        _run(image, rest, place)
    elif keyword in _IDLE:
        image.warnings.append(f"{place}: {keyword} does nothing here: {_IDLE[keyword]}")
    elif keyword not in _DESCRIPTIVE:
        raise ValueError(
            f"{place}: {keyword} {rest!r} is not supported; this sandbox understands FROM, "
            "WORKDIR, COPY, ADD of local files, ENV and RUN pip install, and offers this machine's "
            "Python"
        )


def _from(image: _Image, rest: str, place: str) -> None:
    words = rest.split()
    if len(words) != 1:
        raise ValueError(f"{place}: FROM {rest!r} is not supported; write FROM and one image")
    name = words[0].rpartition("/")[2].partition(":")[0].partition("@")[0]
    if name != "python":
        image.warnings.append(
            f"{place}: the sandbox offers this machine's system tools, not the image {words[0]!r}"
        )


def _fetches(rest: str) -> bool:
    """Whether an ADD downloads or unpacks."""
    return "://" in rest or any(word.strip('[]",').endswith(_ARCHIVES) for word in rest.split())


def _run(image: _Image, rest: str, place: str) -> None:
    def place_of(path: str) -> str:
        return _absolute(path, image.working_directory)

    effect = run_effect(rest, place, lambda path: image.files.get(place_of(path)))
    image.packages += effect.packages
    image.warnings += effect.warnings
    image.folders |= {place_of(folder): place for folder in effect.folders}


def _empty_folders(image: _Image, root: str) -> list[str]:
    """One sentence for each made folder below the workspace that holds no file."""
    full = {str(parent) for path in image.files for parent in PurePosixPath(path).parents}
    return [
        f"{place}: the workspace holds files only, so the empty folder {folder} is not in it"
        for folder, place in image.folders.items()
        if folder not in full | {root} and PurePosixPath(folder).is_relative_to(root)
    ]


def _copy(image: _Image, rest: str, content: Mapping[str, bytes], place: str) -> None:
    words = json.loads(rest) if rest.startswith("[") else _words(rest, place)
    if len(words) < 2 or any(word.startswith("--") or set(word) & set("*?[") for word in words):
        raise ValueError(
            f"{place}: COPY {rest!r} is not supported; write COPY, plain source paths and a "
            "destination, without options or patterns"
        )
    *sources, destination = words
    target = _absolute(destination, image.working_directory)
    into_folder = len(sources) > 1 or destination.endswith("/") or target in _folders(image)
    for source in sources:
        found = dict(_find(source, content))
        if not found:
            raise ValueError(f"{place}: COPY {source!r} finds no such file beside the Dockerfile")
        for path, inside in found.items():
            name = inside or (PurePosixPath(path).name if into_folder else "")
            image.files[_absolute(name, target)] = content[path]
        image.copied |= found.keys()


def _find(source: str, content: Mapping[str, bytes]) -> Iterator[tuple[str, str]]:
    """The files that a COPY source names, and their places inside it ("" for a file itself)."""
    clean = normpath(source).lstrip("/")
    if clean in content:
        yield clean, ""
    prefix = "" if clean in (".", "") else f"{clean}/"
    for path in content:
        if path.startswith(prefix):
            yield path, path[len(prefix) :]


def _folders(image: _Image) -> set[str]:
    """Folders of the image that are known to exist."""
    known = {str(parent) for path in image.files for parent in PurePosixPath(path).parents}
    return (
        known
        | set(image.folders)
        | {"/", image.working_directory, normpath(f"{image.working_directory}/.")}
    )


def _variables(rest: str, place: str) -> dict[str, str]:
    words = _words(rest, place)
    if words and "=" not in words[0]:  # the old form: ENV NAME the value
        words = [f"{words[0]}={' '.join(words[1:])}"]
    if not words or "$" in rest or not all("=" in word for word in words):
        raise ValueError(f"{place}: ENV {rest!r} is not supported; write NAME=value, without $")
    return dict(word.split("=", 1) for word in words)


def _words(rest: str, place: str) -> list[str]:
    try:
        return shlex.split(rest)
    except ValueError as error:
        raise ValueError(f"{place}: {rest!r} cannot be read ({error}); close the quotes") from None


def _relative_to(files: Mapping[str, bytes], root: str, file: str) -> dict[str, bytes]:
    relative = {}
    for path, data in files.items():
        if not PurePosixPath(path).is_relative_to(root):
            raise ValueError(
                f"{file}: COPY puts {path} outside WORKDIR {root}; copy to a path below it"
            )
        relative[str(PurePosixPath(path).relative_to(root))] = data
    return relative


def _left_out(image: _Image, content: Mapping[str, bytes], file: str) -> list[str]:
    return [
        f"{file}/{path}: no COPY names this file, so it is not in the workspace"
        for path in content
        if path not in image.copied
    ]


def _lines(text: bytes) -> list[bytes]:
    return [line for line in text.splitlines() if line.strip() and not line.startswith(b"#")]
