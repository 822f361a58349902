"""One episode in the open: a person is the policy, or watches a model be it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from steelyard.agents import AgentSettings, Policy, attempt
from steelyard.conductor.checkpoints import model_of
from steelyard.conductor.workshop import sandbox_for
from steelyard.engines import EngineSettings, Sample, TorchEngine
from steelyard.episodes import Outcome, StopReason
from steelyard.grading import Grader
from steelyard.models import EMBEDDED, ChatRenderer, LoadedModel, resolve
from steelyard.sandbox import SandboxPool, SandboxSettings, check_available
from steelyard.tasks import Task


@dataclass(frozen=True, slots=True)
class Played:
    """How it ended. `outcome` is None if nothing was handed in; so is `heldout`."""

    stop_reason: StopReason
    outcome: Outcome | None
    heldout: Outcome | None


def play_episode(
    task: Task,
    *,
    model: str | None,
    temperature: float,
    seed: int,
    ask: Callable[[], str],
    show: Callable[[str], None],
) -> Played:
    """Runs and grades one episode, showing every text as it comes.

    Args:
        model: who plays; None asks the person at `ask`, in the default model's chat template.
    """
    check_available()
    loaded = resolve(model_of(model) if model else EMBEDDED)
    settings = AgentSettings() if model else AgentSettings(max_turns=50, max_turn_tokens=2048)
    if model is None:
        return _played(task, _Person(loaded, ask), loaded, settings, show)
    engine = TorchEngine(loaded, EngineSettings(temperature=temperature, max_rows=1))
    try:
        return _played(task, engine.open(seed), loaded, settings, show)
    finally:
        engine.close()


def _played(
    task: Task,
    policy: Policy,
    loaded: LoadedModel,
    settings: AgentSettings,
    show: Callable[[str], None],
) -> Played:
    renderer = ChatRenderer(loaded.tokenizer)
    sandboxes = SandboxPool(sandbox_for([task], SandboxSettings()))
    try:
        finished = asyncio.run(
            attempt(
                task,
                _Shown(policy, renderer, show),
                renderer,
                loaded.stop_ids,
                sandboxes,
                settings,
            )
        )
    finally:
        sandboxes.close()
    if finished.stop_reason is not StopReason.SUBMITTED:
        return Played(finished.stop_reason, None, None)
    grader = Grader()
    try:
        outcome = (
            grader.grade_steps(task, finished.workspaces)
            if task.steps
            else grader.grade(task, finished.files)
        )
        heldout = grader.grade(task, finished.files, heldout=True) if task.heldout else None
    finally:
        grader.close()
    return Played(finished.stop_reason, outcome, heldout)


class _Shown:
    """Shows what the policy reads and what it answers."""

    def __init__(self, policy: Policy, renderer: ChatRenderer, show: Callable[[str], None]) -> None:
        self._policy, self._renderer, self._show = policy, renderer, show
        self._shown = 0

    async def sample(self, token_ids: Sequence[int], *, max_new_tokens: int) -> Sample:
        self._show(self._renderer.decode(token_ids[self._shown :]))
        sample = await self._policy.sample(token_ids, max_new_tokens=max_new_tokens)
        if not isinstance(self._policy, _Person):  # who has just typed it
            self._show(self._renderer.decode(sample.token_ids))
        self._shown = len(token_ids) + len(sample.token_ids)
        return sample


class _Person:
    """A policy that types."""

    def __init__(self, loaded: LoadedModel, ask: Callable[[], str]) -> None:
        self._loaded, self._ask = loaded, ask

    async def sample(self, token_ids: Sequence[int], *, max_new_tokens: int) -> Sample:
        text = await asyncio.to_thread(self._ask)
        ids = list(self._loaded.tokenizer(text, add_special_tokens=False).input_ids)
        ids = [*ids[: max_new_tokens - 1], self._loaded.turn_end_id]
        return Sample(ids, [0.0] * len(ids), [-1] * len(ids), stopped=True)
