"""Losses that other trainers got wrong without an error, each with the wrong variant beside ours.

Every test computes the right answer with the package and the wrong one with a variant written
inside the test, and asserts a property or a value that does not come from either: ours meets it,
the variant does not. The names in docstrings say where the variant was found.

Not here, since they are not the objective's: template drift (tests/models/test_chat.py,
tests/agents/test_loop.py), where a turn ends (tests/engines/test_torch_engine.py), which tokens are
actions (tests/learner/test_batch.py) and at which positions (tests/learner/test_packing.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from steelyard.episodes import Episode, Group, Scored, Segment, StopReason, Trajectory, Turn
from steelyard.episodes.episode import GroupVerdict
from steelyard.learner import Batch
from steelyard.models.logprobs import token_logprobs
from steelyard.objective import (
    GAE,
    KL,
    Aggregate,
    Algorithm,
    ClipMin,
    Correction,
    Distillation,
    Fixed,
    GroupComparison,
    KLCov,
    Rewards,
    Runs,
    StopGradientClip,
    TeacherLogRatio,
    Tokens,
    Totals,
    WideningWindow,
    algorithm,
    bilevel_gae,
    correction_weight,
    covariance_choice,
    credit,
    divergence,
    gae,
    group_advantage,
    kl_value,
    limit,
    log_ratio,
    overlong_penalty,
    td_error,
    token_coefficients,
    token_loss,
    vocabulary_loss,
    whiten,
)

STD = GroupComparison(scale="std")
PLAIN = Algorithm(name="ratio only", credit=GroupComparison(), ratio="token")


def tensor(*values: float) -> Tensor:
    return torch.tensor(values)


def tokens_of(*episodes: list[int], groups: list[int] | None = None) -> Tokens:
    """Episodes as lists of tokens per turn; one segment each."""
    length_K = torch.tensor([length for turns in episodes for length in turns])
    episode_K = torch.tensor([e for e, turns in enumerate(episodes) for _ in turns])
    turn_T = torch.arange(len(length_K)).repeat_interleave(length_K)
    episode_T = episode_K[turn_T]
    group_E = torch.tensor(groups or [0] * len(episodes))
    return Tokens(turn_T, episode_T, episode_T, group_E[episode_T])


def rewards_of(*episodes: list[float], groups: list[int] | None = None) -> Rewards:
    """Episodes as lists of rewards per turn."""
    owner = [e for e, turns in enumerate(episodes) for _ in turns]
    flat = [r for turns in episodes for r in turns]
    group_E = torch.tensor(groups or [0] * len(episodes))
    return Rewards(torch.tensor(flat), torch.tensor(owner), group_E)


def gradient(logp_T: Tensor, loss: Callable[[Tensor], Tensor]) -> Tensor:
    leaf_T = logp_T.clone().requires_grad_()
    (gradient_T,) = torch.autograd.grad(loss(leaf_T), leaf_T)
    return gradient_T


def batch_loss(
    row: Algorithm, fixed: Fixed, totals: Totals | None = None
) -> Callable[[Tensor], Tensor]:
    """Σ c_t value_t, as the learner takes it."""
    weight_T = token_coefficients(fixed.tokens, row.aggregate, totals)
    return lambda logp_T: (weight_T * token_loss(logp_T, fixed, row).value_T).sum()


def walk_everything(reward: list[float], value: list[float], lam: float) -> list[float]:
    """GAE (γ = 1) backwards over all positions, whether sampled or observed."""
    advantages = []
    after = carried = 0.0
    for r, v in zip(reversed(reward), reversed(value), strict=True):
        carried = r + after - v + lam * carried
        after = v
        advantages.append(carried)
    return advantages[::-1]


# Credit over time.


@pytest.mark.parametrize("observed", [0, 1, 10])
def test_gae_does_not_decay_through_observation_tokens(observed):
    """OpenRLHF and SkyRL: one more λ for every observation token."""
    segment = Segment()
    segment.append_context([1])
    segment.append_action([2, 3], [-1.0, -1.0], [0, 0])
    if observed:
        segment.append_context([4] * observed)
    segment.append_action([5, 6], [-1.0, -1.0], [0, 0])
    second = 3 + observed
    turns = [
        Turn(0, (1, 3), (3, second), ""),
        Turn(0, (second, second + 2), (second + 2, second + 2), ""),
    ]
    tokens = Batch.from_trajectories([Trajectory([segment], turns)]).tokens
    reward = rewards_of([0.0, 1.0])
    ours = credit(GAE(lam=0.95), tokens, reward, value_T=torch.zeros(4)).advantage_A
    wrong = walk_everything([0.0] * (3 + observed) + [1.0], [0.0] * (4 + observed), 0.95)
    assert ours[0].item() == pytest.approx(0.95**3)  # three actions follow, however much is seen
    assert (wrong[0] == pytest.approx(0.95**3)) is (observed == 0)


def test_the_value_of_an_observation_token_is_not_read():
    """OpenRLHF sets it to 0, SkyRL takes what the critic says there; both enter the deltas."""
    value = [0.3, 0.6, 9.0, 9.0, 0.4]
    zeroed = [0.3, 0.6, 0.0, 0.0, 0.4]
    ours = credit(
        GAE(lam=0.5), tokens_of([2, 1]), rewards_of([0.0, 0.0]), value_T=tensor(0.3, 0.6, 0.4)
    ).advantage_A
    by_hand = [0.1, -0.4, -0.4]  # δ = (.3, −.2, −.4)
    assert ours.tolist() == pytest.approx(by_hand)
    for variant in (value, zeroed):
        seen = walk_everything([0.0] * 5, variant, 0.5)
        assert [seen[0], seen[1], seen[4]] != pytest.approx(by_hand, abs=0.05)


def test_a_turn_that_earned_nothing_stays_a_turn():
    """A copy of bi-level GAE finds the ends of turns by `reward.bool()`."""
    reward_K, value_T = tensor(0.0, 1.0), torch.zeros(6)
    turn_T = torch.tensor([0, 0, 0, 1, 1, 1])
    episode_K = torch.tensor([0, 0])

    def advantages(reward_K: Tensor, turn_T: Tensor, episode_K: Tensor) -> Tensor:
        turns, episodes = Runs.of(turn_T), Runs.of(episode_K)
        return bilevel_gae(reward_K, value_T, turns, episodes, turn_gamma=0.9).advantage_X

    def wrong() -> Tensor:
        reward_T = torch.zeros(6)
        reward_T[Runs.of(turn_T).last_R] = reward_K
        ends_T = reward_T.bool()
        found_T = (ends_T.cumsum(0) - ends_T.long()).clamp(max=int(ends_T.sum()) - 1)
        return advantages(reward_K[reward_K.bool()], found_T, episode_K[: int(ends_T.sum())])

    discounted = [0.9, 0.9, 0.9, 1.0, 1.0, 1.0]  # the first turn ends one turn before the reward
    assert advantages(reward_K, turn_T, episode_K).tolist() == pytest.approx(discounted)
    assert wrong().tolist() != pytest.approx(discounted, abs=0.05)


def test_a_reward_that_arrives_with_an_observation_is_not_dropped():
    """verl multiplies token rewards by the action mask."""
    value_T, mask = tensor(0.3, 0.6, 0.4), [1, 1, 0, 0, 1]
    reward = rewards_of([1.0, 0.0])  # turn 0 earned it, and it came with the observation
    ours = credit(GAE(lam=1.0), tokens_of([2, 1]), reward, value_T=value_T).advantage_A
    arrived = [0.0, 0.0, 1.0, 0.0, 0.0]
    masked = [r * m for r, m in zip(arrived, mask, strict=True) if m]
    wrong = walk_everything(masked, value_T.tolist(), 1.0)
    # With γ = λ = 1 advantage plus value is all that was still to come.
    assert ours[0].item() + 0.3 == pytest.approx(1.0)
    assert ours[2].item() + 0.4 == pytest.approx(0.0, abs=1e-6)
    assert wrong[0] + 0.3 != pytest.approx(1.0)


def test_targets_are_taken_before_whitening():
    value_T = tensor(0.3, 0.6, 0.4, 0.2)
    tokens, reward = tokens_of([2], [2]), rewards_of([1.0], [0.0])
    ours = credit(GAE(lam=1.0, whiten=True), tokens, reward, value_T=value_T)
    wrong = ours.advantage_A + value_T
    returns = [1.0, 1.0, 0.0, 0.0]  # λ = γ = 1: what the critic should have said
    assert ours.target_A is not None
    assert ours.target_A.tolist() == pytest.approx(returns)
    assert wrong.tolist() != pytest.approx(returns, abs=0.05)
    unwhitened = tensor(0.7, 0.4, -0.4, -0.2)
    assert ours.advantage_A.tolist() == pytest.approx(whiten(unwhitened).tolist(), abs=1e-6)


def test_a_truncated_episode_is_not_a_terminated_one():
    """A reward of 1 for ever, γ = .9: V = 10 is right everywhere, so nothing is a surprise."""
    reward_X, value_X = torch.ones(4), torch.full((4,), 10.0)
    episodes = Runs.of(torch.zeros(4, dtype=torch.int64))

    def surprises(after: float) -> list[float]:
        return td_error(reward_X, value_X, episodes, gamma=0.9, after_E=tensor(after)).tolist()

    assert surprises(10.0) == pytest.approx([0.0] * 4, abs=1e-6)
    assert surprises(0.0) != pytest.approx([0.0] * 4, abs=1.0)
    bootstrapped = gae(reward_X, value_X, episodes, gamma=0.9, after_E=tensor(10.0))
    assert bootstrapped.target_X.tolist() == pytest.approx(value_X.tolist())


# Group comparison.


def test_a_group_of_one_is_not_trained_on_its_raw_reward():
    """verl, SkyRL, rLLM (whose #776 made every group one by a wrong id): mean 0, deviation 1."""
    group_E = torch.tensor([0, 1, 1])

    def ours(reward_E: Tensor) -> dict[int, float]:
        advantage_A, kept_A = group_advantage(reward_E, group_E, STD)
        return dict(zip(kept_A.tolist(), advantage_A.tolist(), strict=True))

    def wrong(reward_E: Tensor) -> dict[int, float]:
        return {0: reward_E[0].item() / (1 + 1e-4)} | ours(reward_E)

    reward_E = tensor(0.5, 0.0, 1.0)
    # A comparison cannot change when every reward is shifted by the same amount.
    assert ours(reward_E) == pytest.approx(ours(reward_E + 3.0), abs=1e-6)
    assert wrong(reward_E) != pytest.approx(wrong(reward_E + 3.0), abs=1e-6)
    _, kept = group_advantage(reward_E, torch.arange(3), STD)
    assert len(kept) == 0


def test_a_lone_success_is_scaled_as_its_failures_are():
    """NeMo-RL: each member over the deviation of the others, which for a lone success is 0."""
    reward_E = torch.zeros(16)
    reward_E[3] = 1.0
    ours, _ = group_advantage(
        reward_E, torch.zeros(16, dtype=torch.int64), GroupComparison(baseline="leave_one_out")
    )

    def wrong(i: int) -> float:
        others_E = torch.cat([reward_E[:i], reward_E[i + 1 :]])
        centred, deviation = reward_E[i] - others_E.mean(), others_E.std()
        return float(centred / deviation if deviation > 0 else centred)

    scores = torch.tensor([wrong(i) for i in range(16)])
    assert scores[3] == pytest.approx(1.0)
    assert scores[0] == pytest.approx(-0.258, abs=1e-3)
    # What the success gains, its group loses.
    assert ours.sum().item() == pytest.approx(0.0, abs=1e-6)
    assert abs(scores.sum().item()) > 2.0


def test_uneven_groups_are_still_groups():
    """slime normalises the whole batch as one group when counts are uneven."""
    reward_E, group_E = tensor(1.0, 1.0, 0.0, 0.0, 0.2), torch.tensor([0, 0, 0, 1, 1])
    ours, kept = group_advantage(reward_E, group_E, STD)
    wrong = (reward_E - reward_E.mean()) / (reward_E.std() + 1e-4)
    assert kept.tolist() == [0, 1, 2, 3, 4]
    # The better of two attempts at the hard task did better than its group.
    assert ours[4] > 0 > ours[3]
    assert wrong[4] < 0
    assert [ours[:3].sum().item(), ours[3:].sum().item()] == pytest.approx([0, 0], abs=1e-6)


def test_a_length_penalty_does_not_make_an_all_fail_group_mixed():
    """verl-recipe #125: the filter looked at the deviation of shaped rewards."""
    failed = [
        Episode(
            id=str(i),
            task="t",
            group="g",
            trajectory=Trajectory([]),
            outcome=Scored(0.0),
            stop_reason=StopReason.SUBMITTED,
        )
        for i in range(3)
    ]
    shaped_E = torch.zeros(3) + overlong_penalty(tensor(10, 18, 20), longest=20, buffer=8)
    wrong = GroupVerdict.MIXED if shaped_E.std() > 0 else GroupVerdict.ALL_FAIL
    assert not any(e.solved for e in failed)  # nothing to imitate, so no group to learn from
    assert Group("g", "t", failed).verdict is GroupVerdict.ALL_FAIL
    assert wrong is GroupVerdict.MIXED


def test_an_unscored_episode_is_not_a_failure():
    """Five of NeMo's six estimators ignore the mask; a grader's crash is counted as 0."""
    scored_E, same_E = tensor(1.0, 0.0, 1.0), torch.zeros(3, dtype=torch.int64)
    ours, _ = group_advantage(scored_E, same_E, GroupComparison())

    def wrong(crashes: int) -> list[float]:
        reward_E = torch.cat([scored_E, torch.zeros(crashes)])
        return (reward_E - reward_E.mean())[:3].tolist()

    assert ours.tolist() == pytest.approx(wrong(0))
    # The machine's failures say nothing about what was solved.
    assert wrong(3) != pytest.approx(wrong(0), abs=0.05)
    with pytest.raises(ValueError, match="unscored"):
        group_advantage(tensor(1.0, math.nan), same_E[:2], GroupComparison())


def test_an_episode_in_several_segments_counts_once():
    """One row of training data per segment, and the mean taken over rows."""
    # Episode 0 was compacted twice: three segments of one turn each. Episodes 1 and 2 have one.
    tokens = tokens_of([2, 2, 2], [2], [2])
    tokens = replace(tokens, segment_T=torch.arange(5).repeat_interleave(2))
    reward = rewards_of([0.0, 0.0, 1.0], [0.0], [0.0])
    ours = credit(GroupComparison(), tokens, reward).advantage_A
    row_S = tensor(1.0, 1.0, 1.0, 0.0, 0.0)
    wrong = (row_S - row_S.mean())[tokens.segment_T]
    by_episode = [2 / 3] * 6 + [-1 / 3] * 4
    assert ours.tolist() == pytest.approx(by_episode)
    assert wrong.tolist() != pytest.approx(by_episode, abs=0.05)


# Averaging.


def micro_batches(tokens: Tokens) -> list[Tensor]:
    """One episode each."""
    return [(tokens.episode_T == e).nonzero()[:, 0] for e in tokens.episode_T.unique()]


def split_sum(tokens: Tokens, rule: Aggregate, value_T: Tensor) -> float:
    """Our loss summed over micro-batches of one episode."""
    totals = Totals.of(tokens)
    weight = [token_coefficients(tokens.take(i), rule, totals) for i in micro_batches(tokens)]
    parts = zip(weight, micro_batches(tokens), strict=True)
    return sum((w * value_T[i]).sum().item() for w, i in parts)


def test_dr_grpo_divides_by_a_constant_not_by_the_padded_width():
    """verl: L defaults to the padded width of the micro-batch."""
    tokens, value_T = tokens_of([1], [3]), tensor(1.0, 2.0, 2.0, 2.0)

    def wrong(split: list[Tensor]) -> float:
        width = [max(tokens.take(i).episodes.length_R.tolist()) for i in split]
        return sum(value_T[i].sum().item() / n for i, n in zip(split, width, strict=True)) / 2

    rule = Aggregate("constant", length=4)
    assert split_sum(tokens, rule, value_T) == pytest.approx(0.875)  # 7 / (2 · 4)
    assert (token_coefficients(tokens, rule) * value_T).sum().item() == pytest.approx(0.875)
    assert wrong(micro_batches(tokens)) != pytest.approx(wrong([torch.arange(4)]), abs=0.05)


def test_the_token_mean_counts_the_whole_batch():
    """TRL #5619: each micro-batch divided by its own tokens."""
    tokens, value_T = tokens_of([1], [3]), tensor(1.0, 2.0, 2.0, 2.0)
    wrong = sum(value_T[i].mean().item() for i in micro_batches(tokens)) / 2
    assert split_sum(tokens, Aggregate("token_mean"), value_T) == pytest.approx(1.75)  # 7 / 4
    assert wrong == pytest.approx(1.5)  # silently the sequence mean


def test_the_group_size_divides_once():
    """ms-swift #10117: by the tokens of the batch, and by G again."""
    tokens = tokens_of([1], [3], [2], [2])
    ours = token_coefficients(tokens, Aggregate("token_mean"))
    wrong = ours / 4
    # A mean of ones is one.
    assert ours.sum().item() == pytest.approx(1.0)
    assert wrong.sum().item() == pytest.approx(0.25)


@pytest.mark.parametrize("kind", ["token_mean", "sequence_mean", "prompt_mean", "constant"])
def test_a_batch_twice_is_the_same_step(kind):
    """Tinker's importance_sampling is a sum, so the step grows with the batch."""
    once = tokens_of([2], [3])
    twice = tokens_of([2], [3], [2], [3], groups=[0, 0, 1, 1])
    rule = Aggregate(kind, length=4 if kind == "constant" else None)
    value_T = tensor(1.0, -2.0, 0.5, 3.0, 1.0)
    first = (token_coefficients(once, rule) * value_T).sum()
    second = (token_coefficients(twice, rule) * value_T.repeat(2)).sum()
    assert second.item() == pytest.approx(first.item())
    assert value_T.repeat(2).sum().item() == pytest.approx(2 * value_T.sum().item())


def test_a_rejected_token_does_not_make_the_others_heavier():
    """The denominator counts only what was kept."""
    tokens, advantage_T = tokens_of([4]), torch.ones(4)
    row = replace(PLAIN, correction=Correction("mask", highest_ratio=2.0))
    prox_T = torch.full((4,), -1.0)

    def first_token(gap: float, kept_only: bool) -> float:
        """The gradient at token 0 where token 3 is off by `gap`."""
        behaviour_T = prox_T - tensor(0.0, 0.0, 0.0, gap)
        fixed = Fixed(tokens, advantage_T, behaviour_logp_T=behaviour_T, prox_logp_T=prox_T)
        assert row.correction is not None
        inside_T = ~correction_weight(prox_T, behaviour_T, tokens, row.correction).limited_T
        share = len(tokens) / int(inside_T.sum()) if kept_only else 1.0
        return share * gradient(prox_T, batch_loss(row, fixed))[0].item()

    assert first_token(0.0, False) == first_token(3.0, False) == pytest.approx(-0.25)
    assert first_token(3.0, True) != pytest.approx(first_token(0.0, True), abs=0.05)


def test_entropy_is_averaged_as_the_policy_term_is():
    """SkyRL averages entropy (and KL) per sequence whatever the loss's own reduction."""
    tokens = tokens_of([1], [3])
    row = algorithm("dapo", entropy=0.1)
    torch.manual_seed(0)
    logit_TV = torch.randn(1, 5).repeat(4, 1)  # four tokens alike in all but their episode
    weight_T = token_coefficients(tokens, row.aggregate)
    per_sequence_T = token_coefficients(tokens, Aggregate("sequence_mean"))

    def pull(mean_T: Tensor) -> Tensor:
        """Of each token, how strongly the bonus pulls against the policy term's weight."""
        leaf_TV = logit_TV.clone().requires_grad_()
        loss = (mean_T * vocabulary_loss(leaf_TV, row)).sum()
        (gradient_TV,) = torch.autograd.grad(loss, leaf_TV)
        return gradient_TV.norm(dim=1) / weight_T

    # Tokens that are alike are traded off alike.
    assert pull(weight_T).std().item() < 1e-6
    assert pull(per_sequence_T).std().item() > 1e-2


# Ratios and limits.


def on_policy(logp_T: Tensor, advantage_T: Tensor, **names: Tensor) -> Fixed:
    return Fixed(tokens_of([len(logp_T)]), advantage_T, prox_logp_T=logp_T, **names)


def test_the_cap_of_cispo_is_an_absolute_ratio():
    """Half the trainers read the same number as 1 + ε."""
    prox_T = tensor(-3.0, -3.0)
    logp_T = prox_T + tensor(5.5, 2.0).log()
    fixed = Fixed(tokens_of([2]), torch.ones(2), prox_logp_T=prox_T)

    def weight(cap: float) -> list[float]:
        row = algorithm("cispo", limit=StopGradientClip(cap))
        return (-2 * gradient(logp_T, batch_loss(row, fixed))).tolist()

    assert weight(5.0) == pytest.approx([5.0, 2.0], rel=1e-4)
    assert weight(1 + 5.0) == pytest.approx([5.5, 2.0], rel=1e-4)  # over the published cap


def test_an_epsilon_is_refused_as_an_absolute_cap():
    """TRL without epsilon_high caps every ratio at ε = .2."""
    logp_T, advantage_T = tensor(-0.3, -2.0), tensor(1.0, -0.5)

    def wrong(logp_T: Tensor) -> Tensor:
        weight_T = (logp_T - logp_T.detach()).exp().detach().clamp(max=0.2)
        return -(weight_T * advantage_T * logp_T).mean()

    ours = gradient(logp_T, batch_loss(algorithm("cispo"), on_policy(logp_T, advantage_T)))
    # On-policy there is nothing to correct: the policy gradient, −A per token.
    assert (2 * ours).tolist() == pytest.approx((-advantage_T).tolist())
    assert (2 * gradient(logp_T, wrong)).tolist() != pytest.approx((-advantage_T).tolist(), abs=0.1)
    with pytest.raises(ValueError, match="absolute ratio"):
        StopGradientClip(0.2)


def test_the_cap_of_cispo_acts_on_the_first_update_when_the_sampler_is_behind():
    """With π_old recomputed at the first update every ratio is 1 and the cap is inert (#1859)."""
    logp_T = tensor(-0.5, -0.5)
    behaviour_T = logp_T - tensor(8.0, 2.0).log()
    fixed = Fixed(
        tokens_of([2]), torch.ones(2), behaviour_logp_T=behaviour_T, prox_logp_T=logp_T.clone()
    )
    anchored = algorithm("cispo", anchor="behaviour")
    inert = algorithm("cispo")

    def weight(row: Algorithm) -> list[float]:
        return (-2 * gradient(logp_T, batch_loss(row, fixed))).tolist()

    assert weight(anchored) == pytest.approx([5.0, 2.0], rel=1e-4)  # min(π/μ, 5)
    assert token_loss(logp_T, fixed, anchored).limited_T.tolist() == [True, False]
    assert weight(inert) == pytest.approx([1.0, 1.0])
    assert not token_loss(logp_T, fixed, inert).limited_T.any()
    with pytest.raises(ValueError, match="nothing corrects for it"):
        inert.require_fit(staleness=1, updates_per_batch=1)
    anchored.require_fit(staleness=1, updates_per_batch=1)


def test_gspo_is_limited_by_its_own_epsilon():
    """Seven trainers default to PPO's .2, which a length-normalised ratio never reaches."""
    prox_T = torch.full((100,), -1.0)
    fixed = Fixed(tokens_of([100]), torch.ones(100), prox_logp_T=prox_T)
    logp_T = prox_T + 0.1  # together the sequence is e^10 = 22026 times likelier

    def moves(row: Algorithm) -> bool:
        return bool(gradient(logp_T, batch_loss(row, fixed)).abs().max() > 0)

    assert not moves(algorithm("gspo"))
    assert moves(algorithm("gspo", limit=ClipMin(0.2, 0.2)))


def test_gspo_weighs_sequences_not_tokens():
    """TRL's default and AReaL average GSPO over tokens."""
    tokens = tokens_of([2], [8])
    logp_T = torch.full((10,), -1.0)
    fixed = Fixed(tokens, torch.ones(10), prox_logp_T=logp_T)

    def pull(row: Algorithm) -> list[float]:
        return tokens.episodes.sum(gradient(logp_T, batch_loss(row, fixed))).tolist()

    ours, wrong = pull(algorithm("gspo")), pull(algorithm("gspo", aggregate=Aggregate()))
    assert ours[0] == pytest.approx(ours[1])  # one sequence, one vote
    assert wrong[1] == pytest.approx(4 * wrong[0])


def test_the_window_of_ctpo_widens():
    """Its configuration's default power of 0 fixes the window; only the script sets .5."""
    torch.manual_seed(0)
    episodes, length = 4000, 100
    tokens = tokens_of(*[[length]] * episodes)
    noise_T = 0.02 * torch.randn(episodes * length)
    log_ratio_T, _ = log_ratio(noise_T, torch.zeros_like(noise_T), tokens, "prefix")

    def share(rule: WideningWindow, place: int) -> float:
        limited_T = limit(log_ratio_T, torch.ones_like(noise_T), tokens, rule).limited_T
        return limited_T.reshape(episodes, length)[:, place - 1].float().mean().item()

    expected = 0.0062  # the share of a normal beyond 2.5 deviations, .05 √t / .02 √t
    for place in (1, 10, 100):
        assert share(WideningWindow(), place) == pytest.approx(expected, abs=5e-3)
    assert share(WideningWindow(power=0.0), 100) > 0.3


def test_the_prefix_of_ctpo_stands_behind_a_stop_gradient():
    """Without it, at θ = μ token k of T weighs T − k + 1 times."""
    logp_T, tokens = tensor(-1.0, -2.0, -0.5, -0.1), tokens_of([4])

    def ours(leaf_T: Tensor) -> Tensor:
        return log_ratio(leaf_T, logp_T, tokens, "prefix").value_T.exp().sum()

    def wrong(leaf_T: Tensor) -> Tensor:
        return (leaf_T - logp_T).cumsum(0).exp().sum()

    assert gradient(logp_T, ours).tolist() == pytest.approx([1.0] * 4)  # the policy gradient
    assert gradient(logp_T, wrong).tolist() == pytest.approx([4.0, 3.0, 2.0, 1.0])


def test_a_product_over_a_long_episode_is_not_judged_by_a_token_s_bounds():
    """TRL #5815: products shrink with length (E log ρ < 0), so one bound rejects long episodes."""
    torch.manual_seed(0)
    deviation, episodes = 0.1, 200

    def kept(scope: str, length: int) -> float:
        # Log-normal with mean ratio 1: a sampler that is off by a tenth and unbiased.
        gap_T = deviation * torch.randn(episodes * length) - deviation**2 / 2
        rule = Correction("mask", highest_ratio=2.0, lowest_ratio=0.5, scope=scope)
        tokens = tokens_of(*[[length]] * episodes)
        weight = correction_weight(gap_T, torch.zeros_like(gap_T), tokens, rule)
        return 1.0 - weight.limited_T.float().mean().item()

    assert kept("sequence", 10) == kept("sequence", 1000) == 1.0
    assert kept("full", 10) > 0.9
    assert kept("full", 1000) < 0.2


# Who really sampled. Three actions, all enumerated: μ sampled, π is the learner.

MU, PI = tensor(0.4, 0.4, 0.2), tensor(0.7, 0.2, 0.1)
ADVANTAGE = tensor(1.0, -0.5, 0.25)


def expected_weight(row: Algorithm) -> Tensor:
    """E_μ[−∂ value / ∂ log π(a)] per action, which should be π(a) A(a)."""
    fixed = Fixed(
        tokens_of([1], [1], [1]), ADVANTAGE, behaviour_logp_T=MU.log(), prox_logp_T=PI.log()
    )
    gradient_T = gradient(PI.log(), lambda logp_T: token_loss(logp_T, fixed, row).value_T.sum())
    return -MU * gradient_T


EXACT = Correction(highest_ratio=math.inf)


def test_decoupled_ppo_weighs_by_the_behaviour_policy():
    """AReaL: use_decoupled_loss without rejection_sampling applies no behaviour weight."""
    ours = expected_weight(algorithm("ppo", correction=EXACT))
    wrong = expected_weight(algorithm("ppo"))
    assert ours.tolist() == pytest.approx((PI * ADVANTAGE).tolist(), rel=1e-5)
    assert wrong.tolist() == pytest.approx((MU * ADVANTAGE).tolist(), rel=1e-5)
    with pytest.raises(ValueError, match="nothing corrects for it"):
        algorithm("ppo").require_fit(staleness=1, updates_per_batch=1)


def test_the_same_weight_is_not_applied_twice():
    """Truncated importance sampling stacked on a ratio that is already over μ."""
    over_behaviour = replace(PLAIN, anchor="behaviour")
    weight = correction_weight(PI.log(), MU.log(), tokens_of([1], [1], [1]), EXACT).weight_T
    ours = expected_weight(over_behaviour)
    wrong = weight * ours
    assert ours.tolist() == pytest.approx((PI * ADVANTAGE).tolist(), rel=1e-5)
    assert wrong.tolist() != pytest.approx((PI * ADVANTAGE).tolist(), abs=0.05)
    with pytest.raises(ValueError, match="twice"):
        replace(over_behaviour, correction=EXACT)


def test_a_masked_sequence_weight_does_not_overflow():
    """OpenRLHF #1295: seq-mask-tis exponentiates before it masks."""
    behaviour_T, prox_T = torch.full((400,), -3.0), torch.full((400,), -1.0)
    rule = Correction("mask", highest_ratio=2.0, scope="full")
    ours = correction_weight(prox_T, behaviour_T, tokens_of([400]), rule).weight_T
    ratio = (prox_T - behaviour_T).sum().exp()
    wrong = ratio * (ratio <= 2.0)
    assert ours.tolist() == [0.0] * 400  # a sequence e^800 times likelier is outside
    assert not torch.isfinite(wrong)


# KL and distillation, over two actions whose logits are known.

STUDENT, REFERENCE = tensor(0.5, 0.5), tensor(0.8, 0.2)


def expected_kl_gradient(estimator: str) -> float:
    """∂/∂z_0 of the estimator's expectation, the sampling itself held fixed."""
    logit_V = STUDENT.log().requires_grad_()
    logp_V = logit_V.log_softmax(0)
    value_V = kl_value(logp_V, REFERENCE.log(), estimator, logp_V - logp_V.detach())
    (gradient_V,) = torch.autograd.grad((STUDENT * value_V).sum(), logit_V)
    return gradient_V[0].item()


def exact_gradient(forward: bool) -> float:
    """∂ KL(π ‖ ref)/∂z_0, or of KL(ref ‖ π), by differentiating the sum over actions."""
    logit_V = STUDENT.log().requires_grad_()
    logp_V, reference_V = logit_V.log_softmax(0), REFERENCE.log()
    if forward:
        exact = (reference_V.exp() * (reference_V - logp_V)).sum()
    else:
        exact = (logp_V.exp() * (logp_V - reference_V)).sum()
    (gradient_V,) = torch.autograd.grad(exact, logit_V)
    return gradient_V[0].item()


def test_k1_as_a_loss_would_do_nothing():
    """slime's --use-kl-loss with its default k1; AReaL's KDRL branch against a teacher."""
    logit_V = STUDENT.log().requires_grad_()
    k1_V = logit_V.log_softmax(0) - REFERENCE.log()
    (wrong_V,) = torch.autograd.grad((STUDENT * k1_V).sum(), logit_V)
    true = exact_gradient(forward=False)
    assert true == pytest.approx(-0.3466, abs=1e-4)
    for estimator in ("k2", "k3_k2", "k3_ratio"):
        assert expected_kl_gradient(estimator) == pytest.approx(true, abs=1e-6)
    assert wrong_V.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)
    with pytest.raises(AssertionError):
        kl_value(STUDENT.log(), REFERENCE.log(), "k1")


def test_k3_as_a_loss_is_the_other_direction():
    """Most trainers' default; ours offers k3's value with k2's gradient, or ρ k3."""
    wrong = expected_kl_gradient("k3")
    assert wrong == pytest.approx(exact_gradient(forward=True), abs=1e-6)
    assert abs(wrong - exact_gradient(forward=False)) > 0.04
    assert expected_kl_gradient("k3_ratio") == pytest.approx(
        exact_gradient(forward=False), abs=1e-6
    )


def test_a_missing_reference_is_not_a_log_prob_of_zero():
    """AReaL: kl_ctl .1 without a reference pays .1 · surprisal."""
    row = algorithm("grpo", kl=KL(0.1, "k2"))
    logp_T = tensor(-0.1, -5.0)
    fixed = on_policy(logp_T, torch.zeros(2))
    same = replace(fixed, reference_logp_T=logp_T.clone())
    # Where the policy is its reference, there is nothing to pay.
    assert token_loss(logp_T, same, row).value_T.tolist() == [0.0, 0.0]
    penalty_T = 0.1 * kl_value(logp_T, torch.zeros(2), "k1_reward")
    assert (-penalty_T).tolist() == pytest.approx([0.01, 0.5])  # the rarer, the better
    assert row.needs_reference
    with pytest.raises(AssertionError):
        token_loss(logp_T, fixed, row)


def test_the_teacher_s_log_ratio_is_credit_not_a_loss():
    """AReaL's KDRL branch differentiates log π − log π_teacher: in expectation nothing."""
    logit_V = STUDENT.log().requires_grad_()
    logp_V = logit_V.log_softmax(0)
    given = credit(
        TeacherLogRatio(),
        tokens_of([1], [1]),
        rewards_of([0.0], [0.0]),
        logp_T=logp_V,
        teacher_logp_T=REFERENCE.log(),
    )
    ours = -(STUDENT * given.advantage_A * logp_V).sum()
    wrong = (STUDENT * (logp_V - REFERENCE.log())).sum()
    ours_V, wrong_V = (torch.autograd.grad(x, logit_V, retain_graph=True)[0] for x in (ours, wrong))
    assert ours_V[0].item() == pytest.approx(exact_gradient(forward=False), abs=1e-6)
    assert wrong_V.tolist() == pytest.approx([0.0, 0.0], abs=1e-6)


def test_the_generalised_jsd_does_not_jump_at_its_ends():
    """GKD implementations name β = 0 forward KL, while the formula goes to 0 there."""
    student_CV, teacher_CV = STUDENT.log()[None], REFERENCE.log()[None]

    def ours(beta: float) -> float:
        return divergence(student_CV, teacher_CV, Distillation("jsd_scaled", beta=beta)).item()

    def wrong(beta: float) -> float:
        kind = Distillation("jsd", beta=beta) if 0 < beta < 1 else Distillation("forward_kl")
        return divergence(student_CV, teacher_CV, kind).item()

    assert ours(0.0) == pytest.approx(0.1927, abs=1e-4)  # Σ T log(T/S)
    assert ours(1.0) == pytest.approx(0.2231, abs=1e-4)  # Σ S log(S/T)
    assert ours(0.01) == pytest.approx(ours(0.0), abs=2e-3)
    assert ours(0.99) == pytest.approx(ours(1.0), abs=2e-3)
    assert abs(wrong(0.01) - wrong(0.0)) > 0.1
    with pytest.raises(ValueError, match="jsd_scaled"):
        Distillation("jsd", beta=0.0)


def test_entries_are_clipped_before_the_vocabulary_sum():
    """Clipping the token's sum takes its whole gradient where one entry was large."""
    teacher_V = REFERENCE

    def value_and_gradient(loss: Callable[[Tensor], Tensor]) -> tuple[float, Tensor]:
        logit_V = STUDENT.log().requires_grad_()
        value = loss(logit_V)
        return value.item(), torch.autograd.grad(value, logit_V)[0]

    rule = Distillation("forward_kl", entry_clip=0.05)
    ours, ours_V = value_and_gradient(
        lambda logit_V: divergence(logit_V[None], teacher_V.log()[None], rule)[0]
    )
    wrong, wrong_V = value_and_gradient(
        lambda logit_V: (
            (teacher_V * (teacher_V.log() - logit_V.log_softmax(0))).sum().clamp(max=0.05)
        )
    )
    assert ours == pytest.approx(0.05 + 0.2 * math.log(0.2 / 0.5), abs=1e-6)  # −.1333
    assert ours_V.abs().sum().item() > 0.1  # the other entry still teaches
    assert wrong == pytest.approx(0.05)
    assert wrong_V.tolist() == [0.0, 0.0]


def test_the_covariance_fraction_is_a_fraction():
    """.2 % of the tokens, read as .2."""
    torch.manual_seed(0)
    logp_T, advantage_T = -torch.rand(1000), torch.randn(1000)
    chosen = covariance_choice(logp_T, advantage_T, KLCov()).sum().item()
    wrong = covariance_choice(logp_T, advantage_T, KLCov(fraction=0.2)).sum().item()
    assert chosen == 2  # of a thousand
    assert wrong == 200


# Temperature.


def test_logits_are_divided_by_the_temperature_not_log_probs():
    """prime-rl #697; and vLLM's raw log-probs are those before the temperature (TRL #4159)."""
    torch.manual_seed(0)
    hidden_TD, head_VD = torch.randn(1, 8), torch.randn(6, 8)
    every = torch.arange(6)
    spread_TD = hidden_TD.expand(6, 8)
    ours, _ = token_logprobs(spread_TD, head_VD, every, temperature=0.7)
    untempered, _ = token_logprobs(spread_TD, head_VD, every)
    wrong = untempered / 0.7
    assert ours.exp().sum().item() == pytest.approx(1.0)  # a distribution
    assert abs(wrong.exp().sum().item() - 1.0) > 0.05


def test_the_temperature_divides_in_float32():
    """Miles #1554: dividing bfloat16 logits by the temperature widens the mismatch."""
    torch.manual_seed(0)
    hidden_TD = torch.randn(64, 32).bfloat16()
    head_VD = torch.randn(100, 32).bfloat16()
    target_T = torch.randint(0, 100, (64,))
    exact_TV = (hidden_TD.double() @ head_VD.double().T / 0.7).log_softmax(-1)
    exact_T = exact_TV.gather(1, target_T[:, None])[:, 0]
    ours, _ = token_logprobs(hidden_TD, head_VD, target_T, temperature=0.7)
    logit_TV = (hidden_TD.float() @ head_VD.float().T).bfloat16() / 0.7
    wrong = logit_TV.float().log_softmax(-1).gather(1, target_T[:, None])[:, 0]
    assert (ours - exact_T).abs().max().item() < 1e-3
    assert (wrong - exact_T).abs().max().item() > 1e-2
