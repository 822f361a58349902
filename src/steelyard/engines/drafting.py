"""Guesses of what a sequence says next, for the engine to check several tokens in one pass.

An agent's tokens are mostly known beforehand: the form of a call, a line that it quotes, what the
other episodes of its group said. A forward pass over few tokens costs nearly as much as one over a
few dozen, since it reads all weights, so checking guesses is nearly free where few rows are left.

Nothing changes in what is sampled. Each position is drawn from its own distribution, with the
random number that it would have had; a guess only decides whether the pass had already computed
what follows. Source: speculative decoding, Leviathan et al. 2023 (arXiv:2211.17192), of which this
is the case of a deterministic draft; drafts by lookup, Saxena 2023 (prompt lookup decoding).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

_CONTEXTS = (12, 6, 3)
"""Tokens that must have come before, the most telling number first."""

_FREE_TOKENS = 40
"""Tokens whose work takes as long as reading the weights once: 28 ms against .65 ms each for
SmolLM2-135M on two cores. It decides only how much is guessed."""

_MOST_ENTRIES = 200_000
_MEMORY = 2000
"""Guesses after which what is known of a context's worth counts half."""


@dataclass(slots=True)
class Draft:
    """Guessed tokens; for each the context (an index into `_CONTEXTS`) that told it, and the
    probability that all guesses up to it hold."""

    tokens: list[int] = field(default_factory=list)
    contexts: list[int] = field(default_factory=list)
    chances: list[float] = field(default_factory=list)

    def cut(self, length: int) -> None:
        for column in (self.tokens, self.contexts, self.chances):
            del column[length:]


class Drafter:
    """Remembers what came last after each few tokens, over all sequences, and guesses it again.

    `longest` bounds a draft; with 0 there are none. Each length of context earns its trust by how
    often its guesses hold.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
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

    def guess(self, sequences: Sequence[tuple[Sequence[int], int]]) -> list[Draft]:
        """What may follow each of the sequences (tokens, room) of one pass.

        A pass computes (1 + k) tokens of every row that checks guesses, so all drafts get the
        length k at which a pass is expected to yield most for its time.
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
        for draft in drafts:
            draft.cut(best)
        return drafts

    def learn(self, draft: Draft, held: int) -> None:
        """The first `held` guesses of `draft` were right; the next one, if any, was not."""
        for i, context in enumerate(draft.contexts[: held + 1]):
            if self._tried[context] > _MEMORY:
                self._tried[context] /= 2
                self._held[context] /= 2
            self._tried[context] += 1
            self._held[context] += i < held

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
            recent.append(token)
        return draft

    def _look_up(self, recent: Sequence[int]) -> tuple[int, int] | None:
        for context, n in enumerate(_CONTEXTS):
            if len(recent) >= n:
                token = self._next[context].get(hash(tuple(recent[-n:])))
                if token is not None:
                    return token, context
        return None
