from hypothesis import given
from hypothesis import strategies as st

from steelyard.conductor.admission import capacity


def test_the_published_vector():
    """η = 4, i = 10, B = 512: 7680 slots; 7000 used leave 680."""
    slots = capacity(staleness=4, version=10, groups_per_step=512, accepted=0, running=0)
    free = capacity(staleness=4, version=10, groups_per_step=512, accepted=6000, running=1000)
    assert (slots, free) == (7680, 680)


@given(st.integers(0, 5), st.integers(1, 9), st.integers(1, 12))
def test_no_admitted_group_can_lag_behind_the_bound(staleness, groups_per_step, steps):
    """Admit greedily, train as soon as a batch is there: no group is staler than η."""
    accepted = 0
    waiting: list[int] = []
    for version in range(steps):
        while (
            capacity(
                staleness=staleness,
                version=version,
                groups_per_step=groups_per_step,
                accepted=accepted,
                running=0,
            )
            > 0
        ):
            waiting.append(version)
            accepted += 1
        batch, waiting = waiting[:groups_per_step], waiting[groups_per_step:]
        assert all(version - sampled <= staleness for sampled in batch)
