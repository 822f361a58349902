"""The Llama family's decoder for training on the CPU: one autograd function a layer.

A layer through torch's autograd is some hundred small operations, and most of a step's time goes to
moving activations between them, not to the products. Here both passes of a layer are written out:
the residual stream and its gradient stay in float32 and are added to in place, queries, keys and
values are one product, and attention works on the tiles of the bin. The weights remain the Hugging
Face model's own parameters, so gradients reach them as before.

It covers what `engines.llama` covers for sampling. The start-up check in `forward` compares it with
the Hugging Face model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from steelyard.engines.llama import Shape
from steelyard.engines.llama import unsupported as unsupported_family
from steelyard.learner.attention import (
    Tile,
    scores_workspace,
    tiles_of,
    tree_attention,
    tree_attention_backward,
)
from steelyard.learner.packing import Bin


def unsupported(model: Any) -> str:
    """Why the Hugging Face `model` cannot be trained through this path; empty if it can."""
    # First of all, since other models lack the attributes that the rest reads.
    reason = "" if hasattr(model.config, "hidden_act") else f"type {model.config.model_type!r}"
    reason = reason or unsupported_family(model)
    if reason:
        return reason
    if model.get_input_embeddings().weight.device.type != "cpu":
        return "not on the CPU"
    for layer in model.model.layers:
        attention, mlp = layer.self_attn, layer.mlp
        plain = (attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
        inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
        if any(type(linear) is not nn.Linear for linear in (*plain, *inputs)):
            return "an adapted linear layer"
        if any(linear.bias is not None for linear in plain):
            return "a bias outside queries, keys and values"
        if len({linear.bias is None for linear in inputs}) > 1:
            return "a bias on some of queries, keys and values"
    return ""


class LlamaDecoder:
    """Hidden states of a bin's nodes, differentiable in the model's parameters."""

    def __init__(self, model: Any) -> None:
        assert not unsupported(model)
        self._model = model.model
        self._shape = Shape.of(model.config)

    def __call__(self, bin_: Bin, node_P: Tensor) -> Tensor:
        """The normed hidden states [P, hidden] of the nodes `node_P`, in the weights' dtype."""
        dtype = self._model.embed_tokens.weight.dtype
        x_ND = self._model.embed_tokens(bin_.token_N).float()
        cos, sin = self._model.rotary_emb(x_ND, bin_.depth_N[None])
        pass_ = _Pass(self._shape, tiles_of(bin_, dtype, x_ND.device), cos[0], sin[0], dtype)
        for layer in self._model.layers:
            x_ND = _Layer.apply(x_ND, pass_, *_weights(layer))  # type: ignore[no-untyped-call]
        x_PD = x_ND.index_select(0, node_P)
        scale = x_PD.square().mean(-1, keepdim=True).add(self._shape.epsilon).rsqrt()
        normed: Tensor = x_PD * scale * self._model.norm.weight.float()
        return normed.to(dtype)


class _Pass:
    """What the layers of one pass share: shape, tiles, and the rotation of each node."""

    def __init__(
        self, shape: Shape, tiles: tuple[Tile, ...], cos: Tensor, sin: Tensor, dtype: torch.dtype
    ) -> None:
        self.shape, self.tiles, self.dtype = shape, tiles, dtype
        self.scale = shape.head_dim**-0.5
        self.workspace = scores_workspace(shape.heads, tiles)
        # Rolling a head exchanges its halves; the sign that rotation gives the first is in `sin`.
        half = shape.head_dim // 2
        self._sin = torch.cat((-sin[:, :half], sin[:, half:]), -1)
        self._cos = cos
        self._narrow_cos, self._narrow_sin = (
            x.to(dtype).unsqueeze(1) for x in (self._cos, self._sin)
        )

    def rotate_(self, x_NHD: Tensor) -> None:
        """x ← x ∘ cos + roll(x) ∘ sin, on nodes' heads in the weights' dtype."""
        halves = torch.roll(x_NHD, x_NHD.shape[-1] // 2, -1)
        torch.addcmul(x_NHD * self._narrow_cos, halves, self._narrow_sin, out=x_NHD)

    def rotated_back(self, x_HND: Tensor) -> Tensor:
        """The gradient before `rotate_` of a float32 one after it: turned by minus the angle."""
        halves = torch.roll(x_HND, x_HND.shape[-1] // 2, -1)
        return (x_HND * self._cos).addcmul_(halves, self._sin, value=-1.0)


def _weights(layer: Any) -> tuple[Tensor | None, ...]:
    attention, mlp = layer.self_attn, layer.mlp
    inputs = (attention.q_proj, attention.k_proj, attention.v_proj)
    return (
        layer.input_layernorm.weight,
        *(linear.weight for linear in inputs),
        *(linear.bias for linear in inputs),
        attention.o_proj.weight,
        layer.post_attention_layernorm.weight,
        mlp.gate_proj.weight,
        mlp.up_proj.weight,
        mlp.down_proj.weight,
    )


class _Layer(torch.autograd.Function):
    """x ← x + Attention(norm₁ x) Wₒᵀ; x ← x + (silu(h W_gᵀ) ∘ h W_uᵀ) W_dᵀ with h = norm₂ x."""

    @staticmethod
    def forward(ctx: Any, x_ND: Tensor, pass_: _Pass, *weights: Any) -> Tensor:
        norm1, q, k, v, q_bias, k_bias, v_bias, out, norm2, gate, up, down = weights
        shape = pass_.shape
        unit1, scale1 = _unit(x_ND, pass_)
        h1 = unit1 * norm1
        bias = None if q_bias is None else torch.cat((q_bias, k_bias, v_bias))
        qkv = functional.linear(h1, torch.cat((q, k, v)), bias)
        qkv_HND = qkv.view(len(x_ND), -1, shape.head_dim)
        pass_.rotate_(qkv_HND[:, : shape.heads + shape.kv_heads])
        parts = _by_kind(qkv_HND.transpose(0, 1), shape)
        attended_HND = tree_attention(*parts, pass_.tiles, pass_.scale)
        attended = attended_HND.transpose(0, 1).flatten(1)
        x_ND.add_(functional.linear(attended, out))
        unit2, scale2 = _unit(x_ND, pass_)
        h2 = unit2 * norm2
        g, u = functional.linear(h2, gate), functional.linear(h2, up)
        x_ND.add_(functional.linear(functional.silu(g).mul_(u), down))
        ctx.pass_ = pass_
        ctx.mark_dirty(x_ND)
        ctx.save_for_backward(*weights, unit1, scale1, h1, qkv, attended, unit2, scale2, h2, g, u)
        return x_ND

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        norm1, q, k, v, q_bias, _, _, out, norm2, gate, up, down = ctx.saved_tensors[:12]
        unit1, scale1, h1, qkv, attended, unit2, scale2, h2, g, u = ctx.saved_tensors[12:]
        pass_, (grad_ND,) = ctx.pass_, grad_outputs

        dy = grad_ND.to(pass_.dtype)
        s = functional.silu(g)
        d_down = dy.t() @ (s * u)
        da = dy @ down
        du = s.mul_(da)
        dg = torch.ops.aten.silu_backward(da.mul_(u), g)
        d_gate, d_up = dg.t() @ h2, du.t() @ h2
        dh = (dg @ gate).addmm_(du, up)
        dx_ND, d_norm2 = _norm_backward(grad_ND, dh, norm2, unit2, scale2)

        dy = dx_ND.to(pass_.dtype)
        d_out = dy.t() @ attended
        heads = (len(dy), -1, pass_.shape.head_dim)
        slopes = tree_attention_backward(
            (dy @ out).view(heads).transpose(0, 1),
            *_by_kind(qkv.view(heads).transpose(0, 1), pass_.shape),
            attended.view(heads).transpose(0, 1),
            pass_.tiles,
            pass_.scale,
            pass_.workspace,
        )
        d_qkv = _before_rotation(slopes, pass_)
        sizes = [len(q), len(k), len(v)]
        d_q, d_k, d_v = torch.split(d_qkv.t() @ h1, sizes)
        d_biases: Sequence[Tensor | None] = (None, None, None)
        if q_bias is not None:
            d_biases = torch.split(d_qkv.sum(0), sizes)
        dh = d_qkv @ torch.cat((q, k, v))
        dx_ND, d_norm1 = _norm_backward(dx_ND, dh, norm1, unit1, scale1)
        return dx_ND, None, d_norm1, d_q, d_k, d_v, *d_biases, d_out, d_norm2, d_gate, d_up, d_down


def _by_kind(heads_HND: Tensor, shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    query, rest = heads_HND[: shape.heads], heads_HND[shape.heads :]
    return query, rest[: shape.kv_heads], rest[shape.kv_heads :]


def _unit(x_ND: Tensor, pass_: _Pass) -> tuple[Tensor, Tensor]:
    """x / √(mean x² + ε), in the weights' dtype, and the factor [N, 1] in float32."""
    # vector_norm reads x once, where square and mean would write it out.
    norm: Tensor = torch.linalg.vector_norm(x_ND, dim=-1, keepdim=True)
    scale = norm.square_().div_(x_ND.shape[-1]).add_(pass_.shape.epsilon).rsqrt_()
    return (x_ND * scale).to(pass_.dtype), scale


def _norm_backward(
    grad_ND: Tensor, dh: Tensor, weight: Tensor, unit: Tensor, scale: Tensor
) -> tuple[Tensor, Tensor]:
    """dx = grad + scale · (dh ∘ w − unit · mean(dh ∘ w ∘ unit)); dw = Σ_n dh ∘ unit."""
    wide_dh, wide_unit, wide_weight = dh.float(), unit.float(), weight.float()
    product = wide_dh * wide_unit
    # Not a matrix product: another lane may just have told those to round to bfloat16.
    mean = (product * wide_weight).sum(1, keepdim=True).div_(-product.shape[1])
    # A copy where dh is float32 already, since it is not ours to change then.
    slope = (wide_dh * wide_weight).addcmul_(wide_unit, mean)
    return torch.addcmul(grad_ND, slope, scale), product.sum(0).to(weight.dtype)


def _before_rotation(slopes: Sequence[Tensor], pass_: _Pass) -> Tensor:
    """The attention's gradients [heads, N, d] as one [N, heads · d] in the weights' dtype."""
    d_query, d_key, d_value = slopes
    heads = torch.cat((pass_.rotated_back(d_query), pass_.rotated_back(d_key), d_value))
    narrow = torch.empty(heads.shape[1], len(heads), heads.shape[2], dtype=pass_.dtype)
    return narrow.copy_(heads.transpose(0, 1)).flatten(1)
