from __future__ import annotations

import pytest
import torch

from steelyard.episodes import Segment, Trajectory
from steelyard.learner import Batch, Learner, LearnerSettings
from steelyard.models import EMBEDDED, load_weights, resolve

PROMPT = "<|im_start|>user\nWrite a Python function that adds two numbers.<|im_end|>\n"
HEAD = "<|im_start|>assistant\n"
ANSWERS = (
    HEAD + "Here it is:\n```python\ndef add(a, b):\n    return a + b\n```<|im_end|>",
    HEAD + "Here it is:\n```python\ndef add(x, y):\n    return x + y\n```<|im_end|>",
    HEAD + "Sure.\n\ndef add_numbers(a, b):\n    return a + b<|im_end|>",
)


@pytest.mark.smollm2
def test_the_embedded_model_packs_scores_and_learns():
    loaded = resolve(EMBEDDED)
    trajectories = []
    for answer in ANSWERS:
        segment = Segment()
        segment.append_context(loaded.tokenizer.encode(PROMPT, add_special_tokens=False))
        ids = loaded.tokenizer.encode(answer, add_special_tokens=False)
        segment.append_action(ids, [0.0] * len(ids), [0] * len(ids))
        trajectories.append(Trajectory([segment]))
    batch = Batch.from_trajectories(trajectories)
    learner = Learner(loaded, LearnerSettings(threads=1))
    assert not learner.note
    before = learner.score(batch).logp_T

    reference = load_weights(loaded, torch.float32)
    reference.load_state_dict(learner.weights(torch.float32))
    with torch.no_grad():
        for segment, ids in enumerate(batch.token_ids):
            logp = reference(torch.from_numpy(ids)[None]).logits[0].log_softmax(-1)
            rows = batch.segment_T == segment
            want = logp[batch.position_T[rows] - 1, batch.target_T[rows]]
            assert float((before[rows] - want).abs().mean()) < 0.05

    # A step on some of the episodes sees the very numbers that were scored for it: in bfloat16
    # another packing moves them by .02, which GSPO's window of 3e-4 would take for a change.
    some_T = torch.where(batch.episode_T == 1, 0.0, 1.0 / len(batch))
    scored_T = learner.logprobs(batch, some_T)
    seen_T = torch.zeros(len(batch))

    def look(logp_T: torch.Tensor, index_T: torch.Tensor) -> torch.Tensor:
        assert torch.equal(index_T, index_T.sort().values)
        seen_T[index_T] = logp_T.detach()
        return -logp_T

    learner.step(batch, look, some_T, learning_rate=0.0)
    ran_T = some_T != 0
    assert torch.equal(seen_T[ran_T], scored_T[ran_T])
    assert scored_T[~ran_T].isnan().all()
    assert not torch.equal(seen_T[some_T != 0], before[some_T != 0]), "so the bins do matter"

    weight_T = torch.full((len(batch),), 1.0 / len(batch))
    for _ in range(3):
        metrics = learner.step(batch, lambda logp, _: -logp, weight_T, learning_rate=5e-5)
        assert not metrics.skipped
    assert metrics.nodes < 0.7 * metrics.raw_tokens
    assert float(learner.score(batch).logp_T.mean()) > float(before.mean()) + 0.1
