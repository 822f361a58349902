"""Guesses of what a sequence says next, for the engine to check several tokens in one pass.

An agent's tokens are mostly known beforehand: the form of a call, a line that it quotes, what the
other episodes of its group said. A forward pass over few tokens costs nearly as much as one over a
few dozen, since it reads all weights, so checking guesses is nearly free where few rows are left.

What is sampled does not change, but for the rounding of a pass of another shape. Each position is
drawn from its own distribution, with the random number that it would have had; a guess only
decides whether the pass had already computed what follows. Source: speculative decoding, Leviathan
et al. 2023 (arXiv:2211.17192), of which this is the case of a deterministic draft; drafts by
lookup, Saxena 2023 (prompt lookup decoding).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

_CONTEXTS = (12, 6, 3)
"""Tokens that must have come before, the most telling number first."""

_FREE_TOKENS = 40
"""Tokens whose work takes as long as reading the weights once: 28 ms against .65 ms each for
SmolLM2-135M on two cores. It decides only how much is guessed."""

_MOST_ENTRIES = 200_000
"""For each length of context; some 20 MB. What a run says lately fills a small part of it."""

_MEMORY = 2000
"""Guesses after which what is known of a context's worth counts half."""


@dataclass(slots=True)
class Draft:
    """Guessed tokens; for each the context (an index into `_CONTEXTS`) that told it, and the
    probability that all guesses up to it hold."""

    tokens: list[int] = field(default_factory=list)
    contexts: list[int] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)


class Drafter:
    """Remembers what came last after each few tokens, over all sequences, and guesses it again.

    `longest` bounds a draft; with 0 there are none. A draft ends with a turn, at one of `stop_ids`.
    Each length of context earns its trust by how often its guesses hold.
    """

    def __init__(self, longest: int, stop_ids: Collection[int] = ()) -> None:
        self._longest = longest
        self._stop_ids = frozenset(stop_ids)
        # By the hash of the context: another with the same one costs a wrong guess.
        self._next: list[dict[int, int]] = [{} for _ in _CONTEXTS]
        self._tried = [2.0] * len(_CONTEXTS)
        self._held = [1.0] * len(_CONTEXTS)

    def read(self, tokens: Sequence[int], start: int) -> None:
        """Learns `tokens[start:]`: each follows those before it."""
        if not self._longest:
            return
        for following, n in zip(self._next, _CONTEXTS, strict=True):
            if len(following) > _MOST_ENTRIES:
                following.clear()
            for i in range(max(start, n), len(tokens)):
                following[hash(tuple(tokens[i - n : i]))] = tokens[i]

    def guess(self, sequences: Sequence[tuple[Sequence[int], int]]) -> tuple[list[Draft], int]:
        """What may follow each of the sequences (tokens, room) of one pass, and how many guesses
        of each to check.

        A pass computes (1 + k) tokens of every row that checks guesses, so k is the same for all:
        the number at which a pass is expected to yield most for its time.
        """
        drafts = [self._draft(tokens, min(room, self._longest)) for tokens, room in sequences]
        guessing = [draft for draft in drafts if draft.tokens]
        best, most = 0, len(drafts) / (_FREE_TOKENS + len(drafts))
        expected = float(len(drafts))
        for k in range(1, max((len(draft.tokens) for draft in guessing), default=0) + 1):
            expected += sum(draft.chances[k - 1] for draft in guessing if len(draft.tokens) >= k)
            rate = expected / (_FREE_TOKENS + len(drafts) + k * len(guessing))
            if rate > most:
                best, most = k, rate
        return drafts, best

    def learn(self, draft: Draft, drawn: Sequence[int]) -> None:
        """Compares the draft, its unchecked guesses too, with what was drawn instead."""
        for guess, context, token in zip(draft.tokens, draft.contexts, drawn, strict=False):
            if self._tried[context] > _MEMORY:
                self._tried[context] /= 2
                self._held[context] /= 2
            self._tried[context] += 1
            self._held[context] += guess == token
            if guess != token:
                break

    def _draft(self, tokens: Sequence[int], longest: int) -> Draft:
        draft, chance = Draft(), 1.0
        recent = list(tokens[-_CONTEXTS[0] :])
        while len(draft.tokens) < longest:
            found = self._look_up(recent)
            if found is None:
                break
            token, context = found
            chance *= self._held[context] / self._tried[context]
            draft.tokens.append(token)
            draft.contexts.append(context)
            draft.chances.append(chance)
            if token in self._stop_ids:
                break
            recent.append(token)
        return draft

    def _look_up(self, recent: Sequence[int]) -> tuple[int, int] | None:
        for context, n in enumerate(_CONTEXTS):
            if len(recent) >= n:
                token = self._next[context].get(hash(tuple(recent[-n:])))
                if token is not None:
                    return token, context
        return None
