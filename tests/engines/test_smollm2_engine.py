"""The embedded model on the engine: log-probs of sampled tokens against Hugging Face's."""

from __future__ import annotations

import asyncio

import pytest
import torch

from steelyard.engines import EngineSettings, Sample, TorchEngine
from steelyard.models import EMBEDDED, load_weights, resolve

pytestmark = pytest.mark.smollm2

PROMPT = (
    "<|im_start|>user\nName the capital of France.<|im_end|>\n<|im_start|>assistant\nThe capital of"
)


@pytest.mark.parametrize(("dtype", "allowed"), [("bfloat16", 0.05), ("float32", 1e-4)])
def test_the_log_probs_of_sampled_tokens_are_hugging_faces(dtype: str, allowed: float) -> None:
    """In bfloat16 Hugging Face differs from itself by 0.03 here when only the batch size changes;

    the base model at temperature 1 is far less certain than a trained policy.
    """
    loaded = resolve(EMBEDDED)
    prompt = loaded.tokenizer.encode(PROMPT, add_special_tokens=False)

    async def run(engine: TorchEngine) -> list[Sample]:
        return await asyncio.gather(
            *(engine.open(seed).sample(prompt, max_new_tokens=24) for seed in range(8))
        )

    engine = TorchEngine(loaded, EngineSettings(dtype=dtype, threads=1))
    assert (engine.backend, engine.note) == ("llama", "")
    samples = asyncio.run(run(engine))
    engine.close()
    assert "Paris" in "".join(loaded.tokenizer.decode(s.token_ids) for s in samples)
    model = load_weights(loaded, getattr(torch, dtype))
    gaps: list[float] = []
    for sample in samples:
        tokens = torch.tensor([prompt + sample.token_ids])
        with torch.inference_mode():
            hidden = model.model(input_ids=tokens).last_hidden_state[0, len(prompt) - 1 : -1]
            logits = hidden.float() @ model.lm_head.weight.float().t()
        expected = logits.log_softmax(-1).gather(-1, tokens[0, len(prompt) :, None])[:, 0]
        gaps += (torch.tensor(sample.logp) - expected).abs().tolist()
    assert sum(gaps) / len(gaps) < allowed
