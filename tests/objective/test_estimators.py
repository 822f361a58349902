"""The exact lab: what theory says of the estimators, by enumeration."""

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from estimators_claims import claims, problems
from estimators_lab import ROWS, closed_form, enumerated, quality, sampled, values_T
from estimators_tree import Shape, assemble, make_problem
from steelyard.objective import GroupComparison, RewardToGo, credit

PROBLEMS = problems()
GROUP_ROWS = [row for row in ROWS if isinstance(row.algorithm.credit, GroupComparison)]


def named(name):
    return next(row for row in ROWS if row.name == name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_true_gradient(name):
    problem = PROBLEMS[name]
    assert float(problem.probability_E(problem.theta_FA).sum()) == pytest.approx(1.0, abs=1e-12)
    torch.testing.assert_close(
        problem.gradient_D, problem.autograd_gradient_D(), rtol=0.0, atol=1e-12
    )
    # A gradient of 0 would make every claim true.
    assert float(problem.gradient_D.norm()) > 0.1


def test_values_are_those_of_the_tree():
    """V by its recursion: V(h) = E over the next moves, on a tree of two turns written out."""
    problem = make_problem(Shape(2, observations=1, first_tokens=1), 0)
    probability_NA = torch.softmax(problem.feature_NF @ problem.theta_FA, dim=1)
    # The trajectories stand in the order 00, 01, 10, 11; each has two tokens.
    root, *after = problem.paths.node_T[[0, 1, 5]].tolist()
    return_E = problem.return_E
    second = [
        float(probability_NA[node] @ return_E[2 * i : 2 * i + 2]) for i, node in enumerate(after)
    ]
    first = float(probability_NA[root] @ torch.tensor(second, dtype=torch.float64))
    value_T = problem.value_T(problem.theta_FA)
    expected = [first, second[0]] * 2 + [first, second[1]] * 2
    assert value_T.tolist() == pytest.approx(expected, abs=1e-12)


def test_episodes_stop_and_turns_have_several_tokens():
    stopping = PROBLEMS["3 turns, 3 choices, turn rewards, may stop"]
    assert set(stopping.episodes.length_R.tolist()) == {1, 2, 3}
    fixed = PROBLEMS["3 turns, 2 choices"]
    assert set(fixed.episodes.length_R.tolist()) == {4}
    assert set(fixed.turns.length_R.tolist()) == {3}


def test_a_group_is_assembled_with_its_own_turns_and_rewards():
    problem = PROBLEMS["3 turns, 3 choices, turn rewards, may stop"]
    index_MG = torch.tensor([[7, 0], [0, 52]])
    batch = assemble(problem, index_MG)
    assert batch.tokens.episodes.length_R.tolist() == [
        int(problem.episodes.length_R[i]) for i in (7, 0, 0, 52)
    ]
    assert batch.rewards.turns().sum(batch.rewards.reward_K).tolist() == [
        float(problem.return_E[i]) for i in (7, 0, 0, 52)
    ]
    one = credit(RewardToGo(), problem.paths.tokens, problem.rewards).advantage_A
    many = credit(RewardToGo(), batch.tokens, batch.rewards).advantage_A
    assert many.tolist() == one[batch.row_T].tolist()


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_bias_is_zero_where_theory_says_zero(name):
    wrong = [
        (claim.text, claim.staleness, claim.error)
        for claim in claims(PROBLEMS[name])
        if not claim.error < 1e-9
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("name", "staleness", "least"),
    [
        ("reinforce", 0.3, 0.1),
        ("token ratio, no limit", 0.3, 0.03),
        ("sequence ratio, no limit", 0.3, 0.03),
        ("prefix ratio, no limit", 0.3, 0.03),
        ("full_ratio (truncated at 5)", 1.0, 0.03),
        ("prefix ratio × TD error (V of μ)", 0.3, 0.03),
        ("dr_grpo + token TIS 2", 0.3, 0.03),
        ("gspo", 0.1, 0.3),
    ],
)
def test_the_bias_is_not_zero_where_it_should_not_be(name, staleness, least):
    """The lab can tell: the claims above do not hold of everything."""
    problem, row = PROBLEMS["3 turns, 2 choices"], named(name)
    found = quality(problem, closed_form(problem, row, staleness, 4))
    assert found.turned > least


def test_a_flaw_in_an_estimator_shows():
    """An estimator off by one part in a thousand fails the test of its claim."""
    problem = PROBLEMS["3 turns, 2 choices"]
    credit_T = 1.001 * problem.episodes.spread(problem.return_E)
    mean_D = enumerated(problem, named("reinforce").algorithm, 0.0, advantage_T=credit_T).mean_D
    assert float((mean_D - problem.gradient_D).abs().max() / problem.gradient_D.norm()) > 1e-4


@pytest.mark.parametrize("row", GROUP_ROWS, ids=lambda row: row.name)
@pytest.mark.parametrize("group", [2, 4])
def test_the_closed_form_is_the_sum_over_all_groups(row, group):
    problem = PROBLEMS["2 turns, 2 choices"]
    short, long = (
        closed_form(problem, row, 0.4, group),
        enumerated(problem, row.algorithm, 0.4, group),
    )
    torch.testing.assert_close(short.mean_D, long.mean_D, rtol=0.0, atol=1e-12)
    assert short.variance == pytest.approx(long.variance, rel=1e-10)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_sample_has_the_exact_mean_and_variance(row):
    problem = make_problem(Shape(2), 0)
    exact = closed_form(problem, row, 0.4, 8)
    found = sampled(problem, row, 0.4, 8, 32_768, seed=1)
    batches = 32_768 / exact.episodes
    # In units of its expected size; five standard errors of the variance.
    distance = float((found.moments.mean_D - exact.mean_D).norm())
    assert distance < 4.0 * (exact.variance / batches) ** 0.5
    assert abs(found.moments.variance - exact.variance) < 5.0 * found.variance_error


def test_limits_do_nothing_to_fresh_samples_and_a_perfect_critic_helps():
    problem = PROBLEMS["6 turns, 2 choices"]
    noise = {
        row.name: quality(problem, closed_form(problem, row, 0.0, 8)).noise
        for row in map(named, ("reinforce", "dr_grpo", "ctpo", "cispo", "grpo"))
    }
    assert noise["ctpo"] == pytest.approx(noise["cispo"], rel=1e-9)
    assert noise["ctpo"] == pytest.approx(noise["grpo"], rel=1e-9)
    row = named("reinforce_baseline (V of μ)")
    with_critic = enumerated(problem, row.algorithm, 0.0, 1, values_T(problem, row, 0.0))
    assert quality(problem, with_critic).noise < noise["reinforce"]


def test_the_best_multiple_is_the_best():
    """RMSE of c ĝ on a grid of c: none is below `scaled_rmse`, and one comes to it."""
    problem = PROBLEMS["3 turns, 2 choices"]
    exact = closed_form(problem, named("grpo"), 0.1, 8)
    found = quality(problem, exact)
    truth_D = problem.gradient_D
    grid = []
    for factor in torch.linspace(0.0, 2.0, 2001, dtype=torch.float64):
        bias = float((factor * exact.mean_D - truth_D).square().sum())
        variance = float(factor) ** 2 * exact.variance * 8 / 64
        grid.append((bias + variance) ** 0.5 / float(truth_D.norm()))
    assert min(grid) >= found.scaled_rmse(64) - 1e-12
    assert min(grid) == pytest.approx(found.scaled_rmse(64), abs=1e-6)
    assert grid[1000] == pytest.approx(found.rmse(64), abs=1e-12)
