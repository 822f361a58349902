"""Episodes from requests: the agent acts, then the grader judges."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from steelyard.agents import AgentSettings, Attempt, attempt
from steelyard.engines import Engine, EngineError, Session
from steelyard.episodes import (
    Cause,
    Episode,
    Group,
    Outcome,
    Scored,
    StopReason,
    Trajectory,
    Unscored,
)
from steelyard.grading import Grader, ShapingSettings
from steelyard.grading.shaping import shaped, share_passed
from steelyard.models import ChatRenderer
from steelyard.sandbox import SandboxError, SandboxPool, SandboxUnavailable
from steelyard.tasks import Task

NO_SHAPING = ShapingSettings()


@dataclass(frozen=True, slots=True)
class Request:
    """One episode to run. `seed` decides every random choice of it; `train`: it is learned from,
    so its reward is shaped."""

    id: str
    group: str
    task: Task
    seed: int
    train: bool = False


def seed_of(*parts: object) -> int:
    """A 63-bit seed that depends on every part and on nothing else."""
    digest = hashlib.sha256("\x1f".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def group_requests(task: Task, group: str, size: int, run_seed: int) -> list[Request]:
    """The episodes of one group, to be learned from."""
    return [
        Request(f"{group}/{i}", group, task, seed_of(run_seed, group, task.name, i), train=True)
        for i in range(size)
    ]


class Rollouts:
    """Runs episodes, at most `concurrency` at a time.

    Under `lockstep` they run in waves of that size: the sessions of a wave are opened in order
    before any of them samples, so that the engine's batches do not depend on timing.
    """

    def __init__(
        self,
        engine: Engine,
        grader: Grader,
        renderer: ChatRenderer,
        stop_ids: frozenset[int],
        sandboxes: SandboxPool,
        settings: AgentSettings,
        *,
        concurrency: int,
        lockstep: bool,
        shaping: ShapingSettings = NO_SHAPING,
    ) -> None:
        self._engine = engine
        self._grader = grader
        self._renderer = renderer
        self._stop_ids = stop_ids
        self._sandboxes = sandboxes
        self._settings = settings
        self._shaping = shaping
        self._concurrency = concurrency
        self._slots = asyncio.Semaphore(concurrency)
        self._grading = ThreadPoolExecutor(max_workers=4, thread_name_prefix="grading")
        self.lockstep = lockstep

    async def episodes(
        self, requests: Sequence[Request], on_done: Callable[[Episode], None] = lambda _: None
    ) -> list[Episode]:
        """Runs all requests; the result is in their order. Cancelling ends them all."""
        if not self.lockstep:
            return await _gather([self._when_free(r, on_done) for r in requests])
        episodes: list[Episode] = []
        for start in range(0, len(requests), self._concurrency):
            wave = requests[start : start + self._concurrency]
            sessions = [self._engine.open(r.seed) for r in wave]
            episodes += await _gather(
                [self._run(r, s, on_done) for r, s in zip(wave, sessions, strict=True)]
            )
        return episodes

    async def group(
        self, requests: Sequence[Request], on_done: Callable[[Episode], None] = lambda _: None
    ) -> Group:
        """Runs the episodes of one group."""
        episodes = await self.episodes(requests, on_done)
        return Group(requests[0].group, requests[0].task.name, episodes)

    def close(self) -> None:
        """Stops the grading threads."""
        self._grading.shutdown(wait=False, cancel_futures=True)

    async def _when_free(self, request: Request, on_done: Callable[[Episode], None]) -> Episode:
        async with self._slots:
            return await self._run(request, self._engine.open(request.seed), on_done)

    async def _run(
        self, request: Request, session: Session, on_done: Callable[[Episode], None]
    ) -> Episode:
        try:
            finished = await attempt(
                request.task,
                session,
                self._renderer,
                self._stop_ids,
                self._sandboxes,
                self._settings,
            )
            episode = await self._graded(request, finished)
        except (EngineError, SandboxUnavailable):
            raise  # no episode can go on without the engine, or on such a machine
        except SandboxError as error:
            episode = _failed(request, Cause.SANDBOX_FAILURE, error)
        except Exception as error:  # one failed episode must not end the run; it is counted
            episode = _failed(request, Cause.INFRASTRUCTURE_FAILURE, error)
        finally:
            session.close()
        on_done(episode)
        return episode

    async def _graded(self, request: Request, finished: Attempt) -> Episode:
        grading = _Grading(self._grading)
        task, heldout = request.task, None
        outcome: Outcome = Scored(0.0)  # never handed in: worth nothing, and no check is run
        submitted = finished.stop_reason is StopReason.SUBMITTED
        if submitted or task.steps:  # the steps that were submitted keep what they earned
            outcome = await self._grade(grading, task, finished, heldout=False)
        if submitted and task.heldout is not None:
            heldout = await self._grade(grading, task, finished, heldout=True)
        elif task.heldout is not None:
            heldout = Scored(0.0)
        potentials: tuple[float, ...] = ()
        if request.train and isinstance(outcome, Scored):
            outcome = shaped(
                outcome,
                self._shaping,
                length_tokens=max(map(len, finished.trajectory.segments)),
                longest=self._settings.max_episode_tokens,
                action_tokens=finished.trajectory.n_action_tokens,
            )
            if self._shaping.potential and task.answer is None:
                outcome, potentials = await self._potentials(
                    grading, task, outcome, finished.states
                )
        return Episode(
            id=request.id,
            task=task.name,
            group=request.group,
            trajectory=finished.trajectory,
            outcome=outcome,
            stop_reason=finished.stop_reason,
            heldout=heldout,
            files=finished.files,
            seconds={**finished.seconds, "grading": grading.seconds},
            kind=task.kind,
            potentials=potentials,
        )

    async def _potentials(
        self,
        grading: _Grading,
        task: Task,
        outcome: Scored,
        states: Sequence[Mapping[str, bytes]],
    ) -> tuple[Outcome, tuple[float, ...]]:
        """The potential of each state. One that cannot be graded makes the episode Unscored:
        without it the rewards of its turns are not known."""
        known: dict[frozenset[tuple[str, bytes]], float] = {}
        potentials = []
        for state in states:
            key = frozenset(state.items())
            if key not in known:
                graded = await grading.run(partial(self._grader.grade, task, state))
                if isinstance(graded, Unscored):
                    return graded, ()
                known[key] = self._shaping.potential * share_passed(graded)
            potentials.append(known[key])
        return outcome, tuple(potentials)

    async def _grade(
        self, grading: _Grading, task: Task, finished: Attempt, *, heldout: bool
    ) -> Outcome:
        if task.steps and not heldout:
            return await grading.run(lambda: self._grader.grade_steps(task, finished.workspaces))
        return await grading.run(lambda: self._grader.grade(task, finished.files, heldout=heldout))


class _Grading:
    """Grades one episode in the grading threads; `seconds` is what that took, without the wait for
    a free thread."""

    def __init__(self, threads: ThreadPoolExecutor) -> None:
        self._threads = threads
        self.seconds = 0.0

    async def run(self, grade: Callable[[], Outcome]) -> Outcome:
        def timed() -> Outcome:
            began = time.monotonic()
            try:
                return grade()
            finally:
                self.seconds += time.monotonic() - began

        return await asyncio.get_running_loop().run_in_executor(self._threads, timed)


def _failed(request: Request, cause: Cause, error: Exception) -> Episode:
    return Episode(
        id=request.id,
        task=request.task.name,
        group=request.group,
        trajectory=Trajectory(),
        outcome=Unscored(cause, f"{type(error).__name__}: {error}"),
        stop_reason=StopReason.FAILED,
        kind=request.task.kind,
    )


async def _gather(jobs: Sequence[Coroutine[Any, Any, Episode]]) -> list[Episode]:
    """All results in order; the first error, or a cancellation, ends the others first."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(job) for job in jobs]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from errors
    return [task.result() for task in tasks]
