"""Returns and advantages over time. "mission" and "algorithms" name the pages of the vectors."""

import math

import pytest
import torch
from heart_batches import SEEDS, close, floats, noise, quick
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import (
    Runs,
    bilevel_gae,
    continuation_values,
    explained_variance,
    gae,
    process_values,
    reward_to_go,
    td_error,
    whiten,
)

LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=5)
VALUES = floats([0.3, 0.6, 0.4])


def runs_of(lengths: list[int]) -> Runs:
    return Runs.of(torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)))


def plain_gae(reward, value, gamma, lam, after):
    """One episode, backwards, one step at a time."""
    out, advantage = [0.0] * len(reward), 0.0
    for k in reversed(range(len(reward))):
        following = value[k + 1] if k + 1 < len(value) else after
        advantage = reward[k] + gamma * following - value[k] + gamma * lam * advantage
        out[k] = advantage
    return out


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_F1_reward_to_go_is_the_outcome_at_every_step(outcome):
    close(reward_to_go(floats([0, 0, 0, outcome]), runs_of([4])), floats([outcome] * 4), 0.0)


def test_reward_to_go_discounts_and_stays_within_the_episode():
    close(reward_to_go(floats([1, 2, 4, 8]), runs_of([3, 1]), 0.5), floats([3, 4, 4, 8]))


def test_F5_td_errors():
    zero = floats([0])
    delta = td_error(floats([0, 0, 0]), VALUES, runs_of([3]), gamma=1.0, after_E=zero)
    close(delta, floats([0.3, -0.2, -0.4]))


@pytest.mark.parametrize(
    ("lam", "advantages", "targets"),
    [
        (0.0, [0.3, -0.2, -0.4], [0.6, 0.4, 0.0]),
        (0.5, [0.1, -0.4, -0.4], [0.4, 0.2, 0.0]),
        (1.0, [-0.3, -0.6, -0.4], [0.0, 0.0, 0.0]),
    ],
)
def test_F5_gae_and_its_targets(lam, advantages, targets):
    result = gae(floats([0, 0, 0]), VALUES, runs_of([3]), lam=lam)
    close(result.advantage_X, floats(advantages))
    close(result.target_X, floats(targets))


def test_algorithms_8_a_reward_moved_to_the_preceding_action():
    result = gae(floats([0, 1, 0]), VALUES, runs_of([3]), lam=0.5)
    close(result.advantage_X, floats([0.6, 0.6, -0.4]))


def test_algorithms_2_a_terminal_reward_after_100_tokens():
    reward_T = floats([0] * 100 + [1])
    result = gae(reward_T, torch.zeros_like(reward_T), runs_of([101]), lam=0.95)
    assert result.advantage_X[0].item() == pytest.approx(0.95**100, rel=1e-9)
    assert round(0.95**100, 4) == 0.0059


@quick
@given(LENGTHS, SEEDS, st.sampled_from([0.5, 1.0]), st.sampled_from([0.0, 0.7, 1.0]))
def test_gae_is_the_plain_loop(lengths, seed, gamma, lam):
    n = sum(lengths)
    reward_X, value_X, after_E = noise(seed, n), noise(seed + 1, n), noise(seed + 2, len(lengths))
    result = gae(reward_X, value_X, runs_of(lengths), gamma=gamma, lam=lam, after_E=after_E)
    expected = [
        a
        for r, v, after in zip(
            reward_X.split(lengths), value_X.split(lengths), after_E.tolist(), strict=True
        )
        for a in plain_gae(r.tolist(), v.tolist(), gamma, lam, after)
    ]
    close(result.advantage_X, floats(expected), 1e-10)
    close(result.target_X, result.advantage_X + value_X, 0.0)


@quick
@given(st.lists(st.lists(st.booleans(), min_size=1, max_size=8), min_size=1, max_size=4), SEEDS)
def test_gae_over_tokens_equals_the_padded_form_that_carries_across_observations(masks, seed):
    """[E, L] with observations and padding: V and A pass unchanged where the mask is 0."""
    masks = [[True, *mask] for mask in masks]
    width = max(len(mask) for mask in masks)
    reward, value = noise(seed, len(masks) * width), noise(seed + 1, len(masks) * width)
    reward, value = reward.reshape(-1, width), value.reshape(-1, width)
    expected, action_r, action_v = [], [], []
    for e, mask in enumerate(masks):
        row, following, carried = [], 0.0, 0.0
        for t in reversed(range(len(mask))):
            if mask[t]:
                delta = reward[e, t] + following - value[e, t]
                following, carried = value[e, t], delta + 0.9 * carried
                row.append(carried)
        expected += row[::-1]
        action_r += [reward[e, t] for t in range(len(mask)) if mask[t]]
        action_v += [value[e, t] for t in range(len(mask)) if mask[t]]
    runs = runs_of([sum(mask) for mask in masks])
    result = gae(torch.stack(action_r), torch.stack(action_v), runs, lam=0.9)
    close(result.advantage_X, torch.stack(expected), 1e-10)


def test_truncation_is_bootstrapped_and_termination_is_not():
    """Two equal episodes without reward; the second ran out of tokens at value .5."""
    value_X, after_E = floats([0.2, 0.5, 0.2, 0.5]), floats([0.0, 0.5])
    result = gae(torch.zeros_like(value_X), value_X, runs_of([2, 2]), lam=1.0, after_E=after_E)
    close(result.target_X, floats([0.0, 0.0, 0.5, 0.5]))


def test_algorithms_8_bilevel():
    value_T = floats([i / 10 for i in range(1, 11)])
    turns, episodes = runs_of([5, 5]), runs_of([2])
    result = bilevel_gae(floats([1, 1]), value_T, turns, episodes)
    expected = [1.85, 1.75, 1.65, 1.55, 1.45, 0.4, 0.3, 0.2, 0.1, 0.0]
    close(result.advantage_X, floats(expected))


def test_a_turn_without_reward_stays_a_turn():
    """With turn γ .5: the first turn's return is .5 · V_2 + .5 · A_2 = .5, not the second's 1."""
    turns, episodes = runs_of([2, 1]), runs_of([2])
    value_T = floats([0.0, 0.2, 0.4])
    result = bilevel_gae(floats([0, 1]), value_T, turns, episodes, turn_gamma=0.5)
    close(result.target_X, floats([0.5, 0.5, 1.0]))


def test_whitening():
    white = whiten(floats([1, 2, 3, 10]))
    assert white.mean().item() == pytest.approx(0.0, abs=1e-12)
    assert white.std().item() == pytest.approx(1.0, abs=1e-6)
    assert whiten(floats([3])).tolist() == [0.0]
    assert len(whiten(floats([]))) == 0


def test_F6_three_of_ten_continuations():
    reward_C = floats([1, 1, 1, *[0] * 7, 1])
    value_S, state_S = continuation_values(reward_C, torch.tensor([4] * 10 + [9]))
    close(value_S, floats([0.3, 1.0]))
    assert state_S.tolist() == [4, 9]


def test_an_unscored_continuation_is_refused():
    with pytest.raises(ValueError, match="continuation's reward is not finite"):
        continuation_values(floats([1, math.nan]), torch.tensor([0, 0]))


def test_the_vine_advantage_is_the_td_error_of_continuation_values():
    value_S, _ = continuation_values(floats([1, 0, 1, 1]), torch.tensor([0, 0, 1, 1]))
    delta = td_error(floats([0, 1]), value_S, runs_of([2]), gamma=1.0, after_E=floats([0]))
    close(delta, floats([0.5, 0.0]))


def test_algorithms_2_process_scores_multiply_within_the_episode():
    value_K = process_values(floats([0.9, 0.8, 0.95, 0.5]), runs_of([3, 1]))
    close(value_K, floats([0.9, 0.72, 0.684, 0.5]))


@pytest.mark.parametrize("score", [0.0, 1.1, math.nan])
def test_a_process_score_that_is_no_probability_is_refused(score):
    with pytest.raises(ValueError, match=r"must lie in \(0, 1\]"):
        process_values(floats([0.5, score]), runs_of([2]))


def test_explained_variance():
    target = floats([0, 1, 2, 5])
    assert explained_variance(target, target) == 1.0
    assert explained_variance(torch.full_like(target, 3.0), target) == pytest.approx(0.0)
    assert explained_variance(-target, target) == pytest.approx(-3.0)
    assert explained_variance(target, torch.ones_like(target)) is None
    assert explained_variance(floats([]), floats([])) is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_results_have_the_type_of_their_input(dtype):
    value_X, runs = VALUES.to(dtype), runs_of([3])
    results = [
        reward_to_go(value_X, runs),
        td_error(value_X, value_X, runs, gamma=1.0, after_E=torch.zeros(1, dtype=dtype)),
        *gae(value_X, value_X, runs),
        *bilevel_gae(value_X, value_X, runs_of([1, 1, 1]), runs),
        process_values(value_X, runs),
        continuation_values(value_X, torch.arange(3))[0],
    ]
    assert {r.dtype for r in results} == {dtype}
