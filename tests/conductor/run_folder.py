"""A run that takes seconds: a tiny random model answers prompts, and odd lengths are rewarded."""

from __future__ import annotations

import json
from pathlib import Path

RUN_FILE = """\
[run]
name = "{name}"
directory = "{directory}"
deterministic = true

[model]
path = "{model}"

[tasks]
train = "prompts.jsonl"
dev = "prompts.jsonl"
test = "prompts.jsonl"
reward = "rewards.py:score"

[agent]
max_turn_tokens = 24

[engine]
max_rows = 16
threads = 1

[learner]
threads = 1

[rl]
steps = 4
groups_per_step = 2
episodes_per_group = 4
learning_rate = 1e-2

[evaluation]
every_steps = 2
dev_samples = 1
test_samples = 1
baseline_samples = 1

[checkpoint]
every_steps = 1
"""


class RunFolder:
    """A folder with prompts and a reward function, in which run files are written."""

    def __init__(self, path: Path, model: Path) -> None:
        self.path = path
        self.model = model
        lines = [
            {
                "prompt": f"Say {split} {i}.",
                "name": f"{split}-{i}",
                "split": split,
                "kind": f"k{i % 2}",
            }
            for split in ("train", "dev", "test")
            for i in range(4)
        ]
        (path / "prompts.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
        self.reward("return float(len(answer) % 2)")

    def reward(self, *body: str) -> None:
        lines = ["def score(prompt, answer, **row):", *(f"    {line}" for line in body)]
        (self.path / "rewards.py").write_text("\n".join(lines) + "\n")

    def run_file(self, name: str) -> Path:
        path = self.path / f"{name}.toml"
        path.write_text(RUN_FILE.format(name=name, directory=self.path / "runs", model=self.model))
        return path
