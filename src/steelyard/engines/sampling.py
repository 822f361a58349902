"""Drawing tokens from logits, with the log-prob of exactly the distribution drawn from."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

_BLOCK = 64


class UniformStream:
    """Uniform numbers in [0, 1) that depend on `seed` and on their index alone.

    Philox is counter based: what other sessions draw, and when, changes nothing.
    """

    def __init__(self, seed: int) -> None:
        self._generator = np.random.Generator(np.random.Philox(seed=seed))
        self._ahead: list[float] = []

    def upcoming(self, n: int) -> list[float]:
        """The next `n` numbers; they stay the next ones until they are used."""
        while len(self._ahead) < n:
            self._ahead.append(self._generator.random())
        return self._ahead[:n]

    def use(self, n: int) -> None:
        """Moves on by `n` numbers that `upcoming` has shown."""
        del self._ahead[:n]


def draw(logits: Tensor, uniforms: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """token_r = min{v : Σ_{w≤v} p_w > u_r},  p = softmax(logits / temperature);  log p(token_r).

    Inverse-CDF sampling in two levels (blocks of 64 tokens, then inside one block), which spares
    the cumulative sum over a whole vocabulary. Temperature 0 takes the most probable token, whose
    log-prob under that one-point distribution is 0.

    Args:
        logits: float32 [rows, vocabulary]; overwritten.
        uniforms: float64 [rows], in [0, 1).

    Returns:
        Token ids, int64 [rows], and their log-probs in nats, float64 [rows].

    Raises:
        FloatingPointError: the logits of a row are not finite, or all −∞.
    """
    if temperature == 0.0:
        return logits.argmax(-1), torch.zeros(len(logits), dtype=torch.float64)
    if temperature != 1.0:
        logits.div_(temperature)
    mass = logits.sub_(logits.amax(-1, keepdim=True)).exp_()
    if padding := -mass.shape[1] % _BLOCK:
        mass = functional.pad(mass, (0, padding))
    blocks = mass.view(len(mass), -1, _BLOCK)
    block_mass = blocks.sum(-1).double()
    upto = block_mass.cumsum(-1)
    total = upto[:, -1]
    if not bool(torch.isfinite(total).all()):
        raise FloatingPointError(
            "the model's logits are not finite: its weights have probably diverged"
        )
    target = uniforms.to(total) * total
    row = torch.arange(len(mass), device=mass.device)
    block = _first_above(upto, target)
    inside = blocks[row, block].double().cumsum(-1)
    # The fraction of the block's mass that lies below the target; below 1, so that the two
    # roundings of the block's mass can never push the choice past its last possible token.
    fraction = (target - upto[row, block]) / block_mass[row, block] + 1.0
    fraction = fraction.clamp(0.0, 1.0 - 1e-12)
    token = block * _BLOCK + _first_above(inside, fraction * inside[:, -1])
    return token, mass[row, token].double().log() - total.log()


def _first_above(cumulative: Tensor, target: Tensor) -> Tensor:
    """Per row, the first index whose cumulative value exceeds the target."""
    found = torch.searchsorted(cumulative, target.unsqueeze(-1), right=True).squeeze(-1)
    return found.clamp_(max=cumulative.shape[-1] - 1)
