"""Log-probs of one bin through any Hugging Face causal LM, and the start-up checks of that path.

A Llama on the CPU goes through `learner.llama`, which must first agree with the Hugging Face model.
"""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from steelyard.episodes import Segment, Trajectory
from steelyard.learner.attention import TreeMask, use_tree_attention
from steelyard.learner.batch import Batch
from steelyard.learner.llama import LlamaDecoder, unsupported
from steelyard.learner.packing import Bin, pack
from steelyard.models.logprobs import token_logprobs
from steelyard.models.precision import in_float32, products_of

_LOGP_TOLERANCE = 1e-3
_GRADIENT_TOLERANCE = 1e-2
"""Largest mean |Δ log-prob| and relative gradient difference that float32 rounding may explain.
A mask that is not honoured gives differences of order 1."""


class Outputs(NamedTuple):
    """Of a bin's P distinct predictions: `hidden_PD`, and the logits where the model's head is
    more than a product with the output embedding."""

    hidden_PD: Tensor
    all_logit_PV: Tensor | None

    def rows(self, part: slice) -> Outputs:
        """Some of them."""
        logits = self.all_logit_PV
        return Outputs(self.hidden_PD[part], None if logits is None else logits[part])


class BinForward:
    """Runs bins through `model`, which it may route through our attention.

    `note` is one sentence for the reader of the run if the model cannot be packed, or cannot run
    through our own Llama though it looks like one; else empty.
    `longest_shared` is the longest sequence that may be packed (None: any).
    """

    def __init__(self, model: Any, *, share_prefixes: bool) -> None:
        self.model = model
        self.note = ""
        self.longest_shared = _own_window(model.config)
        self._device = next(model.parameters()).device
        self._llama: LlamaDecoder | None = None
        self.share_prefixes = share_prefixes
        use_tree_attention(model)
        with in_float32(model):
            self._separable_head = _head_is_separable(model)
            if self._separable_head and not unsupported(model):
                self.note = self._adopt_llama()
            if self._llama is None and share_prefixes:
                packing = check_packing(self)
                self.share_prefixes = not packing
                self.note = " ".join(filter(None, (self.note, packing)))

    @property
    def path(self) -> str:
        """Which code computes hidden states: "llama" is ours, "transformers" the model's own."""
        return "transformers" if self._llama is None else "llama"

    def _adopt_llama(self) -> str:
        """Takes our own Llama if it agrees with the model on random sequences that branch, packed
        here if they will be; else says in one sentence what differs."""
        batch = _branching_batch(self.model.config, self.longest_shared)
        assert batch is not None, "a sliding window is not supported"
        plain = _logp_and_gradient(self, batch, share_prefixes=False)
        self._llama = LlamaDecoder(self.model)
        ours = _logp_and_gradient(self, batch, share_prefixes=self.share_prefixes)
        gap = _difference(ours, plain)
        if not gap:
            return ""
        self._llama = None
        return f"the fast Llama path differs from {type(self.model).__name__} ({gap}); not used"

    def replica(self) -> BinForward:
        """The same weights as other parameters, to which gradients come apart from these."""
        assert self._llama is not None, "other paths may keep state in their modules"
        memo = {
            id(p): torch.nn.Parameter(p.data, requires_grad=p.requires_grad)
            for p in self.model.parameters()
        }
        other = copy.copy(self)
        other.model = copy.deepcopy(self.model, memo)
        other._llama = LlamaDecoder(other.model)
        return other

    def run(self, bin_: Bin) -> Outputs:
        """The hidden states that the bin's predictions are read from, with gradient."""
        node_P = bin_.node_P.to(self._device)
        if self._llama is not None:
            return Outputs(self._llama(bin_, node_P), None)
        if self._separable_head:
            decoder = self.model.get_decoder()
            hidden_ND = decoder(**self._inputs(bin_), use_cache=False).last_hidden_state[0]
            return Outputs(hidden_ND.index_select(0, node_P), None)
        result = self.model(**self._inputs(bin_), use_cache=False, output_hidden_states=True)
        return Outputs(
            result.hidden_states[-1][0].index_select(0, node_P),
            result.logits[0].index_select(0, node_P),
        )

    def logprobs(
        self, outputs: Outputs, bin_: Bin, *, temperature: float = 1.0, with_entropy: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """logp and entropy of the bin's action tokens, in the order of `bin_.index_T`, on the CPU
        in float32; the entropy carries no gradient."""
        target_P = bin_.target_P.to(self._device)
        if outputs.all_logit_PV is None:
            logp_P, entropy_P = token_logprobs(
                outputs.hidden_PD,
                self.model.get_output_embeddings().weight,
                target_P,
                temperature=temperature,
                with_entropy=with_entropy,
            )
        else:
            all_logp_PV = (outputs.all_logit_PV.float() / temperature).log_softmax(-1)
            logp_P = all_logp_PV.gather(1, target_P[:, None])[:, 0]
            entropy_P = None
            if with_entropy:
                entropy_P = torch.special.entr(all_logp_PV.detach().exp()).sum(-1)
        if entropy_P is not None:
            entropy_P = entropy_P.cpu().index_select(0, bin_.prediction_T)
        return logp_P.cpu().index_select(0, bin_.prediction_T), entropy_P

    def logits(self, outputs: Outputs) -> Tensor:
        """The whole logits of predictions: float32 [P, V]. For a few of them at a time."""
        if outputs.all_logit_PV is not None:
            return outputs.all_logit_PV.float()
        hidden_PD, head_VD = outputs.hidden_PD, self.model.get_output_embeddings().weight
        # Products of bfloat16 numbers, but sums and logits in float32, as in `token_logprobs`.
        with products_of(hidden_PD.dtype):
            return functional.linear(hidden_PD.float(), head_VD.float())

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
        packed = _logp_and_gradient(forward, batch, share_prefixes=True)
    except (TypeError, ValueError, RuntimeError, IndexError) as error:
        reason = str(error).strip().splitlines()[0][:160] if str(error).strip() else repr(error)
        return f"{name} refuses a tree-shaped attention mask ({reason}); training unpacked"
    plain = _logp_and_gradient(forward, batch, share_prefixes=False)
    gap = _difference(packed, plain)
    if not gap:
        return ""
    return f"{name} does not honour a tree-shaped attention mask ({gap}); training unpacked"


def _difference(got: tuple[Tensor, list[Tensor]], want: tuple[Tensor, list[Tensor]]) -> str:
    """How far log-probs and gradients lie apart, in words; empty if rounding explains it."""
    logp_gap = float((got[0] - want[0]).abs().mean())
    pairs = list(zip(got[1], want[1], strict=True))
    difference = sum(float((a - b).float().pow(2).sum()) for a, b in pairs) ** 0.5
    size = sum(float(b.float().pow(2).sum()) for _, b in pairs) ** 0.5
    if logp_gap <= _LOGP_TOLERANCE and difference <= _GRADIENT_TOLERANCE * size:
        return ""
    return (
        f"log-probs differ by {logp_gap:.2g} on average, gradients by "
        f"{difference / max(size, 1e-30):.2g} of their size"
    )


def _logp_and_gradient(
    forward: BinForward, batch: Batch, *, share_prefixes: bool
) -> tuple[Tensor, list[Tensor]]:
    parameters = _early_parameters(forward.model)
    logp_T = torch.zeros(len(batch))
    total: list[Tensor] | None = None
    for bin_ in pack(batch, share_prefixes=share_prefixes):
        bin_logp_T, _ = forward.logprobs(forward.run(bin_), bin_)
        logp_T[bin_.index_T] = bin_logp_T.detach()
        # Unequal weights, so that gradients of siblings cannot cancel or be swapped unnoticed.
        loss = (bin_logp_T * (1 + bin_.index_T % 3)).sum()
        # A frozen model (a reference, a teacher) has only its log-probs to compare.
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True) if parameters else ()
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
