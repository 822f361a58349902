"""Tiny real models on disk, and batches that branch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForCausalLM, LlamaConfig

from steelyard.episodes import Segment, Trajectory
from steelyard.learner.batch import Batch
from steelyard.learner.forward import BinForward
from steelyard.learner.packing import Bin, pack
from steelyard.models.loading import LoadedModel

VOCABULARY = 97


def save_model(directory: Path, config: Any, seed: int = 0) -> LoadedModel:
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.save_pretrained(directory)
    return LoadedModel(directory.name, directory, model.config, None, frozenset({0}))


def llama_config(**changes: Any) -> LlamaConfig:
    fields: dict[str, Any] = {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 2048,
        "initializer_range": 0.2,
        "tie_word_embeddings": True,
        "pad_token_id": None,
    }
    return LlamaConfig(**{**fields, **changes})


def batch_of(sequences: list[tuple[list[int], list[int]]], seed: int = 0) -> Batch:
    """One trajectory per (context, action); all in one group."""
    draw = np.random.default_rng(seed)
    trajectories = []
    for context, action in sequences:
        segment = Segment()
        segment.append_context(context)
        logp = (-draw.random(len(action))).tolist()
        segment.append_action(action, logp, draw.integers(0, 3, len(action)).tolist())
        trajectories.append(Trajectory([segment]))
    return Batch.from_trajectories(trajectories, groups=[0] * len(trajectories))


def branching_batch(
    n: int = 6, prompt: int = 12, action: int = 10, groups: int = 2, seed: int = 0
) -> Batch:
    """Groups with a common system prompt, a prompt each, and actions over a small alphabet."""
    draw = np.random.default_rng(seed)
    system = draw.integers(0, VOCABULARY, 5).tolist()
    sequences = []
    for _ in range(groups):
        own = draw.integers(0, VOCABULARY, prompt).tolist()
        for _ in range(n):
            length = int(draw.integers(1, action + 1))
            sequences.append((system + own, draw.integers(0, 3, length).tolist()))
    return batch_of(sequences, seed)


def bins_of(forward: BinForward, batch: Batch, max_bin_tokens: int) -> list[Bin]:
    """The bins that a learner would run through `forward`."""
    return pack(
        batch,
        max_bin_tokens=max_bin_tokens,
        share_prefixes=forward.share_prefixes,
        longest_shared=forward.longest_shared,
    )
