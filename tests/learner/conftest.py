from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tiny_models import llama_config, save_model

from steelyard.models.loading import LoadedModel


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Tiny matmuls run slower on many threads, and tests run beside each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny_llama(tmp_path_factory: pytest.TempPathFactory) -> LoadedModel:
    return save_model(tmp_path_factory.mktemp("models") / "tiny-llama", llama_config())
