"""A run that takes seconds: a tiny random model answers prompts, and odd lengths are rewarded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

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


@pytest.fixture(scope="session")
def other_model(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of the same family with other weights."""
    import shutil

    import torch
    from transformers import AutoModelForCausalLM

    directory = tmp_path_factory.mktemp("other") / "model"
    shutil.copytree(tiny_model, directory)
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * parameter.std() * torch.randn(parameter.shape, generator=draw)
    model.save_pretrained(directory)
    return directory


@pytest.fixture
def folder(tmp_path: Path, tiny_model: Path) -> RunFolder:
    return RunFolder(tmp_path, tiny_model)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    """The directory of a finished run, for reading only."""
    from steelyard.conductor import read_run_file, train
    from steelyard.conductor.listener import NullListener

    folder = RunFolder(tmp_path_factory.mktemp("finished"), tiny_model)
    settings = read_run_file(folder.run_file("first"))
    train(settings, NullListener())
    return settings.path
