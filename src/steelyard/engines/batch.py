"""What one forward pass computes: tokens, where they go, and what they may look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steelyard.engines.arena import Arena


@dataclass(eq=False, slots=True)
class Prefix:
    """Tokens whose keys and values several sequences share. `places` counts those that do."""

    token_ids: tuple[int, ...]
    slot: int = -1
    length: int = 0
    places: int = 0
    last_used: int = 0


@dataclass(eq=False, slots=True)
class Place:
    """One sequence in memory: `shared` tokens of `prefix`, then `length` tokens in its own slot.

    The last `guesses` of its tokens are guessed.
    """

    token_ids: list[int]
    prefix: Prefix | None
    shared: int
    slot: int = -1
    length: int = 0
    last_used: int = 0
    guesses: int = 0

    @property
    def pending(self) -> int:
        """Tokens that the model has not seen yet."""
        return len(self.token_ids) - self.shared - self.length


@dataclass(frozen=True, slots=True)
class SharedKeys:
    """How the queries of a chunk meet the shared keys.

    With `regroup` = (there, back), queries are rearranged so that all those of a prefix stand
    together ([prefixes · width]; holes repeat query 0), and the answers are taken back. With
    `slots`, each row has its own copy of its prefix. `absent` is −∞ where a token has no shared
    keys, else 0; None where all have some.
    """

    slots: Tensor | None
    prefixes: int
    tokens: int
    mask: Tensor | None
    regroup: tuple[Tensor, Tensor] | None
    absent: Tensor | None


@dataclass(frozen=True, slots=True)
class Chunk:
    """`rows` neighbouring slots with `width` new tokens each; tokens [start, stop) of the pass."""

    first_slot: int
    rows: int
    width: int
    start: int
    stop: int
    keys: int
    mask: Tensor | None
    shared: SharedKeys | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One forward pass over [tokens]: ids, positions, and where each goes in the memory.

    `write` holds, for each token and each of its 2·kv_heads vectors, (slot · 2·kv_heads + head) ·
    (tokens of a slot) + place in it; `last` marks each row's last new token, and the one before
    each guess.
    """

    token_ids: Tensor
    positions: Tensor
    write: Tensor
    last: Tensor
    chunks: tuple[Chunk, ...]


def build(
    own: Arena[Place],
    takes: Sequence[tuple[int, Sequence[int]]],
    heads_per_kv_head: int,
) -> Batch:
    """A pass over runs of neighbouring slots.

    Args:
        takes: (first slot, how many of its pending tokens each place of the run computes).
    """
    device = own.kv.device
    reach = [
        own.tenants[first + i].length + max(counts)
        for first, counts in takes
        for i in range(len(counts))
    ]
    own.reserve(len(own.tenants), max(reach))
    heads = np.arange(own.kv.shape[2])
    ids: list[NDArray[np.int64]] = []
    positions: list[NDArray[np.int64]] = []
    writes: list[NDArray[np.int64]] = []
    lasts: list[NDArray[np.int64]] = []
    chunks: list[Chunk] = []
    start = 0
    for first, counts in takes:
        places = own.tenants[first : first + len(counts)]
        width = max(counts)
        steps = np.arange(width)
        lengths = np.array([p.length for p in places])
        shared = np.array([p.shared for p in places])
        block = np.zeros((len(places), width), dtype=np.int64)
        for i, (place, count) in enumerate(zip(places, counts, strict=True)):
            seen = place.shared + place.length
            block[i, :count] = place.token_ids[seen : seen + count]
        slots = first + np.arange(len(places))
        ids.append(block.ravel())
        positions.append(((shared + lengths)[:, None] + steps).ravel())
        lane = (slots[:, None] * len(heads) + heads)[:, None, :] * own.tokens
        writes.append((lane + (lengths[:, None] + steps)[:, :, None]).ravel())
        for i, (place, count) in enumerate(zip(places, counts, strict=True)):
            end = start + i * width + count
            lasts.append(np.arange(end - 1 - min(place.guesses, count - 1), end))
        stop = start + block.size
        chunks.append(
            Chunk(
                first_slot=first,
                rows=len(places),
                width=width,
                start=start,
                stop=stop,
                keys=int(lengths.max()) + width,
                mask=_own_mask(lengths, width, heads_per_kv_head, device),
                shared=_shared_keys(places, width, device),
            )
        )
        start = stop
    return Batch(
        token_ids=_tensor(np.concatenate(ids), device),
        positions=_tensor(np.concatenate(positions), device),
        write=_tensor(np.concatenate(writes), device),
        last=_tensor(np.concatenate(lasts), device),
        chunks=tuple(chunks),
    )


def _own_mask(
    lengths: NDArray[np.int64], width: int, heads: int, device: torch.device
) -> Tensor | None:
    """Token t of a row with n earlier ones sees its keys 0 … n + t.

    [rows, 1, heads · width, keys], or [rows, 1, 1, keys] if the width is 1.
    """
    keys = int(lengths.max()) + width
    if width == 1 and int(lengths.min()) + 1 == keys:
        return None
    limit = lengths[:, None] + np.arange(width)
    mask = _mask(np.arange(keys) <= limit[:, :, None], device)
    return mask if width == 1 else mask.repeat(1, 1, heads, 1)


def _shared_keys(places: Sequence[Place], width: int, device: torch.device) -> SharedKeys | None:
    visible = np.array([p.shared for p in places])
    if not visible.any():
        return None
    owner = np.array([p.prefix.slot if p.prefix is not None else 0 for p in places])
    absent = None
    if not visible.all():
        gap = np.where(visible == 0, -np.inf, 0.0).astype(np.float32).repeat(width)
        absent = _tensor(gap, device).unsqueeze(-1)
    whole = all(p.prefix is None or p.shared == p.prefix.length for p in places)
    # Rows that check guesses ask few questions each, like rows that decode: copying a prefix for
    # each of them would cost more than the questions.
    if not whole or (width > 1 and not any(p.guesses for p in places)):
        return SharedKeys(
            slots=_tensor(owner, device),
            prefixes=len(places),
            tokens=int(visible.max()),
            mask=_length_mask(visible, device),
            regroup=None,
            absent=absent,
        )
    owner, visible = owner.repeat(width), visible.repeat(width)
    count = int(owner.max()) + 1
    lengths = np.zeros(count, dtype=np.int64)
    np.maximum.at(lengths, owner, visible)
    order = np.argsort(owner, kind="stable")
    group_sizes = np.bincount(owner, minlength=count)
    rank = np.arange(len(owner)) - (np.cumsum(group_sizes) - group_sizes)[owner[order]]
    cell = owner[order] * int(group_sizes.max()) + rank
    gather = np.zeros(count * int(group_sizes.max()), dtype=np.int64)
    gather[cell] = order
    restore = np.empty(len(owner), dtype=np.int64)
    restore[order] = cell
    return SharedKeys(
        slots=None,
        prefixes=count,
        tokens=int(lengths.max()),
        mask=_length_mask(lengths, device),
        regroup=(_tensor(gather, device), _tensor(restore, device)),
        absent=absent,
    )


def _length_mask(lengths: NDArray[np.int64], device: torch.device) -> Tensor | None:
    """[n, 1, 1, keys]. An empty prefix shows its first (zero) key; `absent` then outweighs it."""
    if int(lengths.min()) == int(lengths.max()):
        return None
    keys = np.arange(int(lengths.max()))
    return _mask((keys < np.maximum(lengths, 1)[:, None])[:, None, :], device)


def _mask(allowed: NDArray[np.bool_], device: torch.device) -> Tensor:
    """Additive float32 mask [n, 1, queries, keys] from a boolean [n, queries, keys]."""
    return _tensor(np.where(allowed, np.float32(0), np.float32(-np.inf)), device).unsqueeze(1)


def _tensor(array: NDArray[np.generic], device: torch.device) -> Tensor:
    return torch.from_numpy(array).to(device)
