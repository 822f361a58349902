"""A task directory as text, for rules that only read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from steelyard.auditing.findings import Finding, Kind, Strength
from steelyard.tasks.harbor_schema import HarborConfig, parse_config

_MAX_FILE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class TaskFiles:
    """The regular files of a directory by relative path; links are passed over."""

    root: Path
    config: HarborConfig
    files: Mapping[str, bytes]

    def below(self, *folders: str) -> dict[str, str]:
        """The text files of these folders, those of every step included."""
        return {
            path: data.decode("utf-8", "replace")
            for path, data in self.files.items()
            if b"\0" not in data and _without_step(path).startswith(folders)
        }

    def has_binaries(self, *folders: str) -> bool:
        """Whether a folder holds a file that these rules cannot read."""
        return any(
            b"\0" in d for p, d in self.files.items() if _without_step(p).startswith(folders)
        )

    @property
    def scripts(self) -> dict[str, str]:
        """Each `test.sh`."""
        tests = self.below("tests/")
        return {
            path: text for path, text in tests.items() if _without_step(path) == "tests/test.sh"
        }

    @property
    def instruction(self) -> str:
        return "\n".join(self.below("instruction.md").values())


def read_files(directory: Path) -> TaskFiles:
    """Reads a task directory; ValueError with one sentence where it has no valid `task.toml`."""
    config = directory / "task.toml"
    if not config.is_file():
        raise ValueError(f"{directory}: it has no task.toml; name a Harbor task directory")
    text = config.read_bytes().decode("utf-8", "replace")
    return TaskFiles(directory, parse_config(text, str(config)), dict(_walk(directory)))


def _walk(root: Path) -> Iterator[tuple[str, bytes]]:
    for folder, subfolders, names in os.walk(root):
        subfolders[:] = sorted(name for name in subfolders if name not in (".git", "__pycache__"))
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink() and path.stat().st_size <= _MAX_FILE_BYTES:
                yield path.relative_to(root).as_posix(), path.read_bytes()


def _without_step(path: str) -> str:
    """`steps/one/tests/x` as `tests/x`."""
    parts = path.split("/", 2)
    return parts[2] if parts[0] == "steps" and len(parts) == 3 else path


def hygiene(
    probe: str,
    title: str,
    *,
    evidence: str,
    use: str,
    fix: str,
    strength: Strength = Strength.LEAD,
    kind: Kind = Kind.HYGIENE,
) -> Finding:
    """One finding of the lint."""
    return Finding(f"lint/{probe}", kind, strength, title, evidence, use, fix)
