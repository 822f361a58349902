"""Aggregation. "algorithms" names the page that the vectors come from."""

import pytest
import torch
from heart_batches import EPISODES, SEEDS, close, floats, noise, quick, tokens_of
from hypothesis import given
from hypothesis import strategies as st

from steelyard.objective import Aggregate, Tokens, Totals, token_coefficients

TOKEN, SEQUENCE, PROMPT = (Aggregate(k) for k in ("token_mean", "sequence_mean", "prompt_mean"))
CONSTANT, SUM = Aggregate("constant", 4), Aggregate("constant", 1)
RULES = st.sampled_from([TOKEN, SEQUENCE, PROMPT, CONSTANT])


def coefficients(tokens: Tokens, rule: Aggregate, totals: Totals | None = None) -> torch.Tensor:
    return token_coefficients(tokens, rule, totals, dtype=torch.float64)


def plain_mean(episodes, value_T, rule):
    """The definitions, one list per episode."""
    per_episode = value_T.split([sum(turns) for _, turns in episodes])
    match rule.kind:
        case "token_mean":
            return value_T.mean()
        case "sequence_mean":
            return sum(v.mean() for v in per_episode) / len(episodes)
        case "constant":
            return sum(v.sum() for v in per_episode) / (rule.length * len(episodes))
    groups = {g for g, _ in episodes}
    of_group = [
        torch.cat([v for v, (h, _) in zip(per_episode, episodes, strict=True) if h == g])
        for g in groups
    ]
    return sum(v.mean() for v in of_group) / len(groups)


@pytest.mark.parametrize(
    ("rule", "loss"), [(SEQUENCE, 1.5), (TOKEN, 1.75), (SUM, 3.5), (CONSTANT, 0.875)]
)
def test_algorithms_1_token_losses_1_and_2_2_2(rule, loss):
    """verl's 1.75 for L = 4 omits the division by episodes: twice ours."""
    coefficient_T = coefficients(tokens_of([(0, [1]), (0, [3])]), rule)
    assert (coefficient_T * floats([1, 2, 2, 2])).sum().item() == pytest.approx(loss, abs=1e-12)


def test_a_prompt_weighs_the_same_however_long_its_episodes_are():
    """Group 0: tokens 1; group 1: 3 tokens of 2 and 1 of 6, mean 3. Together 2."""
    coefficient_T = coefficients(tokens_of([(0, [1]), (1, [3]), (1, [1])]), PROMPT)
    assert (coefficient_T * floats([1, 2, 2, 2, 6])).sum().item() == pytest.approx(2.0)


@quick
@given(EPISODES, SEEDS, RULES)
def test_the_coefficients_are_the_plain_definitions(episodes, seed, rule):
    tokens = tokens_of(episodes)
    value_T = noise(seed, len(tokens))
    coefficient_T = coefficients(tokens, rule)
    close((coefficient_T * value_T).sum(), plain_mean(episodes, value_T, rule), 1e-12)
    if rule.kind != "constant":
        assert coefficient_T.sum().item() == pytest.approx(1.0)


@quick
@given(EPISODES, SEEDS, RULES, st.integers(1, 5))
def test_simulated_ranks_have_the_coefficients_of_the_whole_batch(episodes, seed, rule, ranks):
    """Whole groups per rank; each counts its own part and adds the others' totals."""
    episodes = sorted(episodes)
    tokens = tokens_of(episodes)
    home_T = tokens.group_T % ranks
    parts = [(home_T == r).nonzero()[:, 0] for r in range(ranks)]
    totals = sum((Totals.of(tokens.take(p)) for p in parts), Totals(0, 0, 0))
    assert totals == Totals.of(tokens)
    whole_T = coefficients(tokens, rule)
    for part in parts:
        close(coefficients(tokens.take(part), rule, totals), whole_T[part], 1e-15)


@quick
@given(EPISODES, RULES, st.randoms(use_true_random=False))
def test_the_order_of_episodes_does_not_matter(episodes, rule, random):
    order = list(range(len(episodes)))
    random.shuffle(order)
    split = [sum(turns) for _, turns in episodes]
    before = coefficients(tokens_of(episodes), rule).split(split)
    after = coefficients(tokens_of([episodes[i] for i in order]), rule)
    close(after, torch.cat([before[i] for i in order]), 0.0)


def test_a_batch_without_tokens_has_no_coefficients():
    nothing = torch.zeros(0, dtype=torch.long)
    assert len(coefficients(Tokens(nothing, nothing, nothing, nothing), TOKEN)) == 0


def test_a_constant_needs_its_length():
    with pytest.raises(ValueError, match="'constant' needs length"):
        token_coefficients(tokens_of([(0, [1])]), Aggregate("constant"))
    with pytest.raises(ValueError, match="length must be positive, got 0"):
        Aggregate("constant", 0)


@pytest.mark.parametrize("rule", [TOKEN, SEQUENCE, PROMPT, CONSTANT], ids=repr)
def test_coefficients_are_float32_unless_asked(rule):
    assert token_coefficients(tokens_of([(0, [2]), (1, [1])]), rule).dtype == torch.float32
