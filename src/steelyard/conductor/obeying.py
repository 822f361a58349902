"""What follows from an alarm that ends a run: a pause, or the way back to a good checkpoint."""

from __future__ import annotations

from typing import NoReturn

from steelyard.conductor.checkpoints import last_checkpoint
from steelyard.conductor.context import RunContext
from steelyard.conductor.evaluating import measure_finally
from steelyard.conductor.saving import go_back, save
from steelyard.conductor.watching import PAUSED, ROLLBACK, Paused
from steelyard.monitor.alarms import Alarm
from steelyard.monitor.keeping import last_good_policy
from steelyard.store import RunReader


async def obey(run: RunContext, step: int, alarm: Alarm) -> None:
    """Does what an alarm of step `step`, the latest, asks for: it ends the run."""
    if alarm.action == "rollback":
        await roll_back(run, alarm)
    else:
        await pause(run, step, alarm)


async def pause(run: RunContext, step: int, alarm: Alarm) -> NoReturn:
    """Ends the run so that it goes on from here when it is resumed."""
    await _save_once(run, step)
    text = f"paused after step {step} by the alarm {alarm.name}: {alarm.text}"
    # From here on the alarm counts as obeyed, and a resumed run goes on.
    run.store.add_event(PAUSED, text, step=step, alarm=alarm.name)
    raise Paused(text)


async def end_without_tasks(run: RunContext, step: int) -> NoReturn:
    """Ends a run of which every training task is quarantined."""
    await _save_once(run, step)
    raise Paused(
        f"after step {step} every training task is quarantined; see the view alarms, mend "
        "the verifiers and start another run",
        resumable=False,
    )


async def roll_back(run: RunContext, alarm: Alarm) -> None:
    """Ends the run with the last good checkpoint from before the alarm showed.

    What happened since stays in the record, as the history that led there.
    """
    saved = [s for s in run.store.directory.checkpoint_steps() if s < alarm.step]
    if not saved:
        raise Paused(
            f"the alarm {alarm.name} of step {alarm.step} asks for a rollback, and no "
            "checkpoint from before it is left; start another run",
            resumable=False,
        )
    with RunReader(run.settings.path) as reader:
        good = last_good_policy(reader, saved, alarm.since)
    if good is None:
        good = saved[0]  # nothing is known of the others
    text = (
        f"rolled back from step {alarm.step} to the checkpoint of step {good} by the alarm "
        f"{alarm.name}: {alarm.text}"
    )
    run.listener.note(text)
    # Of no step, or a truncation would forget it; and first, so that a killed process goes on.
    run.store.add_event(ROLLBACK, text, from_step=alarm.step, to_step=good, alarm=alarm.name)
    await end_at(run, good)


async def end_at(run: RunContext, step: int) -> None:
    """Makes checkpoint `step` the last and evaluates it finally."""
    await go_back(run, step)
    await measure_finally(run, step)


async def _save_once(run: RunContext, step: int) -> None:
    if last_checkpoint(run.store.directory) != step:
        await save(run, step)
