"""What a case of the corpus is, and how it is written to disk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent

from .classes import CLASSES, SOUND

Files = Mapping[str, str | bytes]
Change = Mapping[str, str | bytes | None]
"""Files that an agent leaves: laid over its workspace; None deletes."""


@dataclass(frozen=True)
class Case:
    """One verifier with one labelled flaw, or (`flaw` empty) a sound one.

    `cheat` is what an agent would leave to exploit the flaw; where right work is rejected, the
    right work. `pays` is the reward that it gets, `gold_pays` the reward of the reference; None is
    Unscored. `also` names classes that cannot be had apart from `flaw`. `wrong` holds attempts
    that must not reach 1. For answers in text, `row` is the line of examples.jsonl that `cheat`
    answers, in the file answer.txt.
    """

    name: str
    flaw: str
    story: str
    files: Mapping[str, bytes]
    cheat: Change = field(default_factory=dict)
    pays: float | None = 1.0
    gold_pays: float | None = 1.0
    also: tuple[str, ...] = ()
    wrong: tuple[Change, ...] = ()
    row: int = 0

    def __post_init__(self) -> None:
        for flaw in (self.flaw, *self.also):
            assert flaw == SOUND or flaw in CLASSES, f"{self.name}: {flaw}"

    @property
    def is_text(self) -> bool:
        """Whether it is a reward function with examples, rather than a task directory."""
        return "rewards.py" in self.files


def write_case(case: Case, folder: Path) -> Path:
    """Writes a case to `folder/NAME`, a new directory, and returns what `load_tasks` takes."""
    root = folder / case.name
    for path, data in case.files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
        if target.suffix == ".sh":
            target.chmod(0o755)
    return root / "examples.jsonl" if case.is_text else root


def encoded(files: Files, folder: str = "") -> dict[str, bytes]:
    """Files below `folder` as bytes; text is dedented, and starts without the first newline."""
    return {
        f"{folder}{path}": data if isinstance(data, bytes) else text(data).encode()
        for path, data in files.items()
    }


def text(source: str) -> str:
    """An indented literal as the text of a file."""
    return dedent(source).lstrip("\n")


def answer(words: str) -> dict[str, str]:
    """The files that an answer in text leaves."""
    return {"answer.txt": words}


def text_case(
    name: str,
    flaw: str,
    story: str,
    rewards: str,
    rows: list[dict[str, object]],
    **more: object,
) -> Case:
    """A Python reward function `score` in rewards.py, with its examples."""
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    files = encoded({"rewards.py": rewards, "examples.jsonl": lines})
    return Case(name, flaw, story, files, **more)  # type: ignore[arg-type]
