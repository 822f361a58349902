"""Float32 where bfloat16 would blur: results of products, and the reference of a check.

Where the hardware multiplies in bfloat16, torch's CPU matmul of two bfloat16 matrices rounds its
*result* to bfloat16, which costs a logit of 20 an error of up to 0.06. Widened to float32 first,
and with oneDNN told that it may multiply float32 operands as bfloat16, the same products are
accumulated and returned in float32. Operands that came from bfloat16 lose nothing by that.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

_lock = threading.Lock()
_holders = 0
_precision_before = "none"


@contextmanager
def bfloat16_products() -> Iterator[None]:
    """Within it, float32 matmuls on the CPU may round their operands (not results) to bfloat16.

    The switch is one per process, so it is counted: the last to leave restores it. Use it only
    around matmuls whose operands are bfloat16 values already, or may be rounded to it.
    """
    global _holders, _precision_before
    switch = getattr(torch.backends.mkldnn, "matmul", None)
    if switch is None or not hasattr(switch, "fp32_precision"):
        yield  # older torch: correct, only slower
        return
    with _lock:
        if _holders == 0:
            _precision_before = switch.fp32_precision
            switch.fp32_precision = "bf16"
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            if _holders == 0:
                switch.fp32_precision = _precision_before


def products_of(dtype: torch.dtype) -> AbstractContextManager[None]:
    """Where float32 copies of `dtype` operands are multiplied: as bfloat16 if that is exact."""
    return bfloat16_products() if dtype == torch.bfloat16 else nullcontext()


@contextmanager
def in_float32(model: Any) -> Iterator[None]:
    """Widens the weights, and narrows them back, for checks of other code against `model`.

    In bfloat16 the model's own rounding is as large as what such a check looks for: on random
    tokens it moves a gradient as much as a wrong mask does, and a log-prob by .08 nats.
    """
    narrow = [
        (p, p.dtype) for p in model.parameters() if p.dtype in (torch.bfloat16, torch.float16)
    ]
    with torch.inference_mode(False):  # what is made in that mode can never be trained
        for parameter, _ in narrow:
            parameter.data = parameter.data.float()
    try:
        yield
    finally:
        with torch.inference_mode(False):
            for parameter, dtype in narrow:
                parameter.data = parameter.data.to(dtype)
