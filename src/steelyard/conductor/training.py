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
from collections.abc import Coroutine

from steelyard.conductor.checkpoints import last_checkpoint, remove_after
from steelyard.conductor.context import RunContext, opened
from steelyard.conductor.evaluating import measure, measure_finally
from steelyard.conductor.listener import Listener, StepReport
from steelyard.conductor.noting import Notes
from steelyard.conductor.obeying import end_at, end_without_tasks, obey
from steelyard.conductor.planning import named_reference_of, teacher_of
from steelyard.conductor.saving import hold_reference, restore, save
from steelyard.conductor.settings import RunSettings, as_table
from steelyard.conductor.sinks import SinkListener, require_sinks
from steelyard.conductor.starting import RunTasks, audited, open_store, record_audit
from steelyard.conductor.stepping import Stepper, rehearsal_of
from steelyard.conductor.untouched import suites, untouched
from steelyard.conductor.warm_start import warm_start
from steelyard.conductor.watching import (
    Paused,
    ShortcutScan,
    Watch,
    rolled_back_to,
    strongest,
    unheeded,
)
from steelyard.models import LoadedModel, resolve
from steelyard.monitor.alarms import Alarm
from steelyard.objective import as_table as describe
from steelyard.sandbox import check_available
from steelyard.store import BASE_STEP, WARM_START_STEP, RunReader, RunStore


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
            # What was recorded last may not be scanned yet: the process may have ended in between.
            scan = ShortcutScan(settings.path, tasks.every, Notes(store, listener))
            scan.scan("the evaluation final")
            listener.note("the run is already finished")
            store.finish("finished")
            return
        if screened is not None:
            record_audit(store, screened)
        sinks = SinkListener(listener, settings.sinks, settings.path, as_table(settings))
        asyncio.run(_interruptible(_run(settings, sinks, store, model, tasks)))
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


async def _run(
    settings: RunSettings,
    listener: Listener,
    store: RunStore,
    model: LoadedModel,
    tasks: RunTasks,
) -> None:
    """Everything, in order; what an earlier process already did is not done again."""
    # Read now: one that is not there must not be noticed only after the warm start.
    teacher, reference = teacher_of(settings), named_reference_of(settings)
    async with opened(settings, listener, store, model, tasks, teacher) as run:
        rehearsal = rehearsal_of(run)
        for note in (model.note, run.learner.note):
            if note:
                run.notes.add(note)
        store.add_event("algorithm", json.dumps(describe(settings.built_algorithm)))
        for role, other in (("teacher", teacher), ("reference", reference)):
            if other is not None:
                store.add_event(role, str(other.path))
        await _record_untouched(run)
        good = rolled_back_to(settings.path)
        if good is not None:
            await end_at(run, good)
            return
        done = last_checkpoint(store.directory)
        if done is None:
            done = WARM_START_STEP
            await _begin(run)
        else:
            await restore(run, done)
        if settings.warm_start is not None:
            await measure(run, "warm_start", WARM_START_STEP, "test", policy_step=done)
        await measure(run, "step-0", WARM_START_STEP, "dev", policy_step=done)
        if settings.built_algorithm.needs_reference:
            await hold_reference(run, reference, done)
        if done == WARM_START_STEP:
            await run.on_learner_thread(run.learner.align_critic)
        await _reinforce(run, Stepper(run, rehearsal), done)


async def _record_untouched(run: RunContext) -> None:
    """Which checks of the training tasks pass before anybody works on them."""
    with RunReader(run.settings.path) as reader:
        recorded = reader.untouched()
    waiting = [task for task in run.tasks.train if task.name not in recorded]
    total = sum(len(suites(task)) for task in waiting)
    if not total:
        return
    run.listener.phase("grading the untouched tasks", total)
    found = await asyncio.to_thread(
        untouched, waiting, run.workshop.grader, lambda: run.listener.advance(1)
    )
    run.store.set_untouched(found)


async def _begin(run: RunContext) -> None:
    """From the base model to checkpoint 0."""
    run.store.truncate_after(BASE_STEP)
    remove_after(run.store.directory, BASE_STEP)
    await measure(run, "base", BASE_STEP, "test")
    if run.settings.warm_start is not None:
        await warm_start(run, run.settings.warm_start)
    await save(run, WARM_START_STEP)


async def _reinforce(run: RunContext, stepper: Stepper, done: int) -> None:
    """The RL steps after `done`, and the final evaluation."""
    settings, steps = run.settings, run.settings.rl.steps
    watch = Watch(settings.path, settings.alarms, steps, run.store, run.notes)
    if (waiting := unheeded(settings.path, done)) is not None:
        await obey(run, done, waiting)
        return
    if not stepper.source.leave_out(watch.quarantined):
        await end_without_tasks(run, done)
    run.listener.phase("reinforcement learning", steps, done)
    for step in range(done + 1, steps + 1):
        report = await stepper.take(step)
        decisive = await _after_step(run, report, watch)
        if decisive is not None:
            await obey(run, step, decisive)
            return
        if not stepper.source.leave_out(watch.quarantined):
            await end_without_tasks(run, step)
    await measure_finally(run, steps)


async def _after_step(run: RunContext, report: StepReport, watch: Watch) -> Alarm | None:
    """Looks at the alarms, evaluates and saves, as far as it is time.

    Returns the alarm that ends the run, if one was raised.
    """
    settings, step = run.settings, report.step
    steps, every = settings.rl.steps, settings.evaluation.every_steps
    last = step == steps
    alarms = watch.after_step(step)
    scanning = await asyncio.to_thread(run.shortcuts.scan, f"step {step}")
    run.store.add_metrics(step, "rl", {"seconds_scanning": scanning})
    # Only now, when all of its numbers are recorded; before the evaluation, which takes long.
    run.listener.step(report)
    for alarm in alarms:
        run.listener.alarm(alarm)
    decisive = strongest(alarms)
    if every and run.tasks.dev and (step % every == 0 or last):
        await measure(run, f"step-{step}", step, "dev")
        run.listener.phase("reinforcement learning", steps, step)
    # A policy that is rolled back is not saved: a killed run takes the step again instead.
    rolls_back = decisive is not None and decisive.action == "rollback"
    # After the evaluation, so that a checkpoint means that all of its step is recorded.
    if not rolls_back and (last or step % settings.checkpoint.every_steps == 0):
        await save(run, step)
    return decisive


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
