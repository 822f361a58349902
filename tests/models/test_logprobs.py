from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.models.logprobs import token_logprobs
from steelyard.models.precision import bfloat16_products


def _operands(t: int, d: int, v: int, dtype: torch.dtype, seed: int = 0):
    g = torch.Generator().manual_seed(seed)
    hidden = torch.randn(t, d, generator=g, dtype=torch.float64).to(dtype)
    head = torch.randn(v, d, generator=g, dtype=torch.float64).to(dtype)
    target = torch.randint(0, v, (t,), generator=g)
    return hidden.requires_grad_(), head.requires_grad_(), target


def _plain(hidden, head, target, temperature):
    logp = ((hidden @ head.T) / temperature).log_softmax(-1)
    return logp.gather(1, target[:, None])[:, 0], -(logp.exp() * logp).sum(-1)


@given(
    t=st.integers(1, 9),
    v=st.integers(1, 40),
    chunk=st.integers(1, 45),
    temperature=st.sampled_from([0.5, 1.0, 1.7]),
    seed=st.integers(0, 99),
)
@settings(max_examples=60, deadline=None)
def test_values_and_gradients_equal_plain_log_softmax_for_any_chunk(t, v, chunk, temperature, seed):
    hidden, head, target = _operands(t, 5, v, torch.float64, seed)
    got, entropy = token_logprobs(
        hidden,
        head,
        target,
        temperature=temperature,
        chunk_vocabulary=chunk,
        with_entropy=True,
    )
    want, want_entropy = _plain(hidden, head, target, temperature)
    torch.testing.assert_close(got, want, atol=1e-9, rtol=1e-9)
    torch.testing.assert_close(entropy, want_entropy, atol=1e-9, rtol=1e-9)
    assert entropy is not None
    assert not entropy.requires_grad
    outer = torch.linspace(-1, 2, t, dtype=torch.float64)
    for a, b in zip(
        torch.autograd.grad((got * outer).sum(), (hidden, head)),
        torch.autograd.grad((want * outer).sum(), (hidden, head)),
        strict=True,
    ):
        torch.testing.assert_close(a, b, atol=1e-9, rtol=1e-9)


def test_gradcheck():
    hidden, head, target = _operands(4, 3, 11, torch.float64)
    assert torch.autograd.gradcheck(
        lambda h, w: token_logprobs(h, w, target, temperature=0.8, chunk_vocabulary=4)[0],
        (hidden, head),
    )


def test_gradient_of_one_operand_alone():
    hidden, head, target = _operands(4, 3, 11, torch.float64)
    want = torch.autograd.grad(_plain(hidden, head, target, 1.0)[0].sum(), hidden)[0]
    got = torch.autograd.grad(token_logprobs(hidden, head.detach(), target)[0].sum(), hidden)[0]
    torch.testing.assert_close(got, want)


def test_bfloat16_operands_lose_nothing_in_the_logits():
    hidden, head, target = _operands(32, 64, 3000, torch.bfloat16)
    got, _ = token_logprobs(hidden, head, target)
    assert got.dtype == torch.float32
    want, _ = _plain(hidden.double(), head.double(), target, 1.0)
    # Rounding the logits to bfloat16 would be off by up to 0.06 at these sizes.
    assert float((got - want).detach().abs().max()) < 1e-4
    grads = torch.autograd.grad(got.sum(), (hidden, head))
    wants = torch.autograd.grad(want.sum(), (hidden, head))
    for a, b in zip(grads, wants, strict=True):
        assert float((a.double() - b).norm() / b.norm()) < 1e-2


def test_extreme_logits_stay_finite():
    hidden = torch.full((2, 1), 100.0)
    head = torch.tensor([[100.0], [-100.0], [0.0]])
    logp, entropy = token_logprobs(
        hidden, head, torch.tensor([0, 1]), chunk_vocabulary=1, with_entropy=True
    )
    assert logp.tolist() == [0.0, -20000.0]
    assert entropy is not None
    assert entropy.tolist() == [0.0, 0.0]


@pytest.mark.skipif(
    not hasattr(getattr(torch.backends.mkldnn, "matmul", None), "fp32_precision"),
    reason="this torch has no such switch",
)
def test_the_process_wide_switch_is_restored_by_the_last_holder():
    switch = torch.backends.mkldnn.matmul
    before = switch.fp32_precision
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with bfloat16_products():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with bfloat16_products():
        thread.start()
        assert entered.wait(10)
    assert switch.fp32_precision == "bf16"
    leave.set()
    thread.join()
    assert switch.fp32_precision == before
