"""What every part of a training run works with: its record, its tasks, its engine and learner."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from steelyard.conductor.listener import Listener
from steelyard.conductor.noting import Notes
from steelyard.conductor.planning import open_learner
from steelyard.conductor.settings import RunSettings
from steelyard.conductor.starting import RunTasks
from steelyard.conductor.watching import ShortcutScan
from steelyard.conductor.workshop import Workshop
from steelyard.learner import Learner
from steelyard.models import LoadedModel, release_threads
from steelyard.store import RunStore

T = TypeVar("T")


class RunContext:
    """The open parts of a run. Engine and learner each live in a thread of their own."""

    def __init__(
        self,
        settings: RunSettings,
        listener: Listener,
        store: RunStore,
        tasks: RunTasks,
        learner: Learner,
        workshop: Workshop,
        learner_thread: ThreadPoolExecutor,
    ) -> None:
        self.settings = settings
        self.listener = listener
        self.store = store
        self.tasks = tasks
        self.learner = learner
        self.workshop = workshop
        self.notes = Notes(store, listener)
        self.shortcuts = ShortcutScan(settings.path, tasks.every, self.notes)
        self._learner_thread = learner_thread

    async def publish(self) -> None:
        """Hands the learner's weights to the engine, under the version of their last update."""
        weights = await self.on_learner_thread(self.learner.weights)
        await asyncio.to_thread(self.workshop.engine.load, weights, self.learner.steps_taken)

    def on_learner_thread(self, job: Callable[[], T]) -> asyncio.Future[T]:
        return _in_thread(self._learner_thread, job)


@asynccontextmanager
async def opened(
    settings: RunSettings,
    listener: Listener,
    store: RunStore,
    model: LoadedModel,
    tasks: RunTasks,
    teacher: LoadedModel | None,
) -> AsyncIterator[RunContext]:
    """Opens learner, engine and graders, and closes them whatever happens."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
    workshop: Workshop | None = None
    try:
        learner = await _in_thread(thread, lambda: open_learner(settings, model, teacher))
        workshop = Workshop(
            model,
            agent=settings.agent,
            engine=settings.engine,
            sandbox=settings.sandbox,
            shaping=settings.shaping,
            tasks=tasks.every,
        )
        yield RunContext(settings, listener, store, tasks, learner, workshop, thread)
    finally:
        if workshop is not None:
            workshop.close()
        # A checkpoint that is being written ends before the run's lock is given up.
        thread.shutdown(wait=True, cancel_futures=True)


def _in_thread(thread: ThreadPoolExecutor, job: Callable[[], T]) -> asyncio.Future[T]:
    release_threads()  # this thread's, which idle while the learner works

    def run() -> T:
        try:
            return job()
        finally:
            release_threads()  # the engine is next

    return asyncio.get_running_loop().run_in_executor(thread, run)
