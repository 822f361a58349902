"""Critics, frozen models and vocabulary-wide terms beside the policy."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_models import branching_batch, llama_config, save_model
from torch import Tensor

from steelyard.episodes import Segment, Trajectory
from steelyard.learner import Batch, Learner, LearnerSettings, ValueFit, VocabularyLoss
from steelyard.models.loading import LoadedModel
from steelyard.objective import (
    Critic,
    Distillation,
    algorithm,
    divergence,
    vocabulary_loss,
)

EXACT = LearnerSettings(dtype="float32", threads=1, critic_learning_rate=1e-2)


def nothing(logp_T: Tensor, index_T: Tensor) -> Tensor:
    return 0.0 * logp_T


def fit(batch: Batch, rule: Critic) -> ValueFit:
    """Targets that the history decides: the id of the token that was sampled last."""
    target_T = (batch.position_T % 5).float() / 5
    weight_T = torch.full((len(batch),), 1.0 / len(batch))
    return ValueFit(target_T, torch.zeros(len(batch)), weight_T, rule)


@pytest.mark.parametrize("kind", ["head", "network"])
def test_the_value_loss_leaves_the_policy_exactly_as_it_is(tiny_llama: LoadedModel, kind: str):
    rule = Critic(kind)  # type: ignore[arg-type]
    learner = Learner(tiny_llama, EXACT, critic=rule)
    batch = branching_batch(n=3)
    before = {k: v.clone() for k, v in learner.weights().items()}
    wanted = fit(batch, rule)
    losses = []
    for _ in range(40):
        metrics = learner.step(batch, nothing, wanted.weight_T, learning_rate=1e-2, values=wanted)
        assert metrics.grad_norm == 0.0, "the trunk's gradient of the value loss"
        losses.append(metrics.value_loss)
    assert losses[-1] < 0.7 * losses[0]
    assert all(torch.equal(before[k], v) for k, v in learner.weights().items())


@pytest.mark.parametrize("kind", ["head", "network"])
def test_a_critic_leaves_the_policys_gradient_unchanged(tiny_llama: LoadedModel, kind: str):
    batch = branching_batch(n=3)
    rule = Critic(kind)  # type: ignore[arg-type]
    wanted = fit(batch, rule)

    def nll(logp_T: Tensor, index_T: Tensor) -> Tensor:
        return -logp_T

    alone, beside = Learner(tiny_llama, EXACT), Learner(tiny_llama, EXACT, critic=rule)
    alone.step(batch, nll, wanted.weight_T, learning_rate=1e-3)
    beside.step(batch, nll, wanted.weight_T, learning_rate=1e-3, values=wanted)
    assert all(torch.equal(v, beside.weights()[k]) for k, v in alone.weights().items())


def test_a_network_starts_from_the_policy_it_is_aligned_with(tiny_llama: LoadedModel):
    learner = Learner(tiny_llama, EXACT, critic=Critic("network"))
    batch = branching_batch(n=2)
    weight_T = torch.full((len(batch),), 1.0 / len(batch))
    learner.step(batch, lambda logp_T, _: -logp_T, weight_T, learning_rate=1e-2)
    learner.align_critic()
    trunk = learner._critic._weights.masters()
    policy = learner.weights()
    assert all(torch.equal(v, policy[k]) for k, v in trunk.items() if k in policy)


def test_values_are_scored_before_each_token_and_after_truncated_episodes(
    tiny_llama: LoadedModel,
):
    rule = Critic("head")
    learner = Learner(tiny_llama, EXACT, critic=rule)
    batch = branching_batch(n=3)
    assert torch.equal(learner.score(batch).value_T, torch.zeros(len(batch))), "it starts at 0"
    wanted = fit(batch, rule)
    for _ in range(10):
        learner.step(batch, nothing, wanted.weight_T, learning_rate=1e-2, values=wanted)
    truncated_E = torch.zeros(batch.n_episodes, dtype=torch.bool)
    truncated_E[1] = True
    scores = learner.score(batch, truncated_E=truncated_E)
    assert (scores.after_E != 0).tolist() == truncated_E.tolist()
    # The value after an episode is the value before whatever token would follow it.
    segment = Segment()
    segment.append_context(batch.token_ids[1].tolist())
    segment.append_action([7], [0.0], [0])
    longer = Batch.from_trajectories([Trajectory([segment])])
    assert scores.after_E[1] == pytest.approx(float(learner.score(longer).value_T[0]), abs=1e-5)


def test_a_critic_is_saved_and_loaded(tiny_llama: LoadedModel, tmp_path: Path):
    rule = Critic("network", clip=0.2)
    batch = branching_batch(n=2)
    learner = Learner(tiny_llama, EXACT, critic=rule)
    wanted = fit(batch, rule)
    learner.step(batch, nothing, wanted.weight_T, learning_rate=1e-2, values=wanted)
    learner.save_checkpoint(tmp_path / "step")
    resumed = Learner(tiny_llama, EXACT, critic=rule)
    resumed.load_checkpoint(tmp_path / "step")
    for one in (learner, resumed):
        one.step(batch, nothing, wanted.weight_T, learning_rate=1e-2, values=wanted)
    assert torch.equal(learner.score(batch).value_T, resumed.score(batch).value_T)
    Learner(tiny_llama, EXACT).save_checkpoint(tmp_path / "bare")
    with pytest.raises(ValueError, match="it holds no critic"):
        Learner(tiny_llama, EXACT, critic=rule).load_checkpoint(tmp_path / "bare")


@pytest.fixture
def other_llama(tmp_path: Path) -> LoadedModel:
    return save_model(tmp_path / "other", llama_config(), seed=1)


def test_reference_and_teacher_score_the_same_tokens(
    tiny_llama: LoadedModel, other_llama: LoadedModel
):
    batch = branching_batch(n=3)
    learner = Learner(tiny_llama, EXACT, teacher=other_llama)
    learner.set_reference(tiny_llama)
    scores = learner.score(batch, temperature=0.7)
    torch.testing.assert_close(scores.reference_logp_T, scores.logp_T)
    alone = Learner(other_llama, EXACT).score(batch, temperature=0.7)
    torch.testing.assert_close(scores.teacher_logp_T, alone.logp_T)


def test_a_teacher_of_another_vocabulary_is_refused(tiny_llama: LoadedModel, tmp_path: Path):
    foreign = save_model(tmp_path / "foreign", llama_config(vocab_size=101))
    with pytest.raises(ValueError, match="vocabulary of 101 and the policy one of 97"):
        Learner(tiny_llama, EXACT, teacher=foreign)


@pytest.mark.parametrize("max_bin_tokens", [1000, 24])
def test_vocabulary_terms_have_the_gradient_of_the_whole_logits(
    tiny_llama: LoadedModel, other_llama: LoadedModel, monkeypatch, max_bin_tokens: int
):
    """Against the same loss on the whole logits of plain forward passes."""
    monkeypatch.setattr("steelyard.learner.learner._CHUNK_TOKENS", 7)
    row = algorithm(
        "opd",
        credit=None,
        ratio="none",
        anchor="prox",
        entropy=0.3,
        distillation=Distillation("reverse_kl"),
    )
    batch = branching_batch(n=3, groups=1)
    settings = EXACT.model_copy(update={"max_bin_tokens": max_bin_tokens})
    learner = Learner(tiny_llama, settings, teacher=other_llama)
    weight_T = torch.rand(len(batch), generator=torch.Generator().manual_seed(0)) / len(batch)

    def term(logit_CV: Tensor, reference: Tensor | None, teacher: Tensor | None) -> Tensor:
        return vocabulary_loss(logit_CV, row, teacher_logit_CV=teacher)

    got = learner.step(
        batch,
        nothing,
        weight_T,
        learning_rate=0.0,
        temperature=0.8,
        vocabulary=VocabularyLoss(term, reads_teacher=True),
    )
    student, teacher = (_plain(model) for model in (tiny_llama, other_llama))
    total = torch.zeros(())
    for t in range(len(batch)):
        ids = torch.from_numpy(batch.token_ids[int(batch.segment_T[t])])[None]
        here = int(batch.position_T[t]) - 1
        own = student(input_ids=ids).logits[0, here : here + 1] / 0.8
        with torch.no_grad():
            given = teacher(input_ids=ids).logits[0, here : here + 1] / 0.8
        value = divergence(own, given, Distillation("reverse_kl"))
        entropy = -(own.log_softmax(-1).exp() * own.log_softmax(-1)).sum(-1)
        total = total + weight_T[t] * (value - 0.3 * entropy)[0]
    total.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in student.parameters()])
    assert got.loss == pytest.approx(float(total.detach()), rel=1e-4)
    assert got.grad_norm == pytest.approx(float(norm), rel=1e-3)


def _plain(model: LoadedModel):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model.path, dtype=torch.float32).eval()
