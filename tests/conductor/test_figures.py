"""The figures of a step against the same figures by hand."""

import pytest
import torch

from steelyard.conductor.figures import effective_share, group_figures, token_figures
from steelyard.conductor.recording import token_fields
from steelyard.conductor.update import Plan, update
from steelyard.episodes import (
    Cause,
    Episode,
    Group,
    Scored,
    Segment,
    StopReason,
    Trajectory,
    Unscored,
)
from steelyard.learner import Learner, LearnerSettings
from steelyard.models import resolve
from steelyard.objective import algorithm


def episode(number, reward, *, version=0, n=4, files=None):
    segment = Segment()
    segment.append_context([5, 6, 7])
    action = [11 + number % 2, 12, 13 + number % 3, 14, 15, 16, 17, 18][:n]
    segment.append_action(action, [-4.5] * n, [version] * n)
    outcome = Unscored(Cause.VERIFIER_ERROR) if reward is None else Scored(reward)
    return Episode(
        id=str(number),
        task="t",
        group="g",
        trajectory=Trajectory([segment]),
        outcome=outcome,
        stop_reason=StopReason.SUBMITTED,
        files=files or {},
    )


@pytest.fixture
def learner(tiny_model):
    return Learner(resolve(str(tiny_model)), LearnerSettings(dtype="float32", threads=1))


def test_effective_share_counts_samples_that_count():
    assert effective_share(torch.zeros(5)) == pytest.approx(1.0)
    assert effective_share(torch.tensor([1000.0, 0.0, 0.0, 0.0])) == pytest.approx(0.25)
    # The vector of reference/algorithms: weights 1.75, .5, .5 under μ = (.4, .4, .2) give .727.
    weights = torch.tensor([1.75, 1.75, 0.5, 0.5, 0.5]).log()
    assert effective_share(weights) == pytest.approx(0.727, abs=5e-4)
    assert effective_share(torch.zeros(0)) is None


def test_token_fields_and_figures_are_those_of_the_last_optimiser_step(learner):
    """Two epochs: the first step moves the weights, the second sees other log-probs."""
    members = [episode(i, float(i % 2), version=-(i % 2)) for i in range(4)]
    members.append(episode(9, None))
    step = learner.step
    seen = []

    def spy(batch, loss, weight_T, **rest):
        seen.append(learner.logprobs(batch, weight_T))
        return step(batch, loss, weight_T, **rest)

    learner.step = spy
    done = update([Group("g", "t", members)], learner, algorithm("dapo"), Plan(1e-3, 1.0, epochs=2))
    before_T, after_T = seen
    assert torch.equal(done.prox_logp_T, before_T)
    assert torch.allclose(done.log_ratio_T, after_T - before_T, atol=1e-6)
    assert float(done.log_ratio_T.abs().max()) > 0

    figures = token_figures(done)
    x = (after_T - done.batch.behaviour_logp_T).double()
    assert figures["mismatch"] == pytest.approx(float((before_T + 4.5).abs().mean()))
    assert figures["staleness"] == 0.5
    assert (figures["staleness_max"], figures["staleness_std"]) == (1.0, 0.5)
    w = x.exp()
    assert figures["ess_tokens"] == pytest.approx(float(w.sum() ** 2 / (16 * (w * w).sum())))
    w = x.reshape(4, 4).sum(1).exp()
    assert figures["ess_episodes"] == pytest.approx(float(w.sum() ** 2 / (4 * (w * w).sum())))
    for quarter in range(4):
        spread = float(x.reshape(4, 4)[:, quarter].std(correction=0))
        assert figures[f"behaviour_log_ratio_std_q{quarter + 1}"] == pytest.approx(spread)

    fields = list(token_fields(done))
    assert [(f.episode, f.segment) for f in fields] == [(str(i), 0) for i in range(4)]
    assert torch.equal(torch.cat([torch.from_numpy(f.entropy) for f in fields]), done.entropy_T)
    assert done.entropy_T.mean().item() == pytest.approx(done.metrics.entropy_mean, rel=0.2)
    share = sum(f.limited.sum() for f in fields) / 16
    assert share == pytest.approx(done.measures["limited_fraction"])


def test_what_no_step_ran_has_no_fields(learner):
    """An all-pass group beside a mixed one has credit 0: its episodes need not be run."""
    mixed = [episode(i, float(i % 2)) for i in range(2)]
    same = [episode(i, 1.0) for i in (5, 6)]
    for member in same:
        member.group = "same"
    groups = [Group("g", "t", mixed), Group("same", "t", same)]
    done = update(groups, learner, algorithm("dapo"), Plan(1e-3, 1.0))
    given = {f.episode: set(f.given()) for f in token_fields(done)}
    assert given["0"] == {"prox_logp", "advantage", "entropy", "log_ratio", "limited"}
    assert given["5"] == {"prox_logp", "advantage"}


def test_groups_count_what_is_distinct_among_the_scored():
    one = Group(
        "g",
        "t",
        [
            episode(0, 1.0, files={"a": b"1"}),
            episode(6, 0.0, files={"a": b"2"}),  # the same tokens, as 6 and 0 are alike
            episode(1, 0.0, files={"a": b"1"}),
            episode(2, None, files={"a": b"3"}),
        ],
    )
    other = Group("h", "t", [episode(0, 1.0), episode(0, 1.0)])
    lost = Group("l", "t", [episode(0, None)])
    assert group_figures([one, other, lost]) == {
        "distinct_workspaces_per_group": 1.5,
        "distinct_actions_per_group": 1.5,
    }
    assert group_figures([lost]) == {}
