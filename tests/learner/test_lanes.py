"""Bins side by side: the same gradients, and nothing left behind by a failure."""

from __future__ import annotations

import threading
from functools import partial

import pytest
import torch
from tiny_models import branching_batch, llama_config, save_model
from torch import Tensor

from steelyard.learner import Learner, LearnerSettings, VocabularyLoss
from steelyard.models.loading import LoadedModel
from steelyard.objective import Critic

SETTINGS = LearnerSettings(dtype="float32", threads=1, max_bin_tokens=40, lanes=1)


def with_lanes(n: int, **changes: object) -> LearnerSettings:
    return SETTINGS.model_copy(update={"lanes": n, **changes})


def nll(logp_T: Tensor, index_T: Tensor) -> Tensor:
    return -logp_T


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_lanes_change_nothing_but_the_order_of_additions(tmp_path, tied: bool, dtype: str):
    model = save_model(tmp_path / "m", llama_config(tie_word_embeddings=tied))
    batch = branching_batch(n=6, groups=4)
    weight_T = torch.randn(len(batch), generator=torch.Generator().manual_seed(1)) / len(batch)
    one, three = (Learner(model, with_lanes(n, dtype=dtype)) for n in (1, 3))
    entropy = {1: torch.zeros(len(batch)), 3: torch.zeros(len(batch))}
    seen: list[int] = []

    def keep(lanes: int, entropy_T: Tensor, index_T: Tensor) -> None:
        seen.extend(index_T.tolist())
        entropy[lanes][index_T] = entropy_T

    for _ in range(4):
        seen.clear()
        a, b = (
            learner.step(batch, nll, weight_T, learning_rate=1e-3, on_entropy=partial(keep, n))
            for n, learner in ((1, one), (3, three))
        )
        assert b.bins > 3
        assert sorted(seen) == sorted(2 * list(range(len(batch))))
        rough = {"rel": 2e-2} if dtype == "bfloat16" else {"rel": 1e-5}
        assert b.grad_norm == pytest.approx(a.grad_norm, **rough)
        assert b.loss == pytest.approx(a.loss, abs=1e-2 if dtype == "bfloat16" else 1e-6)
        if dtype == "float32":
            torch.testing.assert_close(entropy[3], entropy[1], atol=1e-5, rtol=1e-5)
            for name, weight in one.weights().items():
                # AdamW divides by the gradient's size, so rounding counts where that is near 0.
                torch.testing.assert_close(three.weights()[name], weight, atol=1e-4, rtol=1e-3)


def test_log_probs_are_the_same_to_the_last_bit(tiny_llama: LoadedModel):
    batch = branching_batch(n=6, groups=4)
    one, two = (Learner(tiny_llama, with_lanes(n)) for n in (1, 2))
    ones_T = torch.ones(len(batch))
    assert torch.equal(one.logprobs(batch, ones_T), two.logprobs(batch, ones_T))


def test_every_lane_sees_the_weights_as_they_are_now(tiny_llama: LoadedModel):
    """What moves the weights writes into the memory that all lanes read."""
    batch = branching_batch(n=6, groups=4)
    learner = Learner(tiny_llama, with_lanes(2, dtype="bfloat16"))
    weight_T = torch.full((len(batch),), 1 / len(batch))
    losses = [learner.step(batch, nll, weight_T, learning_rate=1e-2).loss for _ in range(12)]
    assert losses[-1] < 0.6 * losses[0]


def test_a_loss_that_fails_leaves_weights_and_threads_as_they_were(tiny_llama: LoadedModel):
    batch = branching_batch(n=6, groups=4)
    clean, failed = (Learner(tiny_llama, with_lanes(2)) for _ in range(2))
    weight_T = torch.full((len(batch),), 1 / len(batch))
    calls = []

    def broken(logp_T: Tensor, index_T: Tensor) -> Tensor:
        calls.append(index_T)
        if len(calls) == 3:
            raise ValueError("no such token")
        return -logp_T

    with pytest.raises(ValueError, match="no such token"):
        failed.step(batch, broken, weight_T, learning_rate=1e-3)
    assert failed.steps_taken == 0
    assert all(torch.equal(w, clean.weights()[name]) for name, w in failed.weights().items())
    assert torch.get_num_threads() == 1
    a, b = (x.step(batch, nll, weight_T, learning_rate=1e-3) for x in (clean, failed))
    assert b.grad_norm == pytest.approx(a.grad_norm, rel=1e-5)


def test_a_new_thread_still_gets_the_number_of_threads_that_was_set(tiny_llama: LoadedModel):
    batch = branching_batch(n=6, groups=4)
    learner = Learner(tiny_llama, with_lanes(2, threads=None))
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        learner.logprobs(batch, torch.ones(len(batch)))
        found: list[int] = []
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        assert (torch.get_num_threads(), found) == (3, [3])
    finally:
        torch.set_num_threads(before)


def test_lanes_are_refused_where_they_cannot_be(tiny_llama: LoadedModel):
    with pytest.raises(ValueError, match=r"learner.lanes = 2: .* without a critic; write 1"):
        Learner(tiny_llama, with_lanes(2), critic=Critic())
    lora = with_lanes(2, method="lora", lora_rank=4, lora_alpha=8)
    with pytest.raises(ValueError, match=r"learner.lanes = 2"):
        Learner(tiny_llama, lora)


def test_there_are_two_lanes_on_several_threads_unless_told_otherwise(tiny_llama: LoadedModel):
    for threads, wanted, n in ((1, None, 1), (2, None, 2), (8, None, 2), (8, 3, 3)):
        learner = Learner(tiny_llama, with_lanes(1, threads=threads, lanes=wanted))
        assert len(learner._lanes) == n
    torch.set_num_threads(1)


def test_lanes_have_their_share_of_the_threads(tiny_llama: LoadedModel):
    batch = branching_batch(n=6, groups=4)
    learner = Learner(tiny_llama, with_lanes(2, threads=4))
    found: set[int] = set()

    def loss(logp_T: Tensor, index_T: Tensor) -> Tensor:
        found.add(torch.get_num_threads())
        return -logp_T

    weight_T = torch.full((len(batch),), 1 / len(batch))
    learner.step(batch, loss, weight_T, learning_rate=0.0)
    assert (found, torch.get_num_threads()) == ({2}, 4)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_step_sees_the_log_probs_that_were_computed_before_it(
    tiny_llama: LoadedModel, dtype: str
):
    batch = branching_batch(n=6, groups=4)
    learner = Learner(tiny_llama, with_lanes(2, dtype=dtype))
    weight_T = torch.full((len(batch),), 1 / len(batch))
    before_T = learner.logprobs(batch, weight_T)
    seen_T = torch.zeros(len(batch))

    def loss(logp_T: Tensor, index_T: Tensor) -> Tensor:
        seen_T[index_T] = logp_T.detach()
        return -logp_T

    learner.step(batch, loss, weight_T, learning_rate=0.0)
    assert torch.equal(seen_T, before_T)


def test_terms_over_the_vocabulary_and_a_reference_go_through_lanes(
    tiny_llama: LoadedModel, tmp_path
):
    batch = branching_batch(n=6, groups=4)
    other = save_model(tmp_path / "other", llama_config(), seed=5)
    weight_T = torch.full((len(batch),), 1 / len(batch))

    def kl(own_CV: Tensor, reference_CV: Tensor | None, teacher_CV: Tensor | None) -> Tensor:
        assert reference_CV is not None
        own, theirs = own_CV.log_softmax(-1), reference_CV.log_softmax(-1)
        return (own.exp() * (own - theirs)).sum(-1)

    norms, scores = [], []
    for n in (1, 2):
        learner = Learner(tiny_llama, with_lanes(n))
        learner.set_reference(other)
        scores.append(learner.score(batch).reference_logp_T)
        term = VocabularyLoss(kl, reads_reference=True)
        norms.append(
            learner.step(batch, nll, weight_T, learning_rate=0.0, vocabulary=term).grad_norm
        )
    assert norms[1] == pytest.approx(norms[0], rel=1e-5)
    assert torch.equal(scores[0], scores[1])
