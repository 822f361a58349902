"""The Llama family's forward pass, written for decoding: fused projections, our own cache.

Covers Llama, Qwen2 (biases on q, k, v) and Mistral without a sliding window; grouped-query
attention; tied or untied output heads; every rotary embedding whose frequencies do not depend on
the sequence length (their frequencies come from the Hugging Face module itself).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from steelyard.engines.arena import Arena
from steelyard.engines.attention import attend, merge
from steelyard.engines.batch import Batch, Chunk, Place, Prefix
from steelyard.engines.linear import Head, Linear

_FAMILY = {"llama", "mistral", "qwen2"}
_STATIC_ROPE = {"default", "linear", "llama3", "yarn"}


def unsupported(model: Any) -> str:
    """Why this forward pass cannot run the Hugging Face `model`; empty if it can."""
    config = model.config
    if config.model_type not in _FAMILY:
        return f"model type {config.model_type!r}"
    if config.hidden_act != "silu":
        return f"activation {config.hidden_act!r}"
    if getattr(config, "use_sliding_window", config.model_type == "mistral") and getattr(
        config, "sliding_window", None
    ):
        return "sliding-window attention"
    rope = getattr(getattr(model.model, "rotary_emb", None), "rope_type", None)
    if rope not in _STATIC_ROPE:
        return f"rotary embedding {rope!r}"
    return ""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model that the cache and the forward pass need."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    epsilon: float

    @classmethod
    def of(cls, config: Any) -> Shape:
        """Reads them from a Hugging Face config."""
        heads = int(config.num_attention_heads)
        return cls(
            layers=int(config.num_hidden_layers),
            heads=heads,
            kv_heads=int(getattr(config, "num_key_value_heads", None) or heads),
            head_dim=int(getattr(config, "head_dim", None) or config.hidden_size // heads),
            epsilon=float(config.rms_norm_eps),
        )


class _Fused:
    """Some Hugging Face linear layers of one input, run as one product."""

    def __init__(self, weights: Mapping[str, Tensor], names: tuple[str, ...]) -> None:
        parts = [weights[f"{name}.weight"] for name in names]
        self._names, self._sizes = names, [len(part) for part in parts]
        biases = [weights[f"{name}.bias"] for name in names if f"{name}.bias" in weights]
        assert len(biases) in (0, len(names)), f"only some of {names} have a bias"
        self.linear = Linear(torch.cat(parts), torch.cat(biases) if biases else None)

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """The parts under their own names."""
        parts = torch.split(self.linear.weight, self._sizes)
        yield from ((f"{n}.weight", part) for n, part in zip(self._names, parts, strict=True))
        if self.linear.bias is not None:
            parts = torch.split(self.linear.bias, self._sizes)
            yield from ((f"{n}.bias", part) for n, part in zip(self._names, parts, strict=True))


class _Layer:
    def __init__(self, weights: Mapping[str, Tensor], prefix: str) -> None:
        self._prefix = prefix
        self.attention_norm = weights[f"{prefix}.input_layernorm.weight"].float().clone()
        self.mlp_norm = weights[f"{prefix}.post_attention_layernorm.weight"].float().clone()
        attention, mlp = f"{prefix}.self_attn", f"{prefix}.mlp"
        self._qkv = _Fused(weights, tuple(f"{attention}.{x}_proj" for x in "qkv"))
        self._out = _Fused(weights, (f"{attention}.o_proj",))
        self._gate_up = _Fused(weights, (f"{mlp}.gate_proj", f"{mlp}.up_proj"))
        self._down = _Fused(weights, (f"{mlp}.down_proj",))
        self.qkv, self.out = self._qkv.linear, self._out.linear
        self.gate_up, self.down = self._gate_up.linear, self._down.linear

    def named(self) -> Iterator[tuple[str, Tensor]]:
        dtype = self.out.weight.dtype
        yield f"{self._prefix}.input_layernorm.weight", self.attention_norm.to(dtype)
        yield f"{self._prefix}.post_attention_layernorm.weight", self.mlp_norm.to(dtype)
        for fused in (self._qkv, self._out, self._gate_up, self._down):
            yield from fused.named()


class Llama:
    """Weights in the layout that decoding wants, and the forward pass over them."""

    def __init__(self, model: Any) -> None:
        assert not unsupported(model)
        self.shape = Shape.of(model.config)
        rotary = model.model.rotary_emb
        self._frequencies = rotary.inv_freq.detach().float().clone()
        self._rope_scale = float(rotary.attention_scaling)
        self.tied = bool(model.config.tie_word_embeddings)
        self.load(model.state_dict())

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Copies `weights` (Hugging Face names, right type and device) into place."""
        self._embedding = weights["model.embed_tokens.weight"].clone()
        self._norm = weights["model.norm.weight"].float().clone()
        head = self._embedding if self.tied else weights["lm_head.weight"]
        self._head = Head(head)
        self._layers: list[_Layer] = []
        for i in range(self.shape.layers):
            self._layers.append(_Layer(weights, f"model.layers.{i}"))

    @property
    def dtype(self) -> torch.dtype:
        return self._embedding.dtype

    @property
    def device(self) -> torch.device:
        return self._embedding.device

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """The weights in use under their Hugging Face names."""
        yield "model.embed_tokens.weight", self._embedding
        yield "model.norm.weight", self._norm.to(self.dtype)
        if not self.tied:
            yield "lm_head.weight", self._head.weight
        for layer in self._layers:
            yield from layer.named()

    def forward(
        self, batch: Batch, own: Arena[Place], prefixes: Arena[Prefix], *, logits: bool
    ) -> Tensor | None:
        """Runs the pass, writing keys and values into `own`.

        Returns float32 logits [rows, vocabulary] after each row's last new token, if asked for.
        """
        heads, kv_heads, head_dim = self.shape.heads, self.shape.kv_heads, self.shape.head_dim
        cos, sin = self._rotation(batch.positions)
        # The residual stream stays in float32: rounding it to bfloat16 sixty times over is most of
        # the noise by which two correct forward passes differ.
        x = functional.embedding(batch.token_ids, self._embedding).float()
        for i, layer in enumerate(self._layers):
            h = self._normed(x, layer.attention_norm)
            qkv = layer.qkv(h).view(len(x), heads + 2 * kv_heads, head_dim)
            rotated = qkv[:, : heads + kv_heads]
            # roll exchanges the halves; the sign of the first half is in `sin`.
            halves = torch.roll(rotated, head_dim // 2, -1)
            torch.addcmul(rotated * cos, halves, sin, out=rotated)
            memory = own.kv[i]
            memory.view(-1, head_dim).index_copy_(0, batch.write, qkv[:, heads:].flatten(0, 1))
            query = qkv[:, :heads]
            parts = [
                self._attention(query[c.start : c.stop], c, memory, prefixes.kv[i])
                for c in batch.chunks
            ]
            attended = parts[0] if len(parts) == 1 else torch.cat(parts)
            x.add_(layer.out(attended))
            h = self._normed(x, layer.mlp_norm)
            gate, up = layer.gate_up(h).chunk(2, -1)
            x.add_(layer.down(functional.silu(gate).mul_(up)))
        if not logits:
            return None
        x = x.index_select(0, batch.last)
        return self._head(self._normed(x, self._norm))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        """x / √(mean x² + ε) · weight in float32, then in the model's type."""
        # torch's own rms_norm makes six passes on a CPU; this takes half its time.
        norm: Tensor = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
        scale = norm.square_().div_(x.shape[-1]).add_(self.shape.epsilon).rsqrt_()
        return (x * scale).mul_(weight).to(self.dtype)

    def _rotation(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """cos and signed sin per token, [tokens, 1, head_dim], in the model's type as HF has it."""
        angles = positions.unsqueeze(-1).float() * self._frequencies
        cos, sin = angles.cos() * self._rope_scale, angles.sin() * self._rope_scale
        return (
            torch.cat((cos, cos), -1).unsqueeze(1).to(self.dtype),
            torch.cat((-sin, sin), -1).unsqueeze(1).to(self.dtype),
        )

    def _attention(self, query: Tensor, chunk: Chunk, own: Tensor, shared: Tensor) -> Tensor:
        """Attention of one chunk's queries [tokens, heads, d]; returns [tokens, heads · d].

        `own` and `shared` are one layer's memory, [slots, 2·kv_heads, tokens, d].
        """
        keys = own[chunk.first_slot : chunk.first_slot + chunk.rows, :, : chunk.keys]
        out, lse = self._grouped(query, chunk.rows, keys, chunk.mask)
        plan = chunk.shared
        if plan is None:
            return out.flatten(1)
        if plan.slots is not None:
            keys = shared[:, :, : plan.tokens].index_select(0, plan.slots)
        else:
            keys = shared[: plan.prefixes, :, : plan.tokens]
        if plan.regroup is None:
            other, other_lse = self._grouped(query, plan.prefixes, keys, plan.mask)
        else:
            there, back = plan.regroup
            other, other_lse = self._grouped(
                query.index_select(0, there), plan.prefixes, keys, plan.mask
            )
            other, other_lse = other.index_select(0, back), other_lse.index_select(0, back)
        if plan.absent is not None:
            other_lse = other_lse + plan.absent
        return merge(out, lse, other, other_lse).flatten(1)

    def _grouped(
        self, query: Tensor, groups: int, keys: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """`attend` for [groups · width, heads, d] queries; outputs and log-sum-exps in that order.

        Inside a group the queries stand as (q head of its kv head, token).
        """
        kv_heads, head_dim = self.shape.kv_heads, self.shape.head_dim
        ratio, width = self.shape.heads // kv_heads, len(query) // groups
        arranged = query.view(groups, width, kv_heads, ratio, head_dim).permute(0, 2, 3, 1, 4)
        out, lse = attend(arranged.flatten(2, 3), keys, mask)
        back = (groups, kv_heads, ratio, width)
        return (
            out.reshape(*back, head_dim).permute(0, 3, 1, 2, 4).flatten(2, 3).flatten(0, 1),
            lse.reshape(back).permute(0, 3, 1, 2).flatten(2, 3).flatten(0, 1),
        )
