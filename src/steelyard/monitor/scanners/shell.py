"""Reads a shell command as far as scanners need it: which simple commands it holds.

Nothing is run or expanded. A command that hides behind variables or encodings is not seen; the
scanners over the final files still see what it left behind.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise

_MAX_CHARACTERS = 20_000
_MAX_DEPTH = 3
_HEREDOC = re.compile(
    r"<<-?[ \t]*(['\"]?)(\w{1,64})(?!\w)\1([^\n]*)\n(.*?)(?:\n[ \t]*\2[ \t]*(?=\n|\Z)|\Z)",
    re.DOTALL,
)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SEPARATORS = set(";&|()`\n")
_WRAPPERS = {"sudo", "env", "exec", "command", "time", "nohup", "nice", "stdbuf", "xargs", "then",
             "do", "else", "if", "while", "!", "{"}  # fmt: skip
_SHELLS = {"sh", "bash", "dash", "zsh"}
_PYTHON = re.compile(r"(?:.*/)?python[\d.]*")


def simple_commands(text: str, depth: int = 0) -> Iterator[tuple[str, ...]]:
    """The words of each simple command, redirections among them; `sh -c TEXT` is entered."""
    for words in _split(_HEREDOC.sub(r" \3\n", text[:_MAX_CHARACTERS])):
        command = _unwrapped(words)
        if not command:
            continue
        shell = command[0].rpartition("/")[2] in _SHELLS and depth < _MAX_DEPTH
        scripts = list(_after(command, "-c")) if shell else []
        if not scripts:
            yield command
        for script in scripts:
            yield from simple_commands(script, depth + 1)


def inline_python(text: str) -> Iterator[str]:
    """Programs that a command gives to Python itself: `python -c TEXT`, `python - <<END`."""
    text = text[:_MAX_CHARACTERS]
    for command in simple_commands(text):
        if _PYTHON.fullmatch(command[0]):
            yield from _after(command, "-c")
    for found in _HEREDOC.finditer(text):
        line = text[text.rfind("\n", 0, found.start()) + 1 : found.start()]
        words = line.replace("|", " ").split()
        if any(_PYTHON.fullmatch(word) for word in words):
            yield found.group(4)


def _split(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n`")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        tokens = list(lexer)
    except ValueError:  # an open quote: the words as they stand
        tokens = [word for line in text.split("\n") for word in (*line.split(), "\n")]
    words: list[str] = []
    for token in tokens:
        if token and set(token) <= _SEPARATORS:
            yield words
            words = []
        else:
            words.append(token)
    yield words


def _unwrapped(words: list[str]) -> tuple[str, ...]:
    """Without comment, assignments and words that only run the rest."""
    for i, word in enumerate(words):
        if word.startswith("#"):
            words = words[:i]
            break
    start = 0
    while start < len(words) and (
        words[start] in _WRAPPERS or _ASSIGNMENT.match(words[start]) is not None
    ):
        start += 1
    if words[start : start + 1] == ["timeout"]:
        start += 2
    return tuple(words[start:])


def _after(command: tuple[str, ...], flag: str) -> Iterator[str]:
    for word, following in pairwise(command):
        if word == flag:
            yield following
            return
