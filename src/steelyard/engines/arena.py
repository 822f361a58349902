"""Key and value memory: one tensor for all layers, cut into slots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import torch
from torch import Tensor

_TOKEN_STEP = 64


class Tenant(Protocol):
    """What lives in a slot: `length` tokens of it are valid."""

    slot: int
    length: int


T = TypeVar("T", bound=Tenant)


class Arena(Generic[T]):
    """Slots of keys and values, [layers, slots, 2·kv_heads, tokens, head_dim].

    Tenants occupy the slots 0 to n − 1 without a hole, so that any leading part of them is a view.
    A head's tokens lie together, since attention reads them head by head.
    One tensor for all layers makes moving a tenant a single copy. Memory grows as needed and is
    zeroed: a masked key counts 0 · value, which must not be NaN.
    """

    def __init__(
        self, layers: int, kv_heads: int, head_dim: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.tenants: list[T] = []
        self._shape = (layers, 2 * kv_heads, head_dim)
        self._dtype, self._device = dtype, device
        self.clear()

    def clear(self) -> None:
        """Forgets all tenants and gives the memory back."""
        layers, heads, head_dim = self._shape
        self.tenants = []
        self.kv: Tensor = torch.zeros(
            (layers, 0, heads, 0, head_dim), dtype=self._dtype, device=self._device
        )

    @property
    def tokens(self) -> int:
        """Tokens that a slot can hold."""
        return self.kv.shape[3]

    def token_bytes(self) -> int:
        """Memory of one token in all layers."""
        layers, heads, head_dim = self._shape
        return layers * heads * head_dim * self.kv.element_size()

    def reserve(self, slots: int, tokens: int) -> None:
        """Makes room for `slots` slots of `tokens` tokens."""
        layers, old_slots, heads, old_tokens, head_dim = self.kv.shape
        if slots <= old_slots and tokens <= old_tokens:
            return
        if slots > old_slots:
            slots = max(slots, old_slots + old_slots // 2)
        slots = max(slots, old_slots)
        tokens = max(-(-tokens // _TOKEN_STEP) * _TOKEN_STEP, old_tokens)
        grown = torch.zeros(
            (layers, slots, heads, tokens, head_dim), dtype=self._dtype, device=self._device
        )
        used = len(self.tenants)
        if used and old_tokens:
            used = min(used, old_slots)
            grown[:, :used, :, :old_tokens] = self.kv[:, :used]
        self.kv = grown

    def add(self, tenant: T) -> None:
        """Gives `tenant` the next slot."""
        tenant.slot = len(self.tenants)
        self.reserve(tenant.slot + 1, max(tenant.length, 1))
        self.tenants.append(tenant)

    def remove(self, tenant: T) -> None:
        """Frees `tenant`'s slot; the last tenant moves into the hole."""
        last = self.tenants.pop()
        if last is tenant:
            return
        hole = tenant.slot
        self.kv[:, hole, :, : last.length] = self.kv[:, last.slot, :, : last.length]
        last.slot = hole
        self.tenants[hole] = last

    def bring_forward(self, *classes: Sequence[T]) -> None:
        """Orders the slots so that the first class lies first, the next behind it, and so on.

        Moves as few tenants as possible; inside a class the order is whatever it was.
        """
        start = 0
        for members in classes:
            end = start + len(members)
            there = {member.slot for member in members}
            strangers = [slot for slot in range(start, end) if slot not in there]
            outside = [m for m in members if not start <= m.slot < end]
            for slot, member in zip(strangers, outside, strict=True):
                self._swap(slot, member.slot)
            start = end

    def _swap(self, a: int, b: int) -> None:
        first, second = self.tenants[a], self.tenants[b]
        kept = self.kv[:, a, :, : first.length].clone()
        self.kv[:, a, :, : second.length] = self.kv[:, b, :, : second.length]
        self.kv[:, b, :, : first.length] = kept
        first.slot, second.slot = b, a
        self.tenants[a], self.tenants[b] = second, first
