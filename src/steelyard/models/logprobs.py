"""Log-probs of given tokens without ever holding a [tokens, vocabulary] matrix."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from steelyard.models.precision import products_of


def token_logprobs(
    hidden_TD: Tensor,
    head_weight_VD: Tensor,
    target_T: Tensor,
    *,
    temperature: float = 1.0,
    chunk_vocabulary: int = 4096,
    with_entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """logp_t = l_t[target_t] − log Σ_v exp l_t[v], with l = hidden · headᵀ / temperature.

    With `with_entropy` also H_t = −Σ_v p_t[v] log p_t[v], in nats, which carries no gradient.

    The vocabulary is walked in chunks with a running log-sum-exp, and walked again in backward,
    ∂logp_t/∂l_t = onehot(target_t) − softmax(l_t), so that memory is tokens × chunk and the head's
    gradient is written once. Logits are float32 even where hidden and head are bfloat16 (float64
    where they are float64).

    Args:
        hidden_TD: the hidden states that predict the targets, in the head's dtype.
        head_weight_VD: the output embedding, without bias.
        target_T: int64 token ids.
        temperature: of the distribution whose log-probs are wanted; above 0.
        chunk_vocabulary: columns of logits held at a time.

    Returns:
        logp_T and entropy_T (None unless asked for), float32, or float64 for float64 operands.
    """
    assert temperature > 0.0, "temperature 0 has no log-probs"
    assert hidden_TD.dtype == head_weight_VD.dtype
    logp_T, entropy_T = _TokenLogprobs.apply(  # type: ignore[no-untyped-call]
        hidden_TD, head_weight_VD, target_T, 1.0 / temperature, chunk_vocabulary, with_entropy
    )
    return logp_T, entropy_T


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


class _TokenLogprobs(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden_TD: Tensor,
        head_VD: Tensor,
        target_T: Tensor,
        inverse_temperature: float,
        chunk: int,
        with_entropy: bool,
    ) -> tuple[Tensor, Tensor | None]:
        wide_TD = _wide(hidden_TD)
        peak_T = wide_TD.new_full((len(wide_TD),), -torch.inf)
        total_T = torch.zeros_like(peak_T)  # Σ exp(l − peak)
        weighted_T = torch.zeros_like(peak_T)  # Σ exp(l − peak) · l
        target_logit_T = torch.zeros_like(peak_T)
        with products_of(hidden_TD.dtype):
            for start in range(0, len(head_VD), chunk):
                head_CD = _wide(head_VD[start : start + chunk])
                logit_TC = (wide_TD @ head_CD.T).mul_(inverse_temperature)
                inside_T, column_T = _columns(target_T, start, len(head_CD))
                picked_T = logit_TC.gather(1, column_T[:, None])[:, 0]
                target_logit_T = torch.where(inside_T, picked_T, target_logit_T)
                new_peak_T = torch.maximum(peak_T, logit_TC.amax(1))
                shrink_T = torch.exp(peak_T - new_peak_T)
                if with_entropy:
                    exp_TC = torch.exp(logit_TC - new_peak_T[:, None])
                    weighted_T = weighted_T * shrink_T + torch.linalg.vecdot(exp_TC, logit_TC)
                else:
                    exp_TC = logit_TC.sub_(new_peak_T[:, None]).exp_()
                total_T = total_T * shrink_T + exp_TC.sum(1)
                peak_T = new_peak_T
        logsumexp_T = peak_T + total_T.log()
        entropy_T = logsumexp_T - weighted_T / total_T if with_entropy else None
        ctx.save_for_backward(hidden_TD, head_VD, target_T, logsumexp_T)
        ctx.inverse_temperature = inverse_temperature
        ctx.chunk = chunk
        if entropy_T is not None:
            ctx.mark_non_differentiable(entropy_T)
        return target_logit_T - logsumexp_T, entropy_T

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        hidden_TD, head_VD, target_T, logsumexp_T = ctx.saved_tensors
        grad_T = _wide(grad_outputs[0]) * ctx.inverse_temperature
        wide_TD = _wide(hidden_TD)
        needs_hidden, needs_head = ctx.needs_input_grad[:2]
        grad_hidden_TD = torch.zeros_like(wide_TD) if needs_hidden else None
        grad_head_VD = torch.empty_like(head_VD) if needs_head else None
        with products_of(hidden_TD.dtype):
            for start in range(0, len(head_VD), ctx.chunk):
                head_CD = _wide(head_VD[start : start + ctx.chunk])
                logit_TC = (wide_TD @ head_CD.T).mul_(ctx.inverse_temperature)
                grad_TC = logit_TC.sub_(logsumexp_T[:, None]).exp_().mul_(-grad_T[:, None])
                inside_T, column_T = _columns(target_T, start, len(head_CD))
                grad_TC.scatter_add_(1, column_T[:, None], (grad_T * inside_T)[:, None])
                if grad_hidden_TD is not None:
                    grad_hidden_TD += grad_TC @ head_CD
                if grad_head_VD is not None:
                    torch.mm(
                        grad_TC.to(hidden_TD.dtype).T,
                        hidden_TD,
                        out=grad_head_VD[start : start + ctx.chunk],
                    )
        if grad_hidden_TD is not None:
            grad_hidden_TD = grad_hidden_TD.to(hidden_TD.dtype)
        return grad_hidden_TD, grad_head_VD, None, None, None, None


def _columns(target_T: Tensor, start: int, width: int) -> tuple[Tensor, Tensor]:
    """Which targets lie in this chunk, and their column in it (column 0 for the others)."""
    inside_T = (target_T >= start) & (target_T < start + width)
    return inside_T, torch.where(inside_T, target_T - start, 0)
