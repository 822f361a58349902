"""A digest of weights that is cheap, exact and the same on every device."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import torch
from torch import Tensor


def fingerprint(weights: Mapping[str, Tensor]) -> str:
    """BLAKE2 over (name, shape, Σ bits, Σ_r (r + 1)·Σ bits of row r) of every tensor.

    The sums run over the raw bit patterns as integers, so neither the order of summation nor the
    device changes them; the weighted sum notices exchanged rows. 16 hexadecimal digits.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name in sorted(weights):
        tensor = weights[name].detach()
        digest.update(f"{name}:{tuple(tensor.shape)}:{tensor.dtype}".encode())
        flat = tensor.contiguous().reshape(len(tensor) if tensor.dim() > 1 else 1, -1)
        bits = flat.view(torch.int16)
        rows = bits.sum(-1, dtype=torch.int64)
        place = torch.arange(1, len(rows) + 1, device=rows.device)
        digest.update(f":{int(rows.sum())}:{int((rows * place).sum())};".encode())
    return digest.hexdigest()
