"""The back end for any other Hugging Face causal LM: correct first, fast where that is safe.

What a model tolerates is found out at start by trying: whether left padding leaves its logits
alone, and whether its cache can be cut down to fewer rows. Where padding does not, rows of equal
length run together; where the cache does not, every step runs the whole sequences.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from steelyard.engines.backend import Row


@dataclass(slots=True)
class _Cached:
    """A Hugging Face cache and the rows, in its order, whose tokens it holds."""

    cache: Any
    rows: list[Row]
    attention: Tensor


class GenericBackend:
    """Runs the Hugging Face model itself.

    The cache is used while the rows of a step are among those of the step before, each with one
    new token: rows may leave. A row that joins costs one pass over all histories.
    """

    name = "generic"
    checks_guesses = False

    def __init__(self, model: Any) -> None:
        self._model = model
        parameters = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in parameters
        self._takes_logits_to_keep = "logits_to_keep" in parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"
        self._cached: _Cached | None = None
        self.pads = True
        self.caches = True
        self._find_out()

    def next_logits(self, rows: Sequence[Row]) -> tuple[Tensor, list[Row]]:
        found = self._continue(rows) or self._recompute(rows)
        for row in found[1]:
            row.cached = len(row.tokens)
        return found

    def forget(self, row: Row) -> None:
        row.cached = 0
        if self._cached is not None and row in self._cached.rows:
            self._cached.rows = [r if r is not row else Row() for r in self._cached.rows]

    def reset(self) -> None:
        if self._cached is not None:
            for row in self._cached.rows:
                row.cached = 0
        self._cached = None

    def load(self, weights: Mapping[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self.weights().items():
                tensor.copy_(weights[name])

    def weights(self) -> Mapping[str, Tensor]:
        seen: set[int] = set()
        unique: dict[str, Tensor] = {}
        for name, tensor in self._model.state_dict().items():
            if tensor.is_floating_point() and tensor.data_ptr() not in seen:
                seen.add(tensor.data_ptr())
                unique[name] = tensor
        return unique

    def _continue(self, rows: Sequence[Row]) -> tuple[Tensor, list[Row]] | None:
        """One step on the cache of the last one, or None if the cache does not fit `rows`."""
        cached = self._cached
        if cached is None or any(r.cached != len(r.tokens) - 1 for r in rows):
            return None
        index = {row: i for i, row in enumerate(cached.rows)}
        if any(row not in index for row in rows):
            return None
        kept = sorted(index[row] for row in rows)
        if len(kept) < len(cached.rows):
            chosen = torch.tensor(kept, device=cached.attention.device)
            cached.cache.batch_select_indices(chosen)
            cached.rows = [cached.rows[i] for i in kept]
            cached.attention = cached.attention[chosen]
        ones = cached.attention.new_ones(len(kept), 1)
        cached.attention = torch.cat((cached.attention, ones), -1)
        tokens = torch.tensor([[row.tokens[-1]] for row in cached.rows], device=ones.device)
        positions = cached.attention.sum(-1, keepdim=True) - 1
        logits, cached.cache = self._forward(tokens, cached.attention, positions, cached.cache)
        return logits, list(cached.rows)

    def _recompute(self, rows: Sequence[Row]) -> tuple[Tensor, list[Row]]:
        """Everything from the histories; starts a new cache if all rows fit into one pass."""
        self._cached = None
        groups: dict[int, list[Row]] = {}
        for row in rows:
            groups.setdefault(0 if self.pads else len(row.tokens), []).append(row)
        parts = [self._whole(group, keep=len(groups) == 1) for group in groups.values()]
        return torch.cat(parts), [row for group in groups.values() for row in group]

    def _whole(self, rows: list[Row], *, keep: bool) -> Tensor:
        longest = max(len(row.tokens) for row in rows)
        padding = [longest - len(row.tokens) for row in rows]
        tokens = torch.tensor(
            [[0] * p + row.tokens for p, row in zip(padding, rows, strict=True)],
            device=self._model.device,
        )
        columns = torch.arange(longest, device=tokens.device)
        attention = (columns >= torch.tensor(padding, device=tokens.device)[:, None]).long()
        positions = (attention.cumsum(-1) - 1).clamp(min=0)
        logits, cache = self._forward(tokens, attention, positions, None)
        if keep and self.caches and cache is not None:
            self._cached = _Cached(cache, list(rows), attention)
        return logits

    def _forward(
        self, tokens: Tensor, attention: Tensor, positions: Tensor, cache: Any
    ) -> tuple[Tensor, Any]:
        """Float32 logits after the last column, and the cache."""
        extra: dict[str, Any] = {"use_cache": self.caches}
        if self._takes_positions:
            extra["position_ids"] = positions
        if self._takes_logits_to_keep:
            extra["logits_to_keep"] = 1
        if cache is not None:
            extra[self._cache_name] = cache
        if self.pads:
            extra["attention_mask"] = attention
        output = self._model(input_ids=tokens, **extra)
        # A copy: the sampler overwrites its logits, which may be the model's own buffer.
        return output.logits[:, -1].float().clone(), getattr(output, "past_key_values", None)

    @torch.inference_mode()
    def _find_out(self) -> None:
        """Compares a padded pass and a shrinking cache with the plain pass, row by row."""
        size = int(self._model.get_input_embeddings().num_embeddings)
        ids = [(7 * i + 3) % size for i in range(12)]
        rows = [Row(ids[:4]), Row(ids), Row(ids[3:10])]
        alone = [self._alone(row.tokens) for row in rows]
        tolerance = 1e-3 if self._model.dtype == torch.float32 else 0.25
        self.pads = self._agrees(rows, alone, tolerance)
        if not (self.pads and self._cached is not None):
            self.caches = False
        else:
            rows = rows[:2]
            for row, token in zip(rows, ids[-2:], strict=True):
                row.tokens.append(token)
            alone = [self._alone(row.tokens) for row in rows]
            self.caches = self._agrees(rows, alone, tolerance)
        self._cached = None

    def _agrees(self, rows: list[Row], expected: list[Tensor], tolerance: float) -> bool:
        try:
            logits, order = self.next_logits(rows)
        except (TypeError, ValueError, RuntimeError, AttributeError, NotImplementedError):
            return False
        place = {row: i for i, row in enumerate(order)}
        return all(
            _log_prob_gap(logits[place[row]], want) <= tolerance
            for row, want in zip(rows, expected, strict=True)
        )

    def _alone(self, tokens: list[int]) -> Tensor:
        batch = torch.tensor([tokens], device=self._model.device)
        logits: Tensor = self._model(input_ids=batch, use_cache=False).logits[0, -1]
        return logits.float()


def _log_prob_gap(a: Tensor, b: Tensor) -> float:
    """max_v |log p_a(v) − log p_b(v)|."""
    return float((a.log_softmax(-1) - b.log_softmax(-1)).abs().max())
