"""Guesses of the next tokens: what they say, how many, and what they learn."""

from __future__ import annotations

import random

from steelyard.engines.drafting import Drafter

LINE = list(range(100, 130))


def trusting(longest: int = 8) -> Drafter:
    """A drafter whose guesses have held so far."""
    drafter = Drafter(longest)
    drafter.read(LINE, 0)
    for _ in range(50):
        draft = drafter.guess([(LINE[:13], 8)])[0]
        drafter.learn(draft, len(draft.tokens))
    return drafter


def test_what_was_read_is_guessed_again() -> None:
    drafter = trusting()
    assert drafter.guess([(LINE[:13], 8)])[0].tokens == LINE[13:21]
    assert drafter.guess([(LINE[:13], 3)])[0].tokens == LINE[13:16]
    after_less = drafter.guess([([1, 2, *LINE[10:13]], 8)])[0].tokens
    assert after_less == LINE[13 : 13 + len(after_less)] != []
    assert drafter.guess([([1, 2, 3], 8)])[0].tokens == []
    assert drafter.guess([(LINE[-5:], 8)])[0].tokens == []
    assert drafter.guess([]) == []


def test_the_longest_context_and_the_latest_reading_decide() -> None:
    drafter = Drafter(1)
    first, second = [*range(20, 30), 1, 2, 3, 7], [*range(40, 50), 1, 2, 3, 8]
    drafter.read(first, 0)
    drafter.read(second, 0)
    assert drafter.guess([(first[:-1], 1)])[0].tokens == [7]
    assert drafter.guess([([99, 1, 2, 3], 1)])[0].tokens == [8]


def test_only_what_is_new_is_read() -> None:
    drafter = trusting()
    again = [*LINE[:13], 5, 6]
    drafter.read(again, 14)  # the 5 was read by another
    assert drafter.guess([(LINE[:13], 1)])[0].tokens == LINE[13:14]


def test_guesses_that_fail_are_given_up_where_they_cost_something() -> None:
    drafter = trusting()
    many = [(LINE[:13], 8)] * 200
    assert all(draft.tokens for draft in drafter.guess(many))
    for _ in range(2000):
        drafter.learn(drafter.guess([(LINE[:13], 8)])[0], 0)
    assert not any(draft.tokens for draft in drafter.guess(many))
    for _ in range(2000):  # and they come back when they hold again
        drafter.learn(drafter.guess([(LINE[:13], 8)])[0], 8)
    assert all(draft.tokens for draft in drafter.guess(many))


def test_the_rows_of_a_pass_get_drafts_of_one_length() -> None:
    drafter = trusting()
    drafts = drafter.guess([(LINE[:13], 8), (LINE[:13], 1), ([1, 2, 3], 8)])
    lengths = [len(draft.tokens) for draft in drafts]
    assert lengths[0] >= lengths[1] == 1
    assert lengths[2] == 0


def test_more_rows_get_shorter_drafts() -> None:
    drafter = Drafter(8)
    drafter.read(LINE, 0)
    rng = random.Random(0)
    for _ in range(300):
        draft = drafter.guess([(LINE[:13], 8)])[0]
        held = next((i for i in range(len(draft.tokens)) if rng.random() > 0.8), 8)
        drafter.learn(draft, min(held, len(draft.tokens)))
    lengths = [len(drafter.guess([(LINE[:13], 8)] * n)[0].tokens) for n in (1, 10, 100, 2000)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_none_are_made_where_none_are_wanted() -> None:
    assert trusting(0).guess([(LINE[:13], 8)])[0].tokens == []
