import pytest
import torch
from heart_batches import EPISODES, SEEDS, brief, close, floats, noise, quick, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import Runs, Tokens
from steelyard.objective.ragged import dense

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=6)


def runs_of(lengths: list[int]) -> Runs:
    return Runs.of(torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)))


def test_runs_are_maximal_and_owners_need_no_order():
    runs = Runs.of(torch.tensor([7, 7, 3, 9, 9, 9]))
    assert runs.run_X.tolist() == [0, 0, 1, 2, 2, 2]
    assert runs.start_R.tolist() == [0, 2, 3]
    assert runs.length_R.tolist() == [2, 1, 3]
    assert runs.last_R.tolist() == [1, 2, 5]
    assert runs.ordinal_X().tolist() == [1, 2, 1, 1, 2, 3]
    assert runs.spread(torch.tensor([5, 6, 8])).tolist() == [5, 5, 6, 8, 8, 8]


def test_an_empty_batch_has_no_runs():
    runs = Runs.of(torch.zeros(0, dtype=torch.long))
    nothing = torch.zeros(0)
    assert len(runs) == 0
    assert len(runs.sum(nothing)) == len(runs.sum_to_go(nothing, 0.5)) == 0
    assert len(runs.next(nothing, nothing)) == 0


def plain_sum_to_go(lengths, value_X, factor):
    expected, end = [0.0] * sum(lengths), 0
    for length in lengths:
        end += length
        carried = 0.0
        for i in reversed(range(end - length, end)):
            carried = value_X[i].item() + factor * carried
            expected[i] = carried
    return floats(expected)


@quick
@given(LENGTHS, SEEDS, st.sampled_from([0.0, 0.5, 0.95, 1.0, 1.1, -0.5]))
def test_sum_to_go_is_the_plain_loop(lengths, seed, factor):
    value_X = noise(seed, sum(lengths))
    found = runs_of(lengths).sum_to_go(value_X, factor)
    close(found, plain_sum_to_go(lengths, value_X, factor), 1e-12)


@brief
@given(
    st.lists(st.integers(1, 1500), min_size=1, max_size=4),
    SEEDS,
    st.sampled_from([0.0, 0.5, 0.95, 0.999, 1.0]),
)
def test_sum_to_go_is_the_plain_loop_over_blocks_of_blocks(lengths, seed, factor):
    value_X = noise(seed, sum(lengths))
    found = runs_of(lengths).sum_to_go(value_X, factor)
    close(found, plain_sum_to_go(lengths, value_X, factor), 1e-10)


@pytest.mark.parametrize("factor", [0.5, 0.95, 1.0])
def test_a_small_run_before_a_large_batch_keeps_its_sum_to_go(factor):
    value_X = torch.cat([torch.full((4,), 1e-4), torch.full((300_000,), -11.0)])
    found = runs_of([4, 300_000]).sum_to_go(value_X, factor)
    expected = sum(1e-4 * factor**k for k in range(4))
    assert found[0].item() == pytest.approx(expected, rel=1e-5)
    assert found[-2].item() == pytest.approx(-11.0 * (1 + factor))


@quick
@given(LENGTHS, SEEDS)
def test_sums_and_neighbours_are_the_plain_loop(lengths, seed):
    runs, value_X, after_R = runs_of(lengths), noise(seed, sum(lengths)), noise(1, len(lengths))
    parts = value_X.split(lengths)
    close(runs.sum(value_X), torch.stack([p.sum() for p in parts]), 1e-12)
    close(runs.running_sum(value_X), torch.cat([p.cumsum(0) for p in parts]), 1e-12)
    shifted = [torch.cat([p[1:], after_R[i : i + 1]]) for i, p in enumerate(parts)]
    close(runs.next(value_X, after_R), torch.cat(shifted), 0.0)


def test_a_small_run_behind_a_large_batch_keeps_its_sum():
    """A float32 running sum over the batch would be off by more than the value itself."""
    value_X = torch.cat([torch.full((300_000,), -11.0), torch.full((4,), 1e-4)])
    owner_X = torch.cat([torch.zeros(300_000), torch.ones(4)]).long()
    runs = Runs.of(owner_X)
    assert runs.sum(value_X)[1].item() == pytest.approx(4e-4, rel=1e-4)
    assert runs.running_sum(value_X)[-2].item() == pytest.approx(3e-4, rel=1e-4)
    as_float32 = value_X.cumsum(0, dtype=torch.float32)
    assert (as_float32[-1] - as_float32[-5]).item() != pytest.approx(4e-4, rel=0.1)


def test_booleans_are_counted():
    runs = runs_of([2, 3])
    assert runs.sum(torch.tensor([True, False, True, True, False])).tolist() == [1, 2]


def test_dense_numbers_labels_in_their_order():
    index_X, n = dense(torch.tensor([40, 7, 40, 12]))
    assert (index_X.tolist(), n) == ([2, 0, 2, 1], 3)


@quick
@given(EPISODES, SEEDS)
def test_take_keeps_every_owner(episodes, seed):
    tokens = tokens_of(episodes)
    index_T = (noise(seed, len(tokens)) > 0).nonzero()[:, 0]
    part = tokens.take(index_T)
    for field in ("turn_T", "segment_T", "episode_T", "group_T"):
        assert getattr(part, field).tolist() == [
            getattr(tokens, field)[i].item() for i in index_T.tolist()
        ]


def test_owners_of_another_length_are_a_bug_of_the_caller():
    four, three = torch.zeros(4).long(), torch.zeros(3).long()
    with pytest.raises(AssertionError):
        Tokens(four, four, four, three)
