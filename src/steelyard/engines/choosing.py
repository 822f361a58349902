"""Choosing a model's back end, by trying the fast one against Hugging Face's own forward pass."""

from __future__ import annotations

from typing import Any

import torch

from steelyard.engines.backend import Backend, Row
from steelyard.engines.fast import FastBackend
from steelyard.engines.generic import GenericBackend
from steelyard.engines.lanes import LaneBackend
from steelyard.engines.llama import Llama, unsupported
from steelyard.engines.settings import EngineSettings
from steelyard.models.precision import in_float32

TOLERANCE = {torch.float32: 1e-3, torch.bfloat16: 0.1}
"""Largest mean gap of the log-probs of likely tokens to those in float32, in nats.

In bfloat16 ours reaches 0.05 on SmolLM2 and Hugging Face's own 0.08; a wrong rotation or mask costs
whole nats.
"""

_LIKELY = 20
_RETAINED_PREFIXES = 8


@torch.inference_mode()
def choose_backend(model: Any, settings: EngineSettings) -> tuple[Backend, str]:
    """The back end for a Hugging Face model, and a note where the fast one could not serve.

    Raises:
        ValueError: `backend = "llama"` was asked for and cannot run this model.
    """
    if settings.backend == "generic":
        return GenericBackend(model), ""
    reason = unsupported(model)
    if not reason:
        fast = _fast(model, settings)
        allowed = TOLERANCE[model.dtype]
        # Theirs in float32: a trained policy was refused for the rounding of their own bfloat16.
        with in_float32(model):
            gap = log_prob_gap(fast, model)
        fast.reset()
        if gap <= allowed:
            return fast, ""
        reason = f"log-probs that differ by {gap:.3g} from Hugging Face's (allowed: {allowed:g})"
    if settings.backend == "llama":
        raise ValueError(f'[engine].backend = "llama" cannot run this model: {reason}')
    return GenericBackend(model), f"sampling runs on the generic back end ({reason})"


def _fast(model: Any, settings: EngineSettings) -> Backend:
    threads = settings.threads or torch.get_num_threads()
    usual = 1 if settings.deterministic or model.device.type != "cpu" else min(2, threads)
    n_lanes = settings.lanes or usual
    llama = Llama(model)
    lanes = [
        FastBackend(
            llama,
            prefill_tokens=settings.prefill_tokens,
            idle_cache_bytes=int(settings.idle_cache_gib * 2**30) // n_lanes,
            # In lockstep mode nothing may depend on what ran earlier.
            retained_prefixes=0 if settings.deterministic else _RETAINED_PREFIXES,
        )
        for _ in range(n_lanes)
    ]
    return lanes[0] if n_lanes == 1 else LaneBackend(lanes, max(1, threads // n_lanes))


def log_prob_gap(backend: Backend, model: Any) -> float:
    """max over a few short sequences of mean_v |log p_backend(v) − log p_model(v)|, v likely.

    The sequences share a beginning, differ in length, grow by one token and by several, end in
    guesses, and one of them leaves: each way in which a row meets the cache.
    """
    size = int(model.get_input_embeddings().num_embeddings)
    ids = [(31 * i + 7) % size for i in range(64)]
    rows = [Row(), Row(), Row()]
    for row, tokens in zip(rows, (ids[:24], ids[:20] + ids[40:44], ids[50:55]), strict=True):
        row.set_tokens(tokens)
    gap = _gap(backend, model, rows)
    rows[0].tokens.append(ids[30])
    rows[2].tokens.extend(ids[30:36])
    gap = max(gap, _gap(backend, model, [rows[0], rows[2]]))
    if backend.checks_guesses:
        for row, n in ((rows[0], 3), (rows[1], 2), (rows[2], 0)):
            row.tokens.extend(ids[36 : 37 + n])
            row.guesses = n
        gap = max(gap, _gap(backend, model, rows))
    return gap


def _gap(backend: Backend, model: Any, rows: list[Row]) -> float:
    logits, order = backend.next_logits(rows)
    worst, first = 0.0, 0
    for row in order:
        batch = torch.tensor([row.tokens], device=model.device)
        theirs = model(input_ids=batch, use_cache=False).logits[0, -1 - row.guesses :].float()
        theirs = theirs.log_softmax(-1)
        ours = logits[first : first + len(theirs)].log_softmax(-1)
        first += len(theirs)
        likely = theirs.topk(min(_LIKELY, theirs.shape[-1])).indices
        difference = ours.gather(-1, likely) - theirs.gather(-1, likely)
        worst = max(worst, float(difference.abs().mean(-1).max()))
    return worst if worst == worst else float("inf")
