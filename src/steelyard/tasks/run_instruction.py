"""What a Dockerfile's RUN does, as far as a sandbox without an image can have it.

Installing Python packages that the running environment has, programs that this machine has, and
making folders. Everything else is refused with a sentence.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

_PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs of a sandbox are, which has the machine's /usr."""
_INSTALL = (
    ("pip", "install"),
    ("pip3", "install"),
    ("python", "-m", "pip", "install"),
    ("python3", "-m", "pip", "install"),
    ("uv", "pip", "install"),
)
_PIP_FLAGS = frozenset(
    ("--no-cache-dir", "--quiet", "-q", "-qq", "--upgrade", "-U", "--system", "--no-cache", "-y",
     "--break-system-packages", "--root-user-action=ignore", "--disable-pip-version-check",
     "--prefer-binary", "--no-input")
)  # fmt: skip
_APT_FLAGS = frozenset(
    ("-y", "-q", "-qq", "-yq", "-yqq", "-qy", "-qqy", "--yes", "--no-install-recommends",
     "--assume-yes", "--quiet", "--fix-missing")
)  # fmt: skip
_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)(?:\[[A-Za-z0-9,._ -]*\])?"
    r"\s*(?P<specifier>(?:[<>=!~]=?|===)[^;]*)?"
)
_SUPPORTED = (
    "this sandbox understands pip install, mkdir -p, and apt-get install of programs that this "
    "machine has"
)


@dataclass(frozen=True, slots=True)
class RunEffect:
    """`packages` are requirements as written, `folders` those to make, as written."""

    packages: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def run_effect(rest: str, place: str, read: Callable[[str], bytes | None]) -> RunEffect:
    """The effect of `RUN rest`; `read` gives the content of a file of the image, or None.

    Raises ValueError, which begins with `place`, for a command that is not understood, a package
    that the running environment lacks, or a program that this machine lacks.
    """
    packages: list[str] = []
    folders: list[str] = []
    warnings: list[str] = []
    for command in _commands(rest, place):
        words = tuple(word for word in command if word != "sudo")
        installing = next((p for p in _INSTALL if words[: len(p)] == p), None)
        if installing is not None:
            wanted = list(_requirements(words[len(installing) :], place, read))
            warnings += [w for r in wanted if (w := _missing_or_other(r, place))]
            packages += wanted
        elif words[:2] == ("mkdir", "-p") and not any(w.startswith("-") for w in words[2:]):
            folders += words[2:]
        elif words[:1] in (("apt-get",), ("apt",)) and len(words) > 1:
            warnings += _apt(words[1], words[2:], place)
        elif words[:1] != ("rm",) or not all(_is_apt_cache(w) for w in words[1:]):
            raise ValueError(f"{place}: RUN {shlex.join(command)!r} is not supported; {_SUPPORTED}")
    return RunEffect(tuple(packages), tuple(folders), tuple(warnings))


def _commands(rest: str, place: str) -> Iterator[list[str]]:
    """The commands that && joins; the shell's other operators and variables are refused."""
    if rest.startswith("["):
        try:
            words = json.loads(rest)
        except ValueError:
            words = None
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError(f"{place}: RUN {rest!r} cannot be read; write a JSON list of strings")
        yield words
        return
    lexer = shlex.shlex(rest, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = list(lexer)
    except ValueError as error:
        raise ValueError(
            f"{place}: RUN {rest!r} cannot be read ({error}); close the quotes"
        ) from None
    words = _with_specifiers(words, rest)
    command: list[str] = []
    for word in [*words, "&&"]:
        if word == "&&":
            if command:
                yield command
            command = []
        elif set(word) <= set("();<>|&") or "$" in word or "`" in word:
            raise ValueError(f"{place}: RUN {rest!r} is not supported; {_SUPPORTED}")
        else:
            command.append(word)


def _with_specifiers(words: list[str], rest: str) -> list[str]:
    """Undoes the lexer's splitting of a quoted-free text that has no shell operator but &&."""
    if not set(rest) & set("();<>|"):
        return words
    try:
        plain = shlex.split(rest)
    except ValueError:
        return words
    # In quotes, < and > belong to a version ("numpy<3"); bare, they redirect.
    bare = re.sub(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"", "", rest)
    return words if set(bare) & set("();<>|") else plain


def _requirements(
    words: Sequence[str], place: str, read: Callable[[str], bytes | None]
) -> Iterator[str]:
    rest = iter(words)
    for word in rest:
        if word in _PIP_FLAGS:
            continue
        if word in ("-r", "--requirement"):
            name = next(rest, "")
            content = read(name)
            if content is None:
                raise ValueError(f"{place}: no COPY before this line lays {name!r}; copy it first")
            for line in content.decode("utf-8", "replace").splitlines():
                if wanted := line.partition("#")[0].strip():
                    yield _requirement(wanted, place)
            continue
        if word != "pip":  # upgrading pip itself changes nothing for the task
            yield _requirement(word, place)


def _requirement(text: str, place: str) -> str:
    if not _REQUIREMENT.fullmatch(text):
        raise ValueError(
            f"{place}: pip's {text!r} is not supported; name packages, with version limits at most"
        )
    return text


def _missing_or_other(requirement: str, place: str) -> str:
    """A warning where the running environment has another version than the one asked for."""
    match = _REQUIREMENT.fullmatch(requirement)
    assert match is not None
    name, wanted = match["name"], (match["specifier"] or "").strip()
    try:
        have = version(name)
    except PackageNotFoundError:
        raise ValueError(
            f"{place}: the task needs the package {name}, which this Python environment lacks; "
            f"install it beside steelyard (pip install {shlex.quote(requirement)})"
        ) from None
    exact = wanted.removeprefix("==").strip() if wanted.startswith("==") else have
    if "*" in exact or exact == have:
        return ""
    return f"{place}: the task asks for {requirement}, but runs with the {have} that is installed"


def _apt(action: str, words: Sequence[str], place: str) -> Iterator[str]:
    if action in _APT_FLAGS and words:
        action, words = words[0], words[1:]
    if action in ("update", "clean", "autoremove"):
        return
    names = [word for word in words if word not in _APT_FLAGS]
    if action != "install" or any(name.startswith("-") for name in names):
        raise ValueError(f"{place}: RUN apt-get {action} is not supported; {_SUPPORTED}")
    for name in names:
        program = name.partition("=")[0]
        if shutil.which(program, path=_PROGRAM_PATH) is None:
            raise ValueError(
                f"{place}: the task needs the system package {name}, but this machine has no "
                f"program {program} in {_PROGRAM_PATH}; install it there, or remove the line"
            )
        yield f"{place}: nothing is installed; the task runs with this machine's {program}"


def _is_apt_cache(word: str) -> bool:
    return word in ("-rf", "-fr", "-r", "-f") or word.startswith(
        ("/var/lib/apt/lists", "/var/cache/apt", "/root/.cache")
    )
