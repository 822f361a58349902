"""Models that several rooms test with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# As the command does: tests may run side by side.
os.environ.setdefault("GOMP_SPINCOUNT", "10000")


@pytest.fixture(scope="session")
def smollm2():
    """The embedded default, found (and on first use converted), without its weights."""
    from steelyard.models import EMBEDDED, resolve

    return resolve(EMBEDDED)


@pytest.fixture(scope="session")
def tiny_model(smollm2, tmp_path_factory) -> Path:
    """A Hugging Face directory: a random Llama of two narrow layers with SmolLM2's tokenizer.

    One token in eight ends its turn, so that random answers are short and of many lengths.
    """
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=len(smollm2.tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        bos_token_id=1,
        eos_token_id=2,
        tie_word_embeddings=True,
    )
    torch.manual_seed(0)
    directory = tmp_path_factory.mktemp("tiny-llama")
    LlamaForCausalLM(config).save_pretrained(directory)
    stops = list(range(2, config.vocab_size, 8))
    GenerationConfig(eos_token_id=stops).save_pretrained(directory)
    smollm2.tokenizer.save_pretrained(directory)
    return directory
