"""How long the parts of a step took, and who waited for whom."""

from __future__ import annotations

import time

from steelyard.conductor.update import Update
from steelyard.engines import Engine


class StepClock:
    """Started with a step; told of its two turning points and its end.

    `seconds` are wall time by part; `engine_busy` is the engine's time in its model.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._before = engine.stats
        self._began = time.monotonic()
        self._training_began = self._began
        self.seconds: dict[str, float] = {}
        self.tokens_sampled = 0
        self.engine_busy = 0.0

    def sampled(self) -> None:
        """All episodes of the step are there."""
        stats = self._engine.stats
        self.seconds["sampling"] = time.monotonic() - self._began
        self.tokens_sampled = stats.sampled_tokens - self._before.sampled_tokens
        self.engine_busy = stats.busy_seconds - self._before.busy_seconds

    def training_begins(self) -> None:
        """The episodes are recorded, and the learner is next."""
        self._training_began = time.monotonic()

    def ends(self) -> None:
        """The engine has the new weights."""
        self.seconds["training"] = time.monotonic() - self._training_began

    @property
    def sampling_rate(self) -> float | None:
        """Tokens a second of the engine's busy time."""
        return self.tokens_sampled / self.engine_busy if self.engine_busy else None

    def waiting_seconds(self, result: Update | None) -> dict[str, float | None]:
        """Seconds of the step in which the engine ran no model, and the learner no optimiser step.

        In a synchronous run each waits while the other works; what the engine waits beyond the
        training time it spends on tools, grading and prompts that are not yet there.
        """
        whole = time.monotonic() - self._began
        learning = result.metrics.seconds if result is not None else 0.0
        return {
            "engine_waiting_seconds": whole - self.engine_busy,
            "learner_waiting_seconds": whole - learning,
        }
