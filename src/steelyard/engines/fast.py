"""The fast back end: the Llama forward pass with a cache that rows, turns and groups share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from steelyard.engines.arena import Arena
from steelyard.engines.backend import Row, common_prefix
from steelyard.engines.batch import Place, Prefix, build
from steelyard.engines.llama import Llama

_WORTH_SHARING = 16
"""Fewer common tokens than this are simply computed again."""


class FastBackend:
    """Places rows in memory, shares what their prompts have in common, runs the forward pass.

    A row's prompt (all but its last token) becomes a Prefix: computed once for all rows that have
    it, and attended to once per group while decoding. Everything after it lies in the row's own
    slot. New tokens of a row that returns from its tool ride in the same pass as the others'
    decoding step. `retained_prefixes` are kept though no row uses them any more: the next group's
    prompt begins like the last one's. `model` is a Hugging Face model, or a Llama that several
    back ends share.
    """

    name = "llama"
    checks_guesses = True

    def __init__(
        self, model: Any, *, prefill_tokens: int, idle_cache_bytes: int, retained_prefixes: int
    ) -> None:
        self._model = model if isinstance(model, Llama) else Llama(model)
        shape = self._model.shape
        size = (shape.layers, shape.kv_heads, shape.head_dim, self._model.dtype)
        self._own: Arena[Place] = Arena(*size, self._model.device)
        self._prefixes: Arena[Prefix] = Arena(*size, self._model.device)
        self._places: dict[Row, Place] = {}
        self._by_tokens: dict[tuple[int, ...], Prefix] = {}
        self._prefill_tokens = prefill_tokens
        self._idle_cache_bytes = idle_cache_bytes
        self._retained_prefixes = retained_prefixes
        self._clock = 0

    def next_logits(self, rows: Sequence[Row]) -> tuple[Tensor, list[Row]]:
        self._clock += 1
        self._settle(rows)
        row_of = {self._places[row]: row for row in rows}
        places = list(row_of)
        guessed = [p for p in places if p.guesses]
        fresh = [p for p in places if p.pending > 1 and not p.guesses]
        if fresh and len(fresh) * max(p.pending for p in fresh) > self._prefill_tokens:
            self._catch_up(fresh, leave=1)
            fresh = []
        ready = [p for p in places if p.pending == 1]
        self._own.bring_forward(ready, guessed, fresh)
        self._prefixes.bring_forward(
            list(dict.fromkeys(p.prefix for p in [*ready, *guessed] if p.prefix is not None))
        )
        order = self._own.tenants[: len(places)]
        takes: list[tuple[int, list[int]]] = []
        first = 0
        for members in (ready, guessed, fresh):
            if members:
                end = first + len(members)
                takes.append((first, [p.pending for p in order[first:end]]))
                first = end
        logits = self._run(takes, logits=True)
        assert logits is not None
        in_order = [row_of[p] for p in order]
        for row in in_order:
            row.cached = len(row.tokens)
        return logits, in_order

    def forget(self, row: Row) -> None:
        place = self._places.pop(row, None)
        row.cached = 0
        if place is not None:
            self._own.remove(place)
            self._leave(place.prefix)

    def reset(self) -> None:
        for row in self._places:
            row.cached = 0
        self._places.clear()
        self._by_tokens.clear()
        self._own.clear()
        self._prefixes.clear()

    def load(self, weights: Mapping[str, Tensor]) -> None:
        self._model.load(weights)

    def weights(self) -> Mapping[str, Tensor]:
        return dict(self._model.named())

    def _settle(self, rows: Sequence[Row]) -> None:
        """Gives every row a place that holds what is still true of its cache."""
        homeless: list[Row] = []
        for row in rows:
            place = self._places.get(row)
            if place is not None and row.cached >= place.shared:
                place.token_ids = row.tokens
                place.length = row.cached - place.shared
                place.guesses = row.guesses
                place.last_used = self._clock
                continue
            if place is not None:
                self.forget(row)
            homeless.append(row)
        if not homeless:
            return
        self._evict_idle(rows, len(homeless))
        prompts = {row: tuple(row.tokens[: row.prompt_tokens - 1]) for row in homeless}
        self._compute_prefixes([p for p in dict.fromkeys(prompts.values()) if p])
        for row in homeless:
            prefix = self._by_tokens.get(prompts[row])
            place = Place(row.tokens, prefix, len(prompts[row]), last_used=self._clock)
            place.guesses = row.guesses
            if prefix is not None:
                prefix.places += 1
                prefix.last_used = self._clock
            self._own.add(place)
            self._places[row] = place
            row.cached = place.shared
        self._drop_prefixes()

    def _compute_prefixes(self, prompts: list[tuple[int, ...]]) -> None:
        """Computes the prompts that are not in memory, each from its best beginning that is."""
        missing = [p for p in prompts if p not in self._by_tokens]
        while missing:
            donors = [self._donor(p) for p in missing]
            first = missing[0]
            # If others begin like the first, it is run alone, and then they begin with it.
            helps = any(
                common_prefix(first, p) >= shared + _WORTH_SHARING
                for p, (_, shared) in zip(missing[1:], donors[1:], strict=True)
            )
            count = 1 if helps else len(missing)
            self._compute_from(missing[:count], donors[:count])
            missing = missing[count:]

    def _donor(self, prompt: tuple[int, ...]) -> tuple[Prefix | None, int]:
        """The prefix in memory that begins most like `prompt`, and for how many tokens."""
        best: Prefix | None = None
        most = _WORTH_SHARING - 1
        for tokens, prefix in self._by_tokens.items():
            shared = common_prefix(tokens, prompt)
            if shared > most:
                best, most = prefix, shared
        return best, most if best is not None else 0

    def _compute_from(
        self, prompts: Sequence[tuple[int, ...]], donors: Sequence[tuple[Prefix | None, int]]
    ) -> None:
        places = [
            Place(list(prompt), donor, shared)
            for prompt, (donor, shared) in zip(prompts, donors, strict=True)
        ]
        for place in places:
            self._own.add(place)
        self._catch_up(places, leave=0)
        for prompt, place in zip(prompts, places, strict=True):
            prefix = Prefix(prompt, length=len(prompt), last_used=self._clock)
            self._prefixes.add(prefix)
            target = self._prefixes.kv[:, prefix.slot]
            if place.prefix is not None:
                donor = self._prefixes.kv[:, place.prefix.slot]
                target[:, :, : place.shared] = donor[:, :, : place.shared]
            own = self._own.kv[:, place.slot]
            target[:, :, place.shared : prefix.length] = own[:, :, : place.length]
            self._by_tokens[prompt] = prefix
            self._own.remove(place)

    def _catch_up(self, places: Sequence[Place], *, leave: int) -> None:
        """Runs all but `leave` pending tokens of each place, in passes of bounded size."""
        self._own.bring_forward(places)
        for first, counts in self._passes(len(places), leave):
            self._run([(first, counts)], logits=False)

    def _passes(self, n: int, leave: int) -> Iterator[tuple[int, list[int]]]:
        """Splits the leading `n` places into runs, and each run into widths, within the bound."""
        first = 0
        while first < n:
            end, width = first, 0
            while end < n:
                wider = max(width, self._own.tenants[end].pending - leave)
                if end > first and (end + 1 - first) * wider > self._prefill_tokens:
                    break
                end, width = end + 1, wider
            run = self._own.tenants[first:end]
            for _ in range(0, width, self._prefill_tokens):
                yield first, [min(p.pending - leave, self._prefill_tokens) for p in run]
            first = end

    def _run(self, takes: Sequence[tuple[int, list[int]]], *, logits: bool) -> Tensor | None:
        shape = self._model.shape
        batch = build(self._own, takes, shape.heads // shape.kv_heads)
        result = self._model.forward(batch, self._own, self._prefixes, logits=logits)
        for first, counts in takes:
            for place, count in zip(self._own.tenants[first:], counts, strict=False):
                place.length += count
        return result

    def _evict_idle(self, rows: Sequence[Row], newcomers: int) -> None:
        """Keeps idle rows within their share of memory, the longest idle going first."""
        slot_bytes = max(self._own.tokens, 1) * self._own.token_bytes()
        room = self._idle_cache_bytes // slot_bytes
        active = set(rows)
        idle = [row for row in self._places if row not in active]
        idle.sort(key=lambda row: self._places[row].last_used)
        for row in idle[: max(0, len(idle) - room)]:
            self.forget(row)

    def _leave(self, prefix: Prefix | None) -> None:
        if prefix is not None:
            prefix.places -= 1
            self._drop_prefixes()

    def _drop_prefixes(self) -> None:
        unused = [p for p in self._by_tokens.values() if not p.places]
        unused.sort(key=lambda p: p.last_used)
        for prefix in unused[: max(0, len(unused) - self._retained_prefixes)]:
            del self._by_tokens[prefix.token_ids]
            self._prefixes.remove(prefix)
