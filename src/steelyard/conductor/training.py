"""The training run: the only place that knows the order of events.

    base evaluation → warm start → checkpoint 0 → (collect → update → swap → evaluate →
    checkpoint) per step → final evaluation

Engine and learner each live in a thread of their own; this one only coordinates.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, TypeVar

from steelyard.conductor.batches import GradientWatch, record_bad_batch, spared_checkpoints
from steelyard.conductor.checkpoints import last_checkpoint, prune, remove_after
from steelyard.conductor.clock import StepClock
from steelyard.conductor.collect import Collected, GroupSource, next_draw
from steelyard.conductor.evaluation import evaluate, evaluation_report, evaluation_requests
from steelyard.conductor.figures import group_figures
from steelyard.conductor.listener import Listener, StepReport
from steelyard.conductor.planning import (
    held_reference,
    named_reference_of,
    open_learner,
    plan_of,
    teacher_of,
)
from steelyard.conductor.recording import token_fields
from steelyard.conductor.rehearsal import Rehearsal
from steelyard.conductor.reporting import (
    grading_seconds,
    reward_parts,
    step_report,
    update_metrics,
)
from steelyard.conductor.settings import RunSettings, as_table
from steelyard.conductor.sinks import SinkListener, require_sinks
from steelyard.conductor.starting import RunTasks, audited, open_store, record_audit
from steelyard.conductor.untouched import suites, untouched
from steelyard.conductor.update import Update, update
from steelyard.conductor.warm_start import (
    batches,
    demonstrations,
    imitate,
    n_batches,
    rate_of,
    warm_start,
)
from steelyard.conductor.watching import (
    PAUSED,
    ROLLBACK,
    Paused,
    ShortcutScan,
    Watch,
    checkpoints_kept,
    rolled_back_to,
    strongest,
    unheeded,
)
from steelyard.conductor.workshop import Workshop
from steelyard.episodes import Scored
from steelyard.learner import StepMetrics
from steelyard.models import LoadedModel, release_memory, release_threads, resolve
from steelyard.monitor.alarms import Alarm
from steelyard.monitor.keeping import best_policy, last_good_policy
from steelyard.objective import as_table as describe
from steelyard.sandbox import check_available
from steelyard.store import (
    BASE_STEP,
    WARM_START_STEP,
    RunReader,
    RunStore,
)
from steelyard.tasks import Task

T = TypeVar("T")


def train(
    settings: RunSettings, listener: Listener, *, resume: bool = False, accept_audit: bool = False
) -> None:
    """Runs or continues the run that `settings` describes.

    The tasks are audited first; one with a broken verifier is refused unless `accept_audit`, which
    the run's record then names.

    Raises:
        ValueError: the run file, a task or the model is at fault; one sentence.
        OSError: the disk is; what was recorded before is intact.
        Paused: an alarm stopped the run as [alarms] asks; it says whether it can be resumed.
        KeyboardInterrupt: Ctrl-C or SIGTERM; the run can be resumed.
    """
    check_available()
    require_sinks(settings.sinks)
    tasks = RunTasks(settings)
    screened = None if resume else audited(tasks, listener, accept=accept_audit)
    listener.phase("loading the model", None)
    model = resolve(settings.model.path)
    store = open_store(settings, model, resume=resume)
    sinks: SinkListener | None = None
    try:
        if resume and _is_finished(settings):
            listener.note("the run is already finished")
            store.finish("finished")
            return
        if screened is not None:
            record_audit(store, screened)
        sinks = SinkListener(listener, settings.sinks, settings.path, as_table(settings))
        asyncio.run(_interruptible(_Run(settings, sinks, store, model, tasks).run()))
        store.finish("finished")
    except Paused as pause:
        store.finish("interrupted", str(pause))
        raise
    except (KeyboardInterrupt, asyncio.CancelledError):
        store.finish("interrupted", "stopped by the user")
        raise KeyboardInterrupt from None
    except BaseException as error:
        _try_to_record(store, error)
        raise
    finally:
        store.close()
        if sinks is not None:
            sinks.stop()


class _Run:
    def __init__(
        self,
        settings: RunSettings,
        listener: Listener,
        store: RunStore,
        model: LoadedModel,
        tasks: RunTasks,
    ) -> None:
        self._settings = settings
        self._listener = listener
        self._store = store
        self._model = model
        self._tasks = tasks
        self._learner_thread = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self._algorithm = settings.built_algorithm
        # Read now: one that is not there must not be noticed only after the warm start.
        self._teacher, self._reference = teacher_of(settings), named_reference_of(settings)
        self._agreement_is_checked = False
        self._shortcuts = ShortcutScan(settings.path, tasks.every, store, listener)

    async def run(self) -> None:
        """Everything, in order; what an earlier process already did is not done again."""
        workshop: Workshop | None = None
        try:
            self._learner = await self._on_learner_thread(
                lambda: open_learner(self._settings, self._model, self._teacher)
            )
            workshop = self._workshop = Workshop(
                self._model,
                agent=self._settings.agent,
                engine=self._settings.engine,
                sandbox=self._settings.sandbox,
                shaping=self._settings.shaping,
                tasks=self._tasks.every,
            )
            self._rehearsal = self._opened_rehearsal(workshop)
            for note in (self._model.note, self._learner.note):
                if note:
                    self._note(note)
            self._store.add_event("algorithm", json.dumps(describe(self._algorithm)))
            for role, other in (("teacher", self._teacher), ("reference", self._reference)):
                if other is not None:
                    self._store.add_event(role, str(other.path))
            await self._record_untouched()
            good = rolled_back_to(self._settings.path)
            if good is not None:
                await self._end_at(good)
                return
            step = last_checkpoint(self._store.directory)
            if step is None:
                self._store.truncate_after(BASE_STEP)
                remove_after(self._store.directory, BASE_STEP)
                await self._evaluate("base", BASE_STEP, "test", self._tasks.test)
                await self._warm_start()
                step = WARM_START_STEP
                await self._checkpoint(step)
            else:
                await self._restore(step)
            await self._reinforce(step)
        finally:
            if workshop is not None:
                workshop.close()
            # A checkpoint that is being written ends before the run's lock is given up.
            self._learner_thread.shutdown(wait=True, cancel_futures=True)

    async def _record_untouched(self) -> None:
        """Which checks of the training tasks pass before anybody works on them."""
        with RunReader(self._settings.path) as reader:
            recorded = reader.untouched()
        waiting = [task for task in self._tasks.train if task.name not in recorded]
        total = sum(len(suites(task)) for task in waiting)
        if not total:
            return
        self._listener.phase("grading the untouched tasks", total)
        found = await asyncio.to_thread(
            untouched, waiting, self._workshop.grader, lambda: self._listener.advance(1)
        )
        self._store.set_untouched(found)

    async def _warm_start(self) -> None:
        section = self._settings.warm_start
        if section is None:
            return
        total = n_batches(len(self._tasks.demonstrations), section)
        self._listener.phase("warm start", total)
        played = await demonstrations(
            self._tasks.demonstrations,
            self._workshop,
            self._settings.agent,
            run_checks=section.run_checks,
        )

        plan = batches(played, section, self._settings.run.seed)
        number = 0

        def on_batch(metrics: StepMetrics) -> None:
            nonlocal number
            number += 1
            self._listener.advance(1)
            if metrics.skipped:
                self._note(f"warm start batch {number} moved nothing: {metrics.skipped}")
            self._store.add_metrics(
                number,
                "warm_start",
                {
                    "loss": metrics.loss,
                    "grad_norm": metrics.grad_norm,
                    "entropy": metrics.entropy_mean,
                    "seconds_training": metrics.seconds,
                    "tokens_trained": metrics.nodes,
                    "tokens_unpacked": metrics.raw_tokens,
                },
                version=self._learner.steps_taken,
            )

        rate = rate_of(section, len(plan))
        await warm_start(plan, self._learner, rate, on_batch, self._on_learner_thread)
        self._learner.forget_moments()
        await self._publish()

    async def _reinforce(self, done: int) -> None:
        """The RL steps after `done`, with the evaluations around them."""
        if self._settings.warm_start is not None:
            await self._evaluate("warm_start", WARM_START_STEP, "test", self._tasks.test, done)
        await self._evaluate("step-0", WARM_START_STEP, "dev", self._tasks.dev, done)
        if self._algorithm.needs_reference:
            await self._hold_reference(done)
        if done == 0:
            await self._on_learner_thread(self._learner.align_critic)
        rl = self._settings.rl
        with RunReader(self._settings.path) as reader:
            draws = next_draw(group.id for group in reader.groups())
            self._gradients = GradientWatch(norm for _, norm in reader.metric("grad_norm"))
        source = GroupSource(
            self._workshop.rollouts,
            self._tasks.train,
            rl,
            self._settings.run.seed,
            dynamic=self._settings.samples_dynamically,
            draws=draws,
        )
        watch = Watch(
            self._settings.path, self._settings.alarms, rl.steps, self._store, self._listener
        )
        if (waiting := unheeded(self._settings.path, done)) is not None:
            await self._obey(done, waiting)
            return
        if not source.leave_out(watch.quarantined):
            await self._pause(done, None)
        self._listener.phase("reinforcement learning", rl.steps, done)
        for step in range(done + 1, rl.steps + 1):
            report = await self._step(step, source)
            decisive = await self._after_step(report, watch)
            if decisive is not None:
                await self._obey(step, decisive)
                return
            if not source.leave_out(watch.quarantined):
                await self._pause(step, None)
        await self._evaluate_finally(rl.steps)

    async def _evaluate_finally(self, step: int) -> None:
        await self._evaluate("final", step, "test", self._tasks.test)
        if not self._tasks.test:
            await self._evaluate("final", step, "dev", self._tasks.dev)

    async def _obey(self, step: int, alarm: Alarm) -> None:
        """Does what an alarm of step `step`, the latest, asks for: it ends the run."""
        if alarm.action == "rollback":
            await self._roll_back(alarm)
        else:
            await self._pause(step, alarm)

    async def _pause(self, step: int, alarm: Alarm | None) -> NoReturn:
        """Ends the run so that it goes on from here when it is resumed."""
        if last_checkpoint(self._store.directory) != step:
            await self._checkpoint(step)
        if alarm is None:
            raise Paused(
                f"after step {step} every training task is quarantined; see the view alarms, mend "
                "the verifiers and start another run",
                resumable=False,
            )
        text = f"paused after step {step} by the alarm {alarm.name}: {alarm.text}"
        # From here on the alarm counts as obeyed, and a resumed run goes on.
        self._store.add_event(PAUSED, text, step=step, alarm=alarm.name)
        raise Paused(text)

    async def _roll_back(self, alarm: Alarm) -> None:
        """Ends the run with the last checkpoint from before the held-out success was lost.

        What happened since stays in the record, as the history that led there.
        """
        saved = [s for s in self._store.directory.checkpoint_steps() if s < alarm.step]
        if not saved:
            raise Paused(
                f"the alarm {alarm.name} of step {alarm.step} asks for a rollback, and no "
                "checkpoint from before it is left; start another run",
                resumable=False,
            )
        with RunReader(self._settings.path) as reader:
            good = last_good_policy(reader, saved)
        if good is None:
            good = saved[0]  # nothing is known of the others
        text = (
            f"rolled back from step {alarm.step} to the checkpoint of step {good} by the alarm "
            f"{alarm.name}: {alarm.text}"
        )
        self._listener.note(text)
        # Of no step, or a truncation would forget it; and first, so that a killed process goes on.
        self._store.add_event(ROLLBACK, text, from_step=alarm.step, to_step=good, alarm=alarm.name)
        await self._end_at(good)

    async def _end_at(self, step: int) -> None:
        """Makes checkpoint `step` the last and evaluates it finally."""
        directory = self._store.directory
        await self._on_learner_thread(
            lambda: self._learner.load_checkpoint(directory.checkpoint(step))
        )
        remove_after(directory, step)
        await self._publish()
        await self._evaluate_finally(step)

    async def _hold_reference(self, done: int) -> None:
        """The anchor of the KL penalty: the named model, or the policy as RL begins, which a
        resumed run finds in its directory."""
        model = self._reference
        if model is None:
            directory = self._store.directory.reference
            if done == 0:
                await self._on_learner_thread(lambda: self._learner.export(directory))
            model = held_reference(self._store.directory)
        anchor = model
        await self._on_learner_thread(lambda: self._learner.set_reference(anchor))

    async def _step(self, step: int, source: GroupSource) -> StepReport:
        """One RL step, recorded; what watches over it has not looked yet."""
        clock = StepClock(self._workshop.engine)
        progressed = 0.0

        def on_progress(share: float) -> None:
            nonlocal progressed
            self._listener.advance((share - progressed) * 0.8)
            progressed = share

        collected = await source.collect(step, on_progress)
        clock.sampled()
        for group in collected.groups:
            self._store.add_group(
                step, group, "train", group in collected.used, seeds=source.seeds(group)
            )
        _require_some_score(collected)
        release_memory()  # what the engine freed, before the learner takes its share
        clock.training_begins()
        result = await self._on_learner_thread(lambda: self._update(step, collected))
        if result is not None:
            if result.metrics.skipped:
                self._note(f"step {step} moved nothing: {result.metrics.skipped}")
            self._store.set_token_fields(token_fields(result))
            if complaint := self._gradients.complaint(result):
                plan = plan_of(self._settings, step)
                record_bad_batch(self._store, step, plan, result, complaint)
            self._agreement_is_checked = True
        rehearsed = await self._rehearse(step, collected)
        if result is not None or rehearsed:
            await self._publish()
        clock.ends()
        metrics = update_metrics(result)
        report = step_report(
            step,
            collected,
            result,
            seconds=clock.seconds | {"grading": grading_seconds(collected)},
            sampled=clock.tokens_sampled,
            sampling_rate=clock.sampling_rate,
            staleness=metrics.get("staleness"),
        )
        extra = (
            rehearsed
            | reward_parts(collected)
            | group_figures(collected.groups)
            | clock.waiting_seconds(result)
        )
        self._store.add_metrics(
            step,
            "rl",
            report.metrics() | metrics | extra | {"seconds_engine": clock.engine_busy},
            version=self._learner.steps_taken,
        )
        self._listener.advance(1 - 0.8 * progressed)
        return report

    def _opened_rehearsal(self, workshop: Workshop) -> Rehearsal | None:
        if self._settings.rl.rehearsal_rate_fraction == 0:
            return None
        warm_start = self._settings.warm_start
        return Rehearsal(
            self._tasks.train,
            self._tasks.demonstrations or self._tasks.train,
            self._settings.rl.groups_per_step,
            self._settings.run.seed,
            workshop,
            self._settings.agent,
            run_checks=warm_start is None or warm_start.run_checks,
            on_note=self._note,
        )

    async def _rehearse(self, step: int, collected: Collected) -> dict[str, float | None]:
        """One step of imitation after the update; its figures, empty where there is none."""
        if self._rehearsal is None:
            return {}
        batch = await self._rehearsal.batch(step, collected.groups)
        if batch is None:
            return {}
        share = self._settings.rl.rehearsal_rate_fraction
        rate = share * plan_of(self._settings, step).learning_rate
        metrics = await self._on_learner_thread(lambda: imitate(batch, self._learner, rate))
        if metrics.skipped:
            self._note(f"the rehearsal of step {step} moved nothing: {metrics.skipped}")
        return {
            "rehearsal_episodes": float(batch.n_episodes),
            "rehearsal_loss": metrics.loss,
            "rehearsal_grad_norm": metrics.grad_norm,
        }

    def _update(self, step: int, collected: Collected) -> Update | None:
        plan = plan_of(self._settings, step)
        agreement = None if self._agreement_is_checked else self._settings.agreement
        return update(collected.used, self._learner, self._algorithm, plan, agreement)

    async def _after_step(self, report: StepReport, watch: Watch) -> Alarm | None:
        """Looks at the alarms, evaluates and saves, as far as it is time.

        Returns the alarm that ends the run, if one was raised.
        """
        rl, every = self._settings.rl, self._settings.evaluation.every_steps
        step = report.step
        last = step == rl.steps
        alarms = watch.after_step(step)
        scanning = await asyncio.to_thread(self._shortcuts.scan, f"step {step}")
        self._store.add_metrics(step, "rl", {"seconds_scanning": scanning})
        # Only now, when all of its numbers are recorded; before the evaluation, which takes long.
        self._listener.step(report)
        for alarm in alarms:
            self._listener.alarm(alarm)
        decisive = strongest(alarms)
        if every and self._tasks.dev and (step % every == 0 or last):
            await self._evaluate(f"step-{step}", step, "dev", self._tasks.dev)
            self._listener.phase("reinforcement learning", rl.steps, step)
        # A policy that is rolled back is not saved: a killed run takes the step again instead.
        rolls_back = decisive is not None and decisive.action == "rollback"
        # After the evaluation, so that a checkpoint means that all of its step is recorded.
        if not rolls_back and (last or step % self._settings.checkpoint.every_steps == 0):
            await self._checkpoint(step)
        return decisive

    async def _evaluate(
        self,
        name: str,
        step: int,
        split: str,
        tasks: Sequence[Task],
        policy_step: int | None = None,
    ) -> None:
        """Evaluates the present policy, unless that is recorded or it is no longer there."""
        if not tasks or (policy_step is not None and policy_step > step):
            return
        with RunReader(self._settings.path) as reader:
            if any(e.name == name for e in reader.evaluations(split)):
                return
        section = self._settings.evaluation
        samples = section.dev_samples
        if split == "test":
            samples = section.test_samples if name == "final" else section.baseline_samples
        requests = evaluation_requests(name, split, tasks, samples, self._settings.run.seed)
        self._listener.phase(f"evaluating on {split} ({name})", len(requests))
        began = time.monotonic()
        episodes = await evaluate(self._workshop.rollouts, requests, self._listener)
        self._store.add_evaluation(
            name,
            step,
            split,
            episodes,
            seeds=[r.seed for r in requests],
            seconds=time.monotonic() - began,
        )
        self._listener.evaluation(evaluation_report(name, split, episodes))
        await asyncio.to_thread(self._shortcuts.scan, f"the evaluation {name}")

    async def _checkpoint(self, step: int) -> None:
        directory = self._store.directory
        await self._on_learner_thread(
            lambda: self._learner.save_checkpoint(directory.checkpoint(step))
        )
        with RunReader(self._settings.path) as reader:
            best = best_policy(reader, directory.checkpoint_steps())
            spared = spared_checkpoints(reader) | (set() if best is None else {best})
        keep = checkpoints_kept(self._settings.checkpoint.keep, self._settings.alarms)
        prune(directory, keep, spared)

    async def _restore(self, step: int) -> None:
        """Goes back to checkpoint `step`: weights, optimiser, and the record up to there."""
        directory = self._store.directory
        await self._on_learner_thread(
            lambda: self._learner.load_checkpoint(directory.checkpoint(step))
        )
        forgotten = self._store.truncate_after(step)
        remove_after(directory, step)
        await self._publish()
        self._note(f"resumed from step {step}; {forgotten} later episodes are sampled again")

    async def _publish(self) -> None:
        """Hands the learner's weights to the engine, under the version of their last update."""
        weights = await self._on_learner_thread(self._learner.weights)
        await asyncio.to_thread(self._workshop.engine.load, weights, self._learner.steps_taken)

    def _on_learner_thread(self, job: Callable[[], T]) -> asyncio.Future[T]:
        def run() -> T:
            try:
                return job()
            finally:
                release_threads()  # the engine is next

        return asyncio.get_running_loop().run_in_executor(self._learner_thread, run)

    def _note(self, text: str) -> None:
        self._listener.note(text)
        self._store.add_event("note", text)


def _require_some_score(collected: Collected) -> None:
    """A step in which nothing could be scored is broken infrastructure, not a hard task."""
    episodes = [e for g in collected.groups for e in g.episodes]
    if episodes and all(e.unscored for e in episodes):
        outcome = episodes[0].outcome
        assert not isinstance(outcome, Scored)
        raise ValueError(
            f"no episode of this step could be scored: {outcome.cause.value}: {outcome.detail}; "
            "try steelyard doctor and steelyard validate"
        )


async def _interruptible(job: Coroutine[None, None, None]) -> None:
    """Runs `job` so that SIGTERM stops it in order, as Ctrl-C does."""
    current = asyncio.current_task()
    assert current is not None
    if threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, current.cancel)
    await job


def _is_finished(settings: RunSettings) -> bool:
    last = rolled_back_to(settings.path)
    last = settings.rl.steps if last is None else last
    with RunReader(settings.path) as reader:
        return any(e.name == "final" and e.step == last for e in reader.evaluations())


def _try_to_record(store: RunStore, error: BaseException) -> None:
    try:
        store.finish("failed", f"{type(error).__name__}: {error}")
    except (OSError, sqlite3.Error):  # the disk or the record may be what failed
        print("steelyard: the failure could not be recorded", file=sys.stderr)
