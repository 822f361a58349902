"""Batches that went wrong: named in the record, so that they can be replayed."""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from steelyard.conductor.update import Plan, Update
from steelyard.store import RunReader, RunStore

BAD_BATCH = "bad_batch"
"""The kind of the event."""
SPIKE = 10.0
"""A gradient norm of this many times the median of the steps before is a spike: the norm before
clipping varies by a factor of two or three from step to step in a healthy run."""
_WINDOW = 20
_FEWEST = 5
SPARED = 2
"""How many checkpoints stay at most so that bad batches can be replayed."""


class GradientWatch:
    """Knows the latest gradient norms; `norms` are those recorded so far."""

    def __init__(self, norms: Iterable[float] = ()) -> None:
        self._norms = deque((n for n in norms if math.isfinite(n) and n > 0), maxlen=_WINDOW)

    def complaint(self, result: Update) -> str:
        """What is wrong with the update's batch, in words; empty if nothing is."""
        norm = result.metrics.grad_norm
        if not (math.isfinite(norm) and math.isfinite(result.metrics.loss)):
            return f"loss {result.metrics.loss:g}, gradient norm {norm:g}"
        usual = statistics.median(self._norms) if len(self._norms) >= _FEWEST else math.inf
        if norm > 0:
            self._norms.append(norm)
        if norm > SPIKE * usual:
            return f"gradient norm {norm:.3g}, {norm / usual:.0f} times the median before"
        return ""


def record_bad_batch(store: RunStore, step: int, plan: Plan, result: Update, why: str) -> None:
    """The event that names the batch to a reader: its episodes, in the batch's order, and how it
    was learned from. Their tokens are in the record already, and `replay` needs only the step."""
    data: dict[str, Any] = {
        "version": result.start_version,
        "episodes": [[e.id, len(e.trajectory.segments)] for e in result.episodes],
        "plan": asdict(plan),
        "loss": finite(result.metrics.loss),
        "grad_norm": finite(result.metrics.grad_norm),
        "moved": not result.metrics.skipped,
    }
    store.add_event(BAD_BATCH, f"step {step}: {why}", step=step, **data)


def spared_checkpoints(reader: RunReader) -> set[int]:
    """The checkpoints that the first bad batches are replayed from: they are not to be deleted.

    Only the first: a run that goes wrong at every step must not fill the disk.
    """
    saved = reader.directory.checkpoint_steps()
    bad = [event.step for event in reader.events(BAD_BATCH) if event.step is not None]
    before = [[s for s in saved if s < step] for step in bad[:SPARED]]
    return {steps[-1] for steps in before if steps}


def finite(value: float | None) -> float | None:
    """The value as JSON has it: None where it is no number."""
    return value if value is not None and math.isfinite(value) else None
