"""Hypothesis strategies for whole episodes: every field that the store must give back."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from steelyard.episodes import (
    Cause,
    Check,
    Episode,
    Outcome,
    Scored,
    Segment,
    StopReason,
    ToolCall,
    Trajectory,
    Turn,
    Unscored,
)

TEXT = st.text(max_size=12)  # hypothesis leaves lone surrogates out; NUL is in
INT32 = st.integers(-(2**31), 2**31 - 1)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
REWARD = st.floats(allow_nan=False, allow_infinity=False)
CHECKS = st.lists(st.builds(Check, TEXT, st.booleans(), TEXT), max_size=3).map(tuple)
UNSCORED = st.builds(Unscored, st.sampled_from(Cause), TEXT)
PLAIN: st.SearchStrategy[Outcome] = st.builds(Scored, REWARD, CHECKS) | UNSCORED
COMPONENTS = st.dictionaries(TEXT, REWARD, max_size=2)
OUTCOME: st.SearchStrategy[Outcome] = (
    st.builds(Scored, REWARD, CHECKS, REWARD, COMPONENTS) | UNSCORED
)
CALL = st.builds(ToolCall, TEXT, st.dictionaries(TEXT, JSON, max_size=2), TEXT, st.booleans())
SPAN = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40))
TURN = st.builds(Turn, st.integers(0, 9), SPAN, SPAN, TEXT, st.lists(CALL, max_size=2).map(tuple))


@st.composite
def segments(draw: st.DrawFn) -> Segment:
    n = draw(st.integers(0, 5))

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=n, max_size=n))

    return Segment(
        token_ids=column(INT32),
        action_mask=column(st.booleans()),
        behaviour_logp=column(st.floats(width=32, allow_nan=False)),
        version=column(INT32),
        parent=draw(st.none() | st.integers(0, 9)),
        fork_position=draw(st.none() | st.integers(0, 99)),
    )


def episodes(identifier: str = "e0") -> st.SearchStrategy[Episode]:
    return st.builds(
        Episode,
        id=st.just(identifier),
        task=TEXT,
        group=TEXT,
        trajectory=st.builds(
            Trajectory, st.lists(segments(), max_size=2), st.lists(TURN, max_size=2)
        ),
        outcome=OUTCOME,
        stop_reason=st.sampled_from(StopReason),
        heldout=st.none() | PLAIN,
        files=st.dictionaries(TEXT, st.binary(max_size=20), max_size=2),
        seconds=st.dictionaries(TEXT, st.floats(0, 1e6), max_size=2),
        kind=TEXT,
        potentials=st.lists(st.floats(0, 2), max_size=3).map(tuple),
    )
