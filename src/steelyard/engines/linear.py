"""Linear layers in the memory layout that the CPU's matrix unit reads fastest."""

from __future__ import annotations

import threading

import torch
from torch import Tensor
from torch.nn import functional

_TYPICAL_ROWS = 64
_HEAD_PART = 8192


def can_pack(device: torch.device) -> bool:
    """Whether oneDNN's prepacked linear is in this build of torch.

    The operator is the one torch's own compiler emits. It is not documented, so it is used only
    where it exists, and the engine compares its results with Hugging Face's at start.
    """
    return (
        device.type == "cpu"
        and torch._C._has_mkldnn
        and hasattr(torch.ops.mkldnn, "_linear_pointwise")
        and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    )


class Linear:
    """y = x Wᵀ + b, for W [out, in]; holds its own copy of W.

    Packed, oneDNN runs bfloat16 on AMX about a third faster than `F.linear` at 16 to 128 rows
    (SmolLM2-135M shapes, two cores).
    """

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self.bias = bias
        self.packed = can_pack(weight.device)
        self._weight = (
            torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), _TYPICAL_ROWS)
            if self.packed
            else weight.contiguous()
        )

    @property
    def weight(self) -> Tensor:
        """W as a plain tensor."""
        return self._weight.to_dense() if self.packed else self._weight

    def __call__(self, x: Tensor) -> Tensor:
        if self.packed:
            y: Tensor = torch.ops.mkldnn._linear_pointwise(
                x, self._weight, self.bias, "none", [], ""
            )
            return y
        return functional.linear(x, self._weight, self.bias)

    def rest(self, x: Tensor, y: Tensor) -> Tensor:
        """x Wᵀ − y, subtracted before rounding: what the rounding of y = x Wᵀ lost. No bias."""
        assert self.bias is None
        if self.packed:
            z: Tensor = torch.ops.mkldnn._linear_pointwise.binary(x, y, self._weight, None, "sub")
            return z
        return torch.addmm(y, x, self._weight.t(), beta=-1.0)


class Head:
    """The output head: float32 logits [n, vocabulary] from hidden states [n, hidden].

    A bfloat16 product y₀ is rounded to 8 bits: logits near 16 are off by up to 0.06, which is more
    than engine and learner may disagree by. So the remainder x Wᵀ − y₀ is computed too, inside the
    product's float32 accumulator, and added: y = y₀ + (x Wᵀ − y₀), good to 16 bits. The vocabulary
    is cut into parts that stay in the CPU's cache between the two products. The result lies in a
    buffer of the calling thread, which its next call overwrites.
    """

    def __init__(self, weight: Tensor) -> None:
        self._parts = [Linear(part, None) for part in torch.split(weight, _HEAD_PART)]
        self._empty = torch.empty(0, len(weight), dtype=torch.float32, device=weight.device)
        self._buffers = threading.local()

    @property
    def weight(self) -> Tensor:
        """W [vocabulary, hidden] as a plain tensor."""
        return torch.cat([part.weight for part in self._parts])

    def __call__(self, x: Tensor) -> Tensor:
        buffer: Tensor = getattr(self._buffers, "last", self._empty)
        if len(buffer) < len(x):
            buffer = self._buffers.last = self._empty.new_empty(len(x), self._empty.shape[1])
        logits = buffer[: len(x)]
        for part, out in zip(self._parts, torch.split(logits, _HEAD_PART, dim=1), strict=True):
            y = part(x)
            out.copy_(y)
            if y.dtype != torch.float32:
                out.add_(part.rest(x, y))
        return logits
