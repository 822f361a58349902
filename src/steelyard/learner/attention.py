"""Attention over a prefix tree, tile by tile.

A dense mask makes every node pay for every other. Here the nodes of a bin are cut into tiles of
query rows, and each tile attends only to the columns that at least one of its rows may see: its
own path and the shared prefixes, not its siblings and not the other trees of the bin. On the CPU
the backward pass is written out in matmuls, since torch's own is several times slower than they
are at these sizes.

The Llama path of this package calls it directly. To other models it is offered through
transformers' attention registry; a model whose code does not go through that registry never meets
it and gets the dense mask.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from steelyard.learner.packing import Bin, attention_mask
from steelyard.models.precision import products_of

NAME = "steelyard_tree"
_TILE_ROWS = 128
_COLUMNS_STEP = 16
"""Columns are padded to a multiple of this, which the CPU's matrix unit multiplies faster."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The query rows of some neighbouring nodes, and what they may see."""

    start: int
    stop: int
    columns: Tensor
    """The node numbers that the rows start..stop may see, between them; padded with zeros."""
    mask: Tensor
    """[rows, columns], additive, in the model's dtype; −inf where padded."""
    wide_mask: Tensor
    """The same in float32: adding across dtypes is slow."""


def tiles_of(bin_: Bin, dtype: torch.dtype, device: torch.device) -> tuple[Tile, ...]:
    """The tiles that cover `bin_`, masks in `dtype`; a plain sequence has them too."""
    tiles = []
    node_N = torch.arange(len(bin_))
    for start in range(0, len(bin_), _TILE_ROWS):
        row_R = node_N[start : start + _TILE_ROWS, None]
        seen_RN = (node_N <= row_R) & (row_R < bin_.end_N)
        columns = torch.nonzero(seen_RN.any(0))[:, 0]
        mask = torch.zeros(len(row_R), len(columns)).masked_fill_(~seen_RN[:, columns], -torch.inf)
        missing = -len(columns) % _COLUMNS_STEP
        columns = functional.pad(columns, (0, missing))
        mask = functional.pad(mask, (0, missing), value=-torch.inf)
        stop = start + len(row_R)
        tiles.append(Tile(start, stop, columns.to(device), mask.to(device, dtype), mask.to(device)))
    return tuple(tiles)


class TreeMask(Tensor):
    """The dense additive mask of a bin, which also carries its tiles.

    Anything a model computes from it is a plain tensor without tiles, so a model that alters its
    mask falls back to dense attention with what it made.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    tiles: tuple[Tile, ...]

    @staticmethod
    def of(bin_: Bin, dtype: torch.dtype, device: torch.device) -> TreeMask:
        tree = attention_mask(bin_, dtype).to(device).as_subclass(TreeMask)
        tree.tiles = tiles_of(bin_, dtype, device)
        return tree


def use_tree_attention(model: Any) -> None:
    """Routes `model`'s attention through this module, where it uses torch's attention now."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    if model.config._attn_implementation != "sdpa" or not model._can_set_attn_implementation():
        return
    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    model.set_attn_implementation(NAME)


def _attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' attention signature: [1, heads, N, head dim] in, [1, N, heads, dim] out."""
    plain = kwargs.get("position_bias") is None and key.shape[-1] == value.shape[-1]
    if not isinstance(attention_mask, TreeMask) or not plain:
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        if isinstance(attention_mask, TreeMask):
            attention_mask = attention_mask.as_subclass(Tensor)
        output: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **kwargs
        )
        return output
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if query.device.type == "cpu":
        out: Tensor = _TreeAttention.apply(  # type: ignore[no-untyped-call]
            query[0], key[0], value[0], attention_mask.tiles, scale
        )
    else:
        out = _on_device(query[0], key[0], value[0], attention_mask.tiles, scale)
    return out.transpose(0, 1)[None], None


def _on_device(
    query_HND: Tensor, key_KND: Tensor, value_KND: Tensor, tiles: tuple[Tile, ...], scale: float
) -> Tensor:
    per_key = len(query_HND) // len(key_KND)
    parts = []
    for tile in tiles:
        key, value = (
            x.index_select(1, tile.columns).repeat_interleave(per_key, 0)
            for x in (key_KND, value_KND)
        )
        parts.append(
            functional.scaled_dot_product_attention(
                query_HND[None, :, tile.start : tile.stop],
                key[None],
                value[None],
                attn_mask=tile.mask,
                scale=scale,
            )[0]
        )
    return torch.cat(parts, 1)


class _TreeAttention(torch.autograd.Function):
    """The two functions below as one differentiable operation."""

    @staticmethod
    def forward(
        ctx: Any,
        query_HND: Tensor,
        key_KND: Tensor,
        value_KND: Tensor,
        tiles: tuple[Tile, ...],
        scale: float,
    ) -> Tensor:
        out_HND = tree_attention(query_HND, key_KND, value_KND, tiles, scale)
        ctx.save_for_backward(query_HND, key_KND, value_KND, out_HND)
        ctx.tiles, ctx.scale = tiles, scale
        return out_HND

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        query, key, value, out = ctx.saved_tensors
        gradients = tree_attention_backward(
            grad_outputs[0], query, key, value, out, ctx.tiles, ctx.scale
        )
        return (*(g.to(query.dtype) for g in gradients), None, None)


def tree_attention(
    query_HND: Tensor, key_KND: Tensor, value_KND: Tensor, tiles: tuple[Tile, ...], scale: float
) -> Tensor:
    """O = softmax(scale · Q Kᵀ + mask) V, with H query heads sharing K key heads.

    Returns:
        O [H, N, D], which lies in memory as [N, H, D].
    """
    heads, nodes, width = query_HND.shape
    split = (len(key_KND), heads // len(key_KND))
    out_NHD = query_HND.new_empty(nodes, heads, width)
    for tile in tiles:
        rows = slice(tile.start, tile.stop)
        # Every key head is a batch entry of its own, seen by its query heads without a copy.
        key, value = (
            x.index_select(1, tile.columns)[:, None].expand(-1, split[1], -1, -1)
            for x in (key_KND, value_KND)
        )
        out = functional.scaled_dot_product_attention(
            query_HND[:, rows].view(*split, -1, width), key, value, attn_mask=tile.mask, scale=scale
        )
        out_NHD[rows].view(-1, *split, width).copy_(out.permute(2, 0, 1, 3))
    return out_NHD.transpose(0, 1)


def tree_attention_backward(
    grad_HND: Tensor,
    query_HND: Tensor,
    key_KND: Tensor,
    value_KND: Tensor,
    out_HND: Tensor,
    tiles: tuple[Tile, ...],
    scale: float,
    workspace: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """dS = P ∘ (dO Vᵀ − rowsum(dO ∘ O)); dQ = scale · dS K, dK = scale · dSᵀ Q, dV = Pᵀ dO.

    P = softmax(scale · Q Kᵀ + mask) is computed again. Returns dQ, dK, dV in float32. `workspace`
    comes from `scores_workspace`, and may serve any number of calls with these tiles.
    """
    heads, nodes, width = query_HND.shape
    keys = len(key_KND)
    split = (keys, heads // keys)
    key, value = key_KND.float(), value_KND.float()
    grad_query = torch.empty(*split, nodes, width)
    grad_key, grad_value = torch.zeros(key.shape), torch.zeros(value.shape)
    if workspace is None:
        workspace = scores_workspace(heads, tiles)
    with products_of(query_HND.dtype):
        for tile in tiles:
            rows = slice(tile.start, tile.stop)
            n, columns = tile.mask.shape
            # The query heads that share a key head become rows of one matmul.
            q, do, o = (
                x[:, rows].float().reshape(keys, -1, width) for x in (query_HND, grad_HND, out_HND)
            )
            q = q * scale
            delta = torch.linalg.vecdot(do, o).view(*split, n, 1)
            k, v = key.index_select(1, tile.columns), value.index_select(1, tile.columns)
            p, ds = workspace[:, : heads * n * columns].view(2, keys, -1, columns)
            torch.bmm(q, k.transpose(1, 2), out=p)
            torch.bmm(do, v.transpose(1, 2), out=ds)
            score, slope = (x.view(keys, -1, n, columns) for x in (p, ds))
            torch.softmax(score.add_(tile.wide_mask), -1, out=score)
            slope.sub_(delta).mul_(score)
            grad_value.index_add_(1, tile.columns, torch.bmm(p.transpose(1, 2), do))
            grad_key.index_add_(1, tile.columns, torch.bmm(ds.transpose(1, 2), q))
            grad_query[:, :, rows] = torch.bmm(ds, k).mul_(scale).view(*split, n, width)
    return grad_query.view(query_HND.shape), grad_key, grad_value


def scores_workspace(heads: int, tiles: tuple[Tile, ...]) -> Tensor:
    """Room for the largest tile's P and dS. Fresh memory for each tile would cost as much as the
    products that fill it, since the system clears every page at its first use."""
    return torch.empty(2, heads * max((t.mask.numel() for t in tiles), default=0))
