"""Attention over a prefix tree, tile by tile.

A dense mask makes every node pay for every other. Here the nodes of a bin are cut into tiles of
query rows, and each tile attends only to the columns that at least one of its rows may see: its
own path and the shared prefixes, not its siblings and not the other trees of the bin. On the CPU
the backward pass is written out in matmuls, since torch's own is several times slower than they
are at these sizes.

It is offered to a model through transformers' attention registry; a model whose code does not go
through that registry never meets it and gets the dense mask.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from steelyard.learner.packing import Bin, attention_mask
from steelyard.models.precision import bfloat16_products

NAME = "steelyard_tree"
_TILE_ROWS = 128


@dataclass(frozen=True, slots=True)
class _Tile:
    start: int
    stop: int
    columns: Tensor
    """Ascending node numbers that the rows start..stop may see, between them."""
    mask: Tensor
    """[rows, columns], additive, in the model's dtype."""
    wide_mask: Tensor
    """The same in float32: adding across dtypes is slow."""


class TreeMask(Tensor):
    """The dense additive mask of a bin, which also carries its tiles.

    Anything a model computes from it is a plain tensor without tiles, so a model that alters its
    mask falls back to dense attention with what it made.
    """

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    tiles: tuple[_Tile, ...]

    @staticmethod
    def of(bin_: Bin, dtype: torch.dtype, device: torch.device) -> TreeMask:
        dense = attention_mask(bin_, dtype)
        tiles = []
        for start in range(0, len(bin_), _TILE_ROWS):
            rows = dense[0, 0, start : start + _TILE_ROWS]
            columns = torch.nonzero((rows == 0).any(0))[:, 0]
            mask = rows[:, columns].to(device)
            stop = start + len(rows)
            tiles.append(_Tile(start, stop, columns.to(device), mask, mask.float()))
        tree = dense.to(device).as_subclass(TreeMask)
        tree.tiles = tuple(tiles)
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
        out = _TreeAttention.apply(  # type: ignore[no-untyped-call]
            query[0], key[0], value[0], attention_mask.tiles, scale
        )
    else:
        out = _forward(query[0], key[0], value[0], attention_mask.tiles, scale)
    return out.transpose(0, 1)[None], None


def _forward(
    query_HND: Tensor, key_KND: Tensor, value_KND: Tensor, tiles: tuple[_Tile, ...], scale: float
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
    """O = softmax(scale · Q Kᵀ + mask) V, with H query heads sharing K key heads."""

    @staticmethod
    def forward(
        ctx: Any,
        query_HND: Tensor,
        key_KND: Tensor,
        value_KND: Tensor,
        tiles: tuple[_Tile, ...],
        scale: float,
    ) -> Tensor:
        out_HND = _forward(query_HND, key_KND, value_KND, tiles, scale)
        ctx.save_for_backward(query_HND, key_KND, value_KND, out_HND)
        ctx.tiles, ctx.scale = tiles, scale
        return out_HND

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        query_HND, key_KND, value_KND, out_HND = ctx.saved_tensors
        heads, nodes, width = query_HND.shape
        keys = len(key_KND)
        # The query heads that share a key head become rows of one matmul.
        split = (keys, heads // keys, nodes, width)
        grad_out = grad_outputs[0].float().reshape(split)
        query = (query_HND.float() * ctx.scale).reshape(split)
        key, value = key_KND.float(), value_KND.float()
        delta = (grad_out * out_HND.float().reshape(split)).sum(-1, keepdim=True)
        grad_query = torch.empty_like(query)
        grad_key, grad_value = torch.zeros_like(key), torch.zeros_like(value)
        narrow = query_HND.dtype == torch.bfloat16
        with bfloat16_products() if narrow else nullcontext():
            for tile in ctx.tiles:
                rows = slice(tile.start, tile.stop)
                n, columns = tile.mask.shape
                flat = (keys, -1, width)
                q, do = query[:, :, rows].reshape(flat), grad_out[:, :, rows].reshape(flat)
                k, v = key.index_select(1, tile.columns), value.index_select(1, tile.columns)
                score = torch.bmm(q, k.transpose(1, 2)).view(keys, -1, n, columns)
                p = torch.softmax(score.add_(tile.wide_mask), -1)
                ds = torch.bmm(do, v.transpose(1, 2)).view_as(p).sub_(delta[:, :, rows]).mul_(p)
                p, ds = p.view(keys, -1, columns), ds.view(keys, -1, columns)
                grad_value.index_add_(1, tile.columns, torch.bmm(p.transpose(1, 2), do))
                grad_key.index_add_(1, tile.columns, torch.bmm(ds.transpose(1, 2), q))
                grad_query[:, :, rows] = torch.bmm(ds, k).view(keys, -1, n, width)
        return (
            grad_query.mul_(ctx.scale).reshape(query_HND.shape).to(query_HND.dtype),
            grad_key.to(key_KND.dtype),
            grad_value.to(value_KND.dtype),
            None,
            None,
        )
