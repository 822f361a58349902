"""Folders of short runs, and a finished one."""

from __future__ import annotations

from pathlib import Path

import pytest
from run_folder import RunFolder


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
