"""Where things lie in a run directory. No other file spells these names."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

_CHECKPOINT = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """`runs/NAME/`: run.toml, run.db, checkpoints/step-000020/, logs/."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.resolve().name

    @property
    def config_file(self) -> Path:
        return self.path / "run.toml"

    @property
    def database(self) -> Path:
        return self.path / "run.db"

    @property
    def lock_file(self) -> Path:
        return self.path / "run.lock"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def reference(self) -> Path:
        """The policy as RL began, where a KL penalty is anchored."""
        return self.path / "reference"

    @property
    def findings(self) -> Path:
        """What scanners found, one JSON object a line: apart from the data."""
        return self.path / "findings.jsonl"

    @property
    def scan_progress(self) -> Path:
        """Up to which episode the scanners have come."""
        return self.path / "findings.progress.json"

    @property
    def experiments(self) -> Path:
        """What `steelyard diagnose` found out about tasks, one JSON object a line."""
        return self.path / "experiments.jsonl"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def report(self) -> Path:
        return self.path / "report.html"

    @property
    def report_markdown(self) -> Path:
        return self.path / "report.md"

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:06d}"

    def checkpoint_steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending. Half-written ones have other names."""
        if not self.checkpoints.is_dir():
            return []
        matches = (_CHECKPOINT.fullmatch(p.name) for p in self.checkpoints.iterdir() if p.is_dir())
        return sorted(int(m.group(1)) for m in matches if m)
