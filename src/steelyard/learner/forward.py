"""Log-probs of one bin through any Hugging Face causal LM, and the start-up checks of that path."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from steelyard.episodes import Segment, Trajectory
from steelyard.learner.attention import TreeMask, use_tree_attention
from steelyard.learner.batch import Batch
from steelyard.learner.packing import Bin, pack
from steelyard.models.logprobs import token_logprobs

_LOGP_TOLERANCE = 1e-3
_GRADIENT_TOLERANCE = 1e-2
"""Largest mean |Δ log-prob| and relative gradient difference that float32 rounding may explain.
A mask that is not honoured gives differences of order 1."""


class BinForward:
    """Runs bins through `model`, which it may route through our attention.

    `note` is one sentence for the reader of the run if the model cannot be packed, else empty.
    `longest_shared` is the longest sequence that may be packed (None: any).
    """

    def __init__(self, model: Any, *, share_prefixes: bool) -> None:
        self.model = model
        self.note = ""
        self.longest_shared = _own_window(model.config)
        self._device = next(model.parameters()).device
        use_tree_attention(model)
        with _in_float32(model):
            self._separable_head = _head_is_separable(model)
            if share_prefixes:
                self.note = check_packing(self)
        self.share_prefixes = share_prefixes and not self.note

    def pack(self, batch: Batch, wanted_T: Tensor | None, max_bin_tokens: int) -> list[Bin]:
        """The bins that this model can run, longest path and sharing as the checks found."""
        return pack(
            batch,
            wanted_T,
            max_bin_tokens=max_bin_tokens,
            share_prefixes=self.share_prefixes,
            longest_shared=self.longest_shared,
        )

    def __call__(
        self, bin_: Bin, *, temperature: float = 1.0, with_entropy: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """logp and entropy of the bin's action tokens, in the order of `bin_.index_T`, on the CPU
        in float32; the entropy carries no gradient."""
        node_P, target_P = bin_.node_P.to(self._device), bin_.target_P.to(self._device)
        logp_P, entropy_P = self._predictions(bin_, node_P, target_P, temperature, with_entropy)
        entropy_T = None
        if entropy_P is not None:
            entropy_T = entropy_P.cpu().index_select(0, bin_.prediction_T)
        return logp_P.cpu().index_select(0, bin_.prediction_T), entropy_T

    def _predictions(
        self,
        bin_: Bin,
        node_P: Tensor,
        target_P: Tensor,
        temperature: float,
        with_entropy: bool,
    ) -> tuple[Tensor, Tensor | None]:
        inputs = self._inputs(bin_)
        if self._separable_head:
            hidden_ND = self.model.get_decoder()(**inputs, use_cache=False).last_hidden_state[0]
            return token_logprobs(
                hidden_ND.index_select(0, node_P),
                self.model.get_output_embeddings().weight,
                target_P,
                temperature=temperature,
                with_entropy=with_entropy,
            )
        logit_NV = self.model(**inputs, use_cache=False).logits[0]
        all_logp_PV = (logit_NV.index_select(0, node_P).float() / temperature).log_softmax(-1)
        entropy_P = None
        if with_entropy:
            entropy_P = torch.special.entr(all_logp_PV.detach().exp()).sum(-1)
        return all_logp_PV.gather(1, target_P[:, None])[:, 0], entropy_P

    def _inputs(self, bin_: Bin) -> dict[str, Tensor]:
        # A plain sequence carries neither mask nor positions: every model understands it.
        inputs = {"input_ids": bin_.token_N[None].to(self._device)}
        if not bin_.is_chain:
            inputs["position_ids"] = bin_.depth_N[None].to(self._device)
            dtype = self.model.get_input_embeddings().weight.dtype
            inputs["attention_mask"] = TreeMask.of(bin_, dtype, self._device)
        return inputs


def check_packing(forward: BinForward) -> str:
    """Compares packed with unpacked log-probs and gradients on random sequences that branch.

    Returns:
        An empty string if they agree, or else one sentence that says what differs.
    """
    batch = _branching_batch(forward.model.config, forward.longest_shared)
    name = type(forward.model).__name__
    if batch is None:
        return f"{name}: its attention window is too short to share prefixes; training unpacked"
    try:
        packed_logp, packed_gradient = _logp_and_gradient(forward, batch, share_prefixes=True)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        reason = str(error).strip().splitlines()[0][:160] if str(error).strip() else repr(error)
        return f"{name} refuses a tree-shaped attention mask ({reason}); training unpacked"
    plain_logp, plain_gradient = _logp_and_gradient(forward, batch, share_prefixes=False)
    logp_gap = float((packed_logp - plain_logp).abs().mean())
    pairs = list(zip(packed_gradient, plain_gradient, strict=True))
    difference = sum(float((a - b).float().pow(2).sum()) for a, b in pairs) ** 0.5
    size = sum(float(b.float().pow(2).sum()) for _, b in pairs) ** 0.5
    if logp_gap <= _LOGP_TOLERANCE and difference <= _GRADIENT_TOLERANCE * size:
        return ""
    return (
        f"{name} does not honour a tree-shaped attention mask (packed log-probs differ by "
        f"{logp_gap:.2g} on average, gradients by {difference / max(size, 1e-30):.2g} of their "
        "size); training unpacked"
    )


def _logp_and_gradient(
    forward: BinForward, batch: Batch, *, share_prefixes: bool
) -> tuple[Tensor, list[Tensor]]:
    parameters = _early_parameters(forward.model)
    logp_T = torch.zeros(len(batch))
    total: list[Tensor] | None = None
    for bin_ in pack(batch, share_prefixes=share_prefixes):
        bin_logp_T, _ = forward(bin_)
        logp_T[bin_.index_T] = bin_logp_T.detach()
        # Unequal weights, so that gradients of siblings cannot cancel or be swapped unnoticed.
        loss = (bin_logp_T * (1 + bin_.index_T % 3)).sum()
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        dense = [
            torch.zeros_like(p) if g is None else g
            for p, g in zip(parameters, gradients, strict=True)
        ]
        total = dense if total is None else [a + b for a, b in zip(total, dense, strict=True)]
    assert total is not None
    return logp_T, total


def _early_parameters(model: Any) -> list[Tensor]:
    """A few trained weights near the input: their gradient has come back through every layer, at
    a small part of the cost of all gradients."""
    embeddings = [m for m in (model.get_input_embeddings(), model.get_output_embeddings()) if m]
    skipped = {id(p) for module in embeddings for p in module.parameters()}
    return [p for p in model.parameters() if p.requires_grad and id(p) not in skipped][:8]


def _branching_batch(config: Any, longest: int | None) -> Batch | None:
    """Three random sequences that share prefixes of two lengths; None if the model's window is
    too short for any."""
    length = 24 if longest is None else min(24, longest)
    if length < 4:
        return None
    vocabulary = config.get_text_config().vocab_size
    # A fixed generator of its own: the check moves no random state of the run.
    draw = np.random.default_rng(0)
    stem, *branches = (draw.integers(0, vocabulary, length).tolist() for _ in range(4))
    trajectories = []
    for shared, branch in zip((length // 2, length // 2, length // 4), branches, strict=True):
        segment = Segment()
        segment.append_context(stem[:shared])
        actions = branch[shared:]
        segment.append_action(actions, [0.0] * len(actions), [0] * len(actions))
        trajectories.append(Trajectory([segment]))
    return Batch.from_trajectories(trajectories)


@contextmanager
def _in_float32(model: Any) -> Iterator[None]:
    """Widens the weights, and narrows them back: what bfloat16 rounding does to a gradient on
    random tokens is as large as what a wrong mask does, so the checks need float32."""
    narrow = [
        (p, p.dtype) for p in model.parameters() if p.dtype in (torch.bfloat16, torch.float16)
    ]
    for parameter, _ in narrow:
        parameter.data = parameter.data.float()
    try:
        yield
    finally:
        for parameter, dtype in narrow:
            parameter.data = parameter.data.to(dtype)


def _head_is_separable(model: Any) -> bool:
    """Whether hidden states times the output embedding are the model's logits: not so with a
    bias, a logit scale or a soft cap."""
    head = model.get_output_embeddings()
    if head is None or getattr(head, "bias", None) is not None or not hasattr(head, "weight"):
        return False
    ids = torch.arange(8, device=head.weight.device)[None] % head.weight.shape[0]
    with torch.no_grad():
        want_NV = model(input_ids=ids, use_cache=False).logits[0]
        try:
            hidden_ND = model.get_decoder()(input_ids=ids, use_cache=False).last_hidden_state[0]
        except (AttributeError, TypeError):
            return False
        if hidden_ND.shape[-1] != head.weight.shape[1]:
            return False
        got_NV = hidden_ND @ head.weight.T
    if got_NV.shape != want_NV.shape:
        return False
    return bool((got_NV - want_NV).abs().max() <= 1e-3 * (1.0 + want_NV.abs().max()))


def _own_window(config: Any) -> int | None:
    """The shortest span beyond which the model cuts attention itself, which our mask would undo."""
    text = config.get_text_config()
    spans = [getattr(text, "attention_chunk_size", None)]
    if getattr(text, "use_sliding_window", True):
        spans.append(getattr(text, "sliding_window", None))
    found = [int(span) for span in spans if span]
    return min(found) if found else None
