"""Credit. "mission" and "algorithms" name the pages that the vectors come from."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from heart_batches import (
    EPISODES,
    SEEDS,
    close,
    floats,
    n_turns,
    noise,
    one_episode,
    quick,
    rewards_of,
    tokens_of,
)
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import (
    GAE,
    Filter,
    GroupComparison,
    Imitation,
    Rewards,
    RewardToGo,
    Runs,
    TeacherLogRatio,
    credit,
    group_advantage,
    process_advantage,
)

CENTRED = GroupComparison()
OTHERS = GroupComparison(baseline="leave_one_out")
POPULATION = GroupComparison(scale="std", ddof=0, epsilon=0.0)
SAMPLE = GroupComparison(scale="std", ddof=1, epsilon=0.0)
SUCCESSES = GroupComparison(scale="mean")
RULES = [CENTRED, OTHERS, GroupComparison(scale="std"), GroupComparison(scale="std", ddof=0)]
by_rule = pytest.mark.parametrize("rule", RULES, ids=["centred", "others", "sample", "population"])


def compared(rewards, rule):
    advantage_A, kept_A = group_advantage(
        floats(rewards), torch.zeros(len(rewards), dtype=torch.long), rule
    )
    assert kept_A.tolist() == list(range(len(rewards)))
    return advantage_A


def plain_comparison(return_E, group_E, rule):
    """One group, one episode at a time; None where there is nothing to compare with."""
    out = []
    for i, (own, group) in enumerate(zip(return_E, group_E, strict=True)):
        members = [r for r, g in zip(return_E, group_E, strict=True) if g == group]
        others = [r for j, r in enumerate(return_E) if group_E[j] == group and j != i]
        if not others:
            out.append(None)
            continue
        mean = sum(members) / len(members)
        centre = sum(others) / len(others) if rule.baseline == "leave_one_out" else mean
        advantage = own - centre
        if rule.scale == "std":
            square = sum((r - mean) ** 2 for r in members) / (len(members) - rule.ddof)
            advantage /= math.sqrt(square) + rule.epsilon
        if rule.scale == "mean" and advantage:
            advantage /= mean
        out.append(advantage)
    return out


ONE_OF_FOUR, PARTIAL, ONE_OF_EIGHT = [1, 0, 0, 0], [0, 0.25, 0.5, 0.25], [1, *[0] * 7]


@pytest.mark.parametrize(
    ("rewards", "rule", "expected"),
    [
        (ONE_OF_FOUR, CENTRED, [0.75, -0.25, -0.25, -0.25]),
        (ONE_OF_FOUR, POPULATION, [math.sqrt(3), *[-1 / math.sqrt(3)] * 3]),
        (ONE_OF_FOUR, SAMPLE, [1.5, -0.5, -0.5, -0.5]),
        (ONE_OF_FOUR, OTHERS, [1, *[-1 / 3] * 3]),
        (PARTIAL, CENTRED, [-0.25, 0, 0.25, 0]),
        (PARTIAL, POPULATION, [-math.sqrt(2), 0, math.sqrt(2), 0]),
        (PARTIAL, SAMPLE, [-math.sqrt(1.5), 0, math.sqrt(1.5), 0]),
        (PARTIAL, OTHERS, [-1 / 3, 0, 1 / 3, 0]),
        (ONE_OF_FOUR, SUCCESSES, [3, -1, -1, -1]),
        (PARTIAL, SUCCESSES, [-1, 0, 1, 0]),
        (ONE_OF_EIGHT, SUCCESSES, [7, *[-1] * 7]),
        (ONE_OF_EIGHT, CENTRED, [0.875, *[-0.125] * 7]),
        (ONE_OF_EIGHT, POPULATION, [math.sqrt(7), *[-1 / math.sqrt(7)] * 7]),
        (ONE_OF_EIGHT, SAMPLE, [0.875 * math.sqrt(8), *[-0.125 * math.sqrt(8)] * 7]),
        (ONE_OF_EIGHT, OTHERS, [1, *[-1 / 7] * 7]),
    ],
)
def test_F2_R10_and_algorithms_1_group_vectors(rewards, rule, expected):
    close(compared(rewards, rule), floats(expected))


@quick
@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-4, 4)), min_size=1, max_size=9),
    st.sampled_from(RULES),
)
def test_group_comparison_is_the_plain_loop(members, rule):
    """Groups in any order; 1/3 makes sums round."""
    group_E, return_E = [g for g, _ in members], [r / 3 for _, r in members]
    advantage_A, kept_A = group_advantage(floats(return_E), torch.tensor(group_E), rule)
    expected = plain_comparison(return_E, group_E, rule)
    assert kept_A.tolist() == [i for i, a in enumerate(expected) if a is not None]
    close(advantage_A, floats([a for a in expected if a is not None]), 1e-9)


@quick
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4)), min_size=1, max_size=9))
def test_dividing_by_the_mean_is_the_plain_loop(members):
    group_E, return_E = [g for g, _ in members], [float(r) for _, r in members]
    advantage_A, kept_A = group_advantage(floats(return_E), torch.tensor(group_E), SUCCESSES)
    expected = plain_comparison(return_E, group_E, SUCCESSES)
    assert kept_A.tolist() == [i for i, a in enumerate(expected) if a is not None]
    close(advantage_A, floats([a for a in expected if a is not None]), 1e-9)


@pytest.mark.parametrize("size", [2, 3, 8])
@pytest.mark.parametrize("p", [0.05, 0.3, 0.9])
def test_dividing_by_the_mean_climbs_pass_at_k_weighted_by_1_over_k(size, p):
    """Every outcome of a group of a one-logit policy; ∇pass@k = k (1−p)^(k−1) ∇p.

    The order k = G is missing, since an all-fail group is left alone.
    """
    expected = sum((1 - p) ** (k - 1) for k in range(1, size)) * p * (1 - p)
    mean = 0.0
    for rewards in itertools.product([0.0, 1.0], repeat=size):
        chance = math.prod(p if r else 1 - p for r in rewards)
        advantage_E = compared(list(rewards), SUCCESSES)
        score_E = floats(rewards) - p  # ∂ log π / ∂ logit
        mean += chance * float((advantage_E * score_E).mean())
    assert mean == pytest.approx(expected, rel=1e-6)


def test_a_negative_reward_has_no_mean_to_divide_by():
    with pytest.raises(ValueError, match=r"rewards ≥ 0, a share of success, got -0\.5; choose"):
        compared([1.0, -0.5], SUCCESSES)


@by_rule
@given(value=st.floats(-1e3, 1e3), size=st.integers(2, 9))
@quick
def test_an_all_equal_group_carries_exactly_nothing(rule, value, size):
    assert compared([value] * size, rule).tolist() == [0.0] * size


@pytest.mark.parametrize("rule", [POPULATION, SAMPLE])
def test_an_all_equal_group_carries_exactly_nothing_without_epsilon(rule):
    assert compared([0.5] * 4, rule).tolist() == [0.0] * 4


@by_rule
def test_a_reward_that_is_not_finite_is_refused(rule):
    with pytest.raises(ValueError, match="a reward is not finite"):
        compared([1.0, math.nan], rule)


def test_a_deviation_around_another_centre_is_refused():
    with pytest.raises(ValueError, match="another centre"):
        GroupComparison(baseline="leave_one_out", scale="std")


@pytest.mark.parametrize("field", ["gamma", "lam"])
def test_gae_refuses_a_discount_outside_0_to_1(field):
    with pytest.raises(ValueError, match=rf"{field} must lie in \[0, 1\], got 1.5"):
        GAE(**{field: 1.5})


def test_process_supervision_sums_the_normalised_rewards_of_later_steps():
    """Steps (1, 0) and (0, 1) of one group: normalised by ±.5, then summed to go."""
    turns = Runs.of(torch.tensor([0, 0, 1, 1, 2]))
    advantage_A, kept_A = process_advantage(
        floats([1, 0, 0, 1, 7]), turns, torch.tensor([0, 0, 1]), POPULATION
    )
    close(advantage_A, floats([0, -1, 0, 1]))
    assert kept_A.tolist() == [0, 1, 2, 3]


# credit(): from turns to tokens.


@quick
@given(EPISODES, SEEDS, st.sampled_from(RULES))
def test_an_episode_in_several_turns_and_segments_counts_once(episodes, seed, rule):
    """Its return is the sum of its turns' rewards, and every token of it has the same credit."""
    reward_K = noise(seed, n_turns(episodes))
    tokens = tokens_of(episodes)
    result = credit(rule, tokens, rewards_of(episodes, reward_K))
    per_turn = iter(reward_K.tolist())
    return_E = [sum(next(per_turn) for _ in turns) for _, turns in episodes]
    advantage_E = plain_comparison(return_E, [g for g, _ in episodes], rule)
    expected = [(t, advantage_E[e]) for t, e in enumerate(tokens.episode_T.tolist())]
    kept = [(t, a) for t, a in expected if a is not None]
    assert result.index_A.tolist() == [t for t, _ in kept]
    close(result.advantage_A, floats([a for _, a in kept]), 1e-8)
    assert result.target_A is None


@quick
@given(EPISODES, SEEDS, st.sampled_from(RULES))
def test_turns_are_compared_with_the_same_turn_of_their_group(episodes, seed, rule):
    rule = replace(rule, level="turn")
    reward_K = noise(seed, n_turns(episodes))
    tokens = tokens_of(episodes)
    result = credit(rule, tokens, rewards_of(episodes, reward_K))
    to_go, peers, k = [], [], 0
    for group, turns in episodes:
        for number in range(len(turns)):
            to_go.append(float(reward_K[k + number : k + len(turns)].sum()))
            peers.append((group, number))
        k += len(turns)
    advantage_K = plain_comparison(to_go, peers, rule)
    kept = [t for t, k in enumerate(tokens.turn_T.tolist()) if advantage_K[k] is not None]
    assert result.index_A.tolist() == kept
    expected = [advantage_K[tokens.turn_T[t]] for t in kept]
    # Two rewards to go that differ by rounding alone would be divided by their deviation.
    close(result.advantage_A, floats(expected), 1e-7)


def test_a_group_of_one_is_absent_and_an_all_equal_group_is_not():
    episodes = [(5, [2]), (6, [1]), (6, [1, 1])]
    result = credit(
        GroupComparison(scale="std"),
        tokens_of(episodes),
        rewards_of(episodes, floats([9, 1, 0, 1])),
    )
    assert result.index_A.tolist() == [2, 3, 4]
    assert result.advantage_A.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    "rule",
    [*RULES, replace(CENTRED, level="turn"), RewardToGo(0.9), Filter(0.0), Imitation()],
    ids=repr,
)
def test_the_order_of_episodes_does_not_matter(rule):
    episodes = [(0, [2, 1]), (1, [1]), (0, [1, 3, 1]), (1, [2, 2]), (2, [1])]
    rewards = [[0, 1], [0.5], [1, 0, -2], [0.25, 1], [3]]

    def by_episode(order):
        shuffled = [episodes[i] for i in order]
        reward_K = floats([r for i in order for r in rewards[i]])
        tokens = tokens_of(shuffled)
        found = credit(rule, tokens, rewards_of(shuffled, reward_K))
        advantages = {i: [] for i in order}
        for t, a in zip(found.index_A.tolist(), found.advantage_A.tolist(), strict=True):
            advantages[order[tokens.episode_T[t]]].append(a)
        return [advantages[i] for i in range(len(episodes))]

    first = by_episode([0, 1, 2, 3, 4])
    for order in itertools.islice(itertools.permutations(range(5)), 7, 120, 13):
        for before, after in zip(first, by_episode(list(order)), strict=True):
            assert after == pytest.approx(before, abs=1e-12)


def test_imitation_weighs_every_token_1():
    episodes = [(0, [2]), (1, [3])]
    result = credit(Imitation(), tokens_of(episodes), rewards_of(episodes, floats([0, 0])))
    assert result.advantage_A.tolist() == [1.0] * 5
    assert result.index_A.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("threshold", "kept"), [(0.0, [2, 3, 4, 5]), (0.5, [4, 5])])
def test_F1_rest_keeps_the_episodes_above_its_threshold(threshold, kept):
    """Returns 0, .5 (in two turns) and 1."""
    episodes = [(0, [2]), (0, [1, 1]), (0, [2])]
    rewards = rewards_of(episodes, floats([0, 0.25, 0.25, 1]))
    result = credit(Filter(threshold), tokens_of(episodes), rewards)
    assert result.index_A.tolist() == kept
    assert result.advantage_A.tolist() == [1.0] * len(kept)


def test_F1_reward_to_go_over_turns():
    episodes = [(0, [1, 2]), (0, [2])]
    rewards = rewards_of(episodes, floats([1, 4, 8]))
    result = credit(RewardToGo(gamma=0.5), tokens_of(episodes), rewards)
    close(result.advantage_A, floats([3, 4, 4, 8, 8]))
    value_T = floats([1, 1, 2, 3, 4])
    learned = credit(RewardToGo(0.5, "learned"), tokens_of(episodes), rewards, value_T=value_T)
    close(learned.advantage_A, floats([2, 3, 2, 5, 4]))
    close(learned.target_A, floats([3, 4, 4, 8, 8]))


def test_F5_gae_over_turns_reads_the_value_at_a_turns_first_token():
    episodes = [(0, [2, 1, 2])]
    value_T = floats([0.3, 99, 0.6, 0.4, 99])
    rewards = rewards_of(episodes, floats([0, 0, 0]))
    result = credit(GAE(1.0, 0.5, "turn"), tokens_of(episodes), rewards, value_T=value_T)
    close(result.advantage_A, floats([0.1, 0.1, -0.4, -0.4, -0.4]))
    close(result.target_A, floats([0.4, 0.4, 0.2, 0.0, 0.0]))


def test_F5_gae_over_tokens_pays_a_turn_at_its_last_token():
    episodes = [(0, [2, 1])]
    value_T = floats([0.3, 0.6, 0.4])
    rewards = rewards_of(episodes, floats([1, 0]))
    result = credit(GAE(1.0, 0.5), tokens_of(episodes), rewards, value_T=value_T)
    close(result.advantage_A, floats([0.6, 0.6, -0.4]))


@pytest.mark.parametrize("level", ["token", "turn"])
def test_whitening_leaves_the_targets_as_they_are(level):
    episodes = [(0, [2, 1]), (0, [1])]
    rewards = rewards_of(episodes, floats([0, 1, 0]))
    value_T = floats([0.3, 0.6, 0.4, 0.1])
    raw, white = (
        credit(GAE(level=level, whiten=w), tokens_of(episodes), rewards, value_T=value_T)
        for w in (False, True)
    )
    close(white.target_A, raw.target_A, 0.0)
    assert (white.advantage_A - raw.advantage_A).abs().max() > 0.1


@pytest.mark.parametrize("level", ["token", "turn"])
def test_a_truncated_episode_is_bootstrapped(level):
    episodes = [(0, [1]), (0, [1])]
    result = credit(
        GAE(lam=1.0, level=level),
        tokens_of(episodes),
        rewards_of(episodes, floats([0, 0])),
        value_T=floats([0.2, 0.2]),
        after_E=floats([0.0, 0.5]),
    )
    close(result.target_A, floats([0.0, 0.5]))


def test_rewards_of_single_tokens_are_added_to_those_of_their_turn():
    """A KL penalty of .1, .2 and .4 per token, with an outcome of 1 after the second turn."""
    episodes = [(0, [2, 1]), (0, [1])]
    tokens, rewards = tokens_of(episodes), rewards_of(episodes, floats([0, 1, 0]))
    reward_T = floats([-0.1, -0.2, -0.4, 0])
    turn = credit(RewardToGo(), tokens, rewards, reward_T=reward_T)
    close(turn.advantage_A, floats([0.3, 0.3, 0.6, 0]))
    group = credit(CENTRED, tokens, rewards, reward_T=reward_T)
    close(group.advantage_A, floats([0.15, 0.15, 0.15, -0.15]))
    token = credit(
        GAE(lam=1.0), tokens, rewards, reward_T=reward_T, value_T=torch.zeros(4).double()
    )
    close(token.advantage_A, floats([0.3, 0.4, 0.6, 0]))


def test_T5_and_algorithms_7_teacher_log_ratio():
    """Student .5/.5, teacher .8/.2: +.4700, −.9163, mean −.2231."""
    logp_T = floats([0.5, 0.5]).log().requires_grad_()
    teacher_T = floats([0.8, 0.2]).log()
    rewards = rewards_of([(0, [2])], floats([0]))
    result = credit(
        TeacherLogRatio(), one_episode(2), rewards, logp_T=logp_T, teacher_logp_T=teacher_T
    )
    close(result.advantage_A, floats([math.log(1.6), math.log(0.4)]))
    assert result.advantage_A.mean().item() == pytest.approx(-0.2231435513, abs=1e-9)
    assert not result.advantage_A.requires_grad


def test_a_token_that_the_teacher_excludes_has_no_credit():
    rewards = rewards_of([(0, [3])], floats([0]))
    teacher_T = floats([-1, -math.inf, -2])
    result = credit(
        TeacherLogRatio(),
        one_episode(3),
        rewards,
        logp_T=floats([-1, -1, -1]),
        teacher_logp_T=teacher_T,
    )
    assert result.index_A.tolist() == [0, 2]
    close(result.advantage_A, floats([0, -1]))


def test_unscored_rewards_and_misplaced_turns_are_refused():
    with pytest.raises(ValueError, match="unscored episodes must not be passed"):
        Rewards(floats([math.nan]), torch.tensor([0]), torch.tensor([0]))
    scattered = Rewards(floats([1, 1, 1]), torch.tensor([0, 1, 0]), torch.tensor([0, 0]))
    with pytest.raises(AssertionError, match="turns out of order"):
        scattered.turns()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rule", [CENTRED, SAMPLE, replace(CENTRED, level="turn"), RewardToGo()])
def test_credit_has_the_type_of_the_rewards(rule, dtype):
    episodes = [(0, [1, 1]), (0, [2])]
    rewards = rewards_of(episodes, floats([0, 1, 0]).to(dtype))
    assert credit(rule, tokens_of(episodes), rewards).advantage_A.dtype == dtype


@pytest.mark.parametrize(
    "rule",
    [GAE(), GAE(level="turn"), RewardToGo(baseline="learned")],
    ids=["tokens", "turns", "baseline"],
)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_critic_that_has_diverged_is_named(rule, value):
    episodes = [(0, [1, 1])]
    rewards = rewards_of(episodes, floats([0.0, 1.0]))
    with pytest.raises(ValueError, match="critic is not finite, so it has diverged; lower learner"):
        credit(rule, tokens_of(episodes), rewards, value_T=floats([0.0, value]))
