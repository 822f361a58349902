"""Prefix-tree packing: each distinct prefix of a bin goes through the model once.

Segments are sorted, so that neighbours share the longest prefixes, and laid into a tree whose
nodes are numbered in preorder. Node i attends to node j exactly if j is i or an ancestor of i,
which in preorder is j ≤ i < end_j. The loss stays per occurrence: two occurrences of one token may
differ in behaviour log-prob, version and credit, so every action token keeps its own row and is
gathered from its node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steelyard.learner.batch import Batch

Ids = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Bin:
    """One forward pass. N nodes in preorder; P distinct predictions; T' action tokens.

    `token_N` the ids; `depth_N` their positions; `end_N` one past each node's last descendant;
    `is_chain` true if the bin is one plain sequence, which needs no mask. `node_P` predicts
    `target_P`; action token `index_T[k]` of the batch reads prediction `prediction_T[k]`.
    `raw_tokens` counts what the bin's segments would cost one by one.
    """

    token_N: Tensor
    depth_N: Tensor
    end_N: Tensor
    is_chain: bool
    node_P: Tensor
    target_P: Tensor
    index_T: Tensor
    prediction_T: Tensor
    raw_tokens: int

    def __len__(self) -> int:
        return len(self.token_N)


def pack(
    batch: Batch,
    wanted_T: Tensor | None = None,
    *,
    max_bin_tokens: int = 1024,
    share_prefixes: bool = True,
    longest_shared: int | None = None,
) -> list[Bin]:
    """Bins that together hold every wanted action token exactly once.

    Args:
        wanted_T: bool; a segment without a wanted token is left out. None wants all.
        max_bin_tokens: nodes per bin; only a single segment longer than it exceeds it.
        share_prefixes: False gives one plain sequence per segment.
        longest_shared: segments longer than this go alone, as plain sequences, since the model's
            own mask (a sliding window) would cut them where ours does not.
    """
    trees, alone = _Rows.of(batch, wanted_T), []
    if not share_prefixes:
        trees, alone = [], trees
    elif longest_shared is not None:
        alone = [row for row in trees if len(row.ids) > longest_shared]
        trees = [row for row in trees if len(row.ids) <= longest_shared]
    # Big-endian bytes sort as the ids themselves do.
    trees.sort(key=lambda row: row.ids.astype(">i8").tobytes())
    bins = [_bin(rows, shared, batch) for rows, shared in _split(trees, max_bin_tokens)]
    return bins + [_bin([row], [0], batch) for row in alone]


def attention_mask(bin_: Bin, dtype: torch.dtype) -> Tensor:
    """[1, 1, N, N], additive: 0 where a node may look (itself and its ancestors), −inf elsewhere.

    Additive because every attention implementation accepts it; a boolean mask means different
    things to different ones.
    """
    node_N = torch.arange(len(bin_))
    seen_NN = (node_N[None, :] <= node_N[:, None]) & (node_N[:, None] < bin_.end_N[None, :])
    mask_NN = torch.zeros(len(bin_), len(bin_), dtype=dtype).masked_fill_(~seen_NN, -torch.inf)
    return mask_NN[None, None]


@dataclass(frozen=True, slots=True)
class _Rows:
    """A segment up to the last position whose logits are wanted, and its action tokens."""

    ids: Ids
    index: Ids
    """Into the batch's action tokens."""

    @staticmethod
    def of(batch: Batch, wanted_T: Tensor | None) -> list[_Rows]:
        wanted = (
            np.arange(len(batch), dtype=np.int64)
            if wanted_T is None
            else torch.nonzero(wanted_T)[:, 0].numpy()
        )
        segment = batch.segment_T.numpy()[wanted]
        position = batch.position_T.numpy()[wanted]
        cuts = np.flatnonzero(np.diff(segment)) + 1
        return [
            # The last wanted token itself is never an input: nothing after it is predicted.
            _Rows(batch.token_ids[segment[part[0]]][: position[part[-1]]], wanted[part])
            for part in np.split(np.arange(len(wanted)), cuts)
            if part.size
        ]


def _split(rows: list[_Rows], limit: int) -> Iterator[tuple[list[_Rows], list[int]]]:
    """Runs of sorted rows whose tree fits `limit`, each row with its prefix shared with the
    row before it."""
    current: list[_Rows] = []
    shared: list[int] = []
    nodes = 0
    for row in rows:
        common = _common(current[-1].ids, row.ids) if current else 0
        if current and nodes + len(row.ids) - common > limit:
            yield current, shared
            current, shared, nodes, common = [], [], 0, 0
        current.append(row)
        shared.append(common)
        nodes += len(row.ids) - common
    if current:
        yield current, shared


def _common(a: Ids, b: Ids) -> int:
    length = min(len(a), len(b))
    (differs,) = np.nonzero(a[:length] != b[:length])
    return int(differs[0]) if differs.size else length


def _bin(rows: list[_Rows], shared: list[int], batch: Batch) -> Bin:
    n_nodes = sum(len(row.ids) - common for row, common in zip(rows, shared, strict=True))
    token, depth, end = (np.empty(n_nodes, np.int64) for _ in range(3))
    position_T = batch.position_T.numpy()
    path = np.zeros(0, np.int64)
    predicting: list[Ids] = []
    n = 0
    for row, common in zip(rows, shared, strict=True):
        new = np.arange(n, n + len(row.ids) - common)
        token[new] = row.ids[common:]
        depth[new] = np.arange(common, len(row.ids))
        n += len(new)
        path = np.concatenate([path[:common], new])
        end[path] = n
        predicting.append(path[position_T[row.index] - 1])
    index = np.concatenate([row.index for row in rows])
    pairs = np.stack([np.concatenate(predicting), batch.target_T.numpy()[index]])
    distinct, inverse = np.unique(pairs, axis=1, return_inverse=True)
    return Bin(
        token_N=torch.from_numpy(token),
        depth_N=torch.from_numpy(depth),
        end_N=torch.from_numpy(end),
        is_chain=bool(np.all(end == n)) if n else True,
        node_P=torch.from_numpy(distinct[0].copy()),
        target_P=torch.from_numpy(distinct[1].copy()),
        index_T=torch.from_numpy(index),
        prediction_T=torch.from_numpy(inverse.reshape(-1).astype(np.int64)),
        raw_tokens=sum(len(row.ids) for row in rows),
    )
