"""What an update saw of its tokens, segment by segment, as the store takes it."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.conductor.update import Update
from steelyard.store import TokenFields


def token_fields(result: Update) -> Iterator[TokenFields]:
    """The fields of every segment of the batch; entropy, log-ratio and limits only of those that
    an optimiser step ran."""
    start = 0
    ran_T = ~result.entropy_T.isnan()
    for episode in result.episodes:
        for i, segment in enumerate(episode.trajectory.segments):
            part = slice(start, start + segment.n_action_tokens)
            start = part.stop
            ran = bool(ran_T[part].any())
            yield TokenFields(
                episode.id,
                i,
                prox_logp=result.prox_logp_T[part].numpy(),
                advantage=result.advantage_T[part].numpy(),
                entropy=result.entropy_T[part].numpy() if ran else None,
                log_ratio=result.log_ratio_T[part].numpy() if ran else None,
                limited=result.limited_T[part].numpy() if ran else None,
            )
    assert start == len(result.batch)
