"""Ragged batches for the tests of the heart, made from nested lists."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import Tensor

from steelyard.objective import Rewards, Tokens

Episode = tuple[int, list[int]]
"""Its group, and the number of action tokens of each of its turns."""

quick = settings(deadline=None, max_examples=30)
brief = settings(deadline=None, max_examples=8)
"""For a test that is repeated over many rules."""

EPISODES = st.lists(
    st.tuples(st.integers(0, 2), st.lists(st.integers(1, 3), min_size=1, max_size=4)),
    min_size=1,
    max_size=6,
)
SEEDS = st.integers(0, 2**31 - 1)


def floats(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def tokens_of(episodes: list[Episode]) -> Tokens:
    """A new segment begins every two turns, so a long episode has several."""
    rows = []
    turn = segment = -1
    for number, (group, turns) in enumerate(episodes):
        for k, length in enumerate(turns):
            turn += 1
            segment += k % 2 == 0
            rows += [(turn, segment, number, group)] * length
    return Tokens(*torch.tensor(rows).T)


def one_episode(length: int) -> Tokens:
    return tokens_of([(0, [length])])


def rewards_of(episodes: list[Episode], reward_K: Tensor) -> Rewards:
    owners = [e for e, (_, turns) in enumerate(episodes) for _ in turns]
    return Rewards(reward_K, torch.tensor(owners), torch.tensor([g for g, _ in episodes]))


def n_turns(episodes: list[Episode]) -> int:
    return sum(len(turns) for _, turns in episodes)


def noise(seed: int, n: int, scale: float = 1.0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return scale * torch.randn(n, generator=generator, dtype=torch.float64)


def close(actual: Any, expected: Any, atol: float = 1e-9) -> None:
    """Equal to `atol`, NaN never."""
    actual, expected = torch.as_tensor(actual).double(), torch.as_tensor(expected).double()
    assert actual.shape == expected.shape
    difference = (actual - expected).abs()
    assert bool((difference <= atol).all()), f"{actual.tolist()} is not {expected.tolist()}"
