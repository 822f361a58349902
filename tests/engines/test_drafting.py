"""Guesses of the next tokens: what they say, how many, and what they learn."""

from __future__ import annotations

import random

from steelyard.engines.drafting import Draft, Drafter

LINE = list(range(100, 130))


def trusting(longest: int = 8) -> Drafter:
    """A drafter whose guesses have held so far."""
    drafter = Drafter(longest)
    drafter.read(LINE, 0)
    for _ in range(50):
        drafter.learn(guesses(drafter, LINE[:13]), LINE[13:])
    return drafter


def guesses(drafter: Drafter, tokens: list[int], room: int = 8) -> Draft:
    return drafter.guess([(tokens, room)])[0][0]


def checked(drafter: Drafter, n_rows: int) -> int:
    """How many guesses a pass of so many equal rows checks of each."""
    return drafter.guess([(LINE[:13], 8)] * n_rows)[1]


def test_what_was_read_is_guessed_again() -> None:
    drafter = trusting()
    assert guesses(drafter, LINE[:13]).tokens == LINE[13:21]
    assert guesses(drafter, LINE[:13], 3).tokens == LINE[13:16]
    assert guesses(drafter, [1, 2, *LINE[10:13]]).tokens == LINE[13:21]
    assert guesses(drafter, [1, 2, 3]).tokens == []
    assert guesses(drafter, LINE[-5:]).tokens == []
    assert drafter.guess([]) == ([], 0)


def test_a_draft_ends_with_the_turn() -> None:
    drafter = Drafter(8, stop_ids={LINE[15]})
    drafter.read(LINE, 0)
    assert guesses(drafter, LINE[:13]).tokens == LINE[13:16]


def test_the_longest_context_and_the_latest_reading_decide() -> None:
    drafter = Drafter(1)
    first, second = [*range(20, 30), 1, 2, 3, 7], [*range(40, 50), 1, 2, 3, 8]
    drafter.read(first, 0)
    drafter.read(second, 0)
    assert guesses(drafter, first[:-1]).tokens == [7]
    assert guesses(drafter, [99, 1, 2, 3]).tokens == [8]


def test_only_what_is_new_is_read() -> None:
    drafter = trusting()
    again = [*LINE[:13], 5, 6]
    drafter.read(again, 14)  # the 5 was read by another
    assert guesses(drafter, LINE[:13]).tokens[0] == LINE[13]


def test_guesses_that_fail_are_not_checked_until_they_hold_again() -> None:
    """Also where none is checked any more: what is drawn instead tells, and costs nothing."""
    drafter = trusting()
    assert checked(drafter, 200) > 0
    for _ in range(2000):
        drafter.learn(guesses(drafter, LINE[:13]), [0])
    assert checked(drafter, 200) == 0
    for _ in range(4000):
        drafter.learn(guesses(drafter, LINE[:13]), [LINE[13]])
    assert checked(drafter, 200) > 0


def test_what_was_not_drawn_is_not_held_against_a_guess() -> None:
    drafter = Drafter(8)
    drafter.read(LINE, 0)
    for _ in range(100):
        drafter.learn(guesses(drafter, LINE[:13]), [LINE[13]])  # the turn ended there
    assert guesses(drafter, LINE[:13]).chances[0] > 0.95


def test_more_rows_check_fewer_guesses() -> None:
    drafter = Drafter(8)
    drafter.read(LINE, 0)
    rng = random.Random(0)
    for _ in range(300):
        right = next((i for i in range(8) if rng.random() > 0.8), 8)
        drafter.learn(guesses(drafter, LINE[:13]), [*LINE[13 : 13 + right], 0])
    lengths = [checked(drafter, n) for n in (1, 10, 100, 2000)]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > lengths[-1]


def test_none_are_made_where_none_are_wanted() -> None:
    assert guesses(trusting(0), LINE[:13]).tokens == []
