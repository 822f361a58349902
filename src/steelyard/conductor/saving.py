"""What a run saves of its policy, and how it goes back to it."""

from __future__ import annotations

from steelyard.conductor.batches import spared_checkpoints
from steelyard.conductor.checkpoints import prune, remove_after
from steelyard.conductor.context import RunContext
from steelyard.conductor.planning import held_reference
from steelyard.conductor.watching import checkpoints_kept
from steelyard.models import LoadedModel
from steelyard.monitor.keeping import best_policy
from steelyard.store import RunReader


async def save(run: RunContext, step: int) -> None:
    """Writes checkpoint `step`, and deletes older ones as far as the run file asks for it."""
    directory = run.store.directory
    await run.on_learner_thread(lambda: run.learner.save_checkpoint(directory.checkpoint(step)))
    with RunReader(run.settings.path) as reader:
        best = best_policy(reader, directory.checkpoint_steps())
        spared = spared_checkpoints(reader) | (set() if best is None else {best})
    keep = checkpoints_kept(run.settings.checkpoint.keep, run.settings.alarms)
    prune(directory, keep, spared)


async def restore(run: RunContext, step: int) -> None:
    """Goes back to checkpoint `step`: weights, optimiser, and the record up to there."""
    await _load(run, step)
    forgotten = run.store.truncate_after(step)
    remove_after(run.store.directory, step)
    await run.publish()
    run.notes.add(f"resumed from step {step}; {forgotten} later episodes are sampled again")


async def go_back(run: RunContext, step: int) -> None:
    """Makes checkpoint `step` the last; what the record has of later steps stays in it."""
    await _load(run, step)
    remove_after(run.store.directory, step)
    await run.publish()


async def hold_reference(run: RunContext, named: LoadedModel | None, done: int) -> None:
    """The anchor of the KL penalty: the `named` model, or the policy as RL begins, which a run
    that is resumed after `done` steps finds in its directory."""
    if named is None and done == 0:
        directory = run.store.directory.reference
        await run.on_learner_thread(lambda: run.learner.export(directory))
    anchor = held_reference(run.store.directory) if named is None else named
    await run.on_learner_thread(lambda: run.learner.set_reference(anchor))


async def _load(run: RunContext, step: int) -> None:
    checkpoint = run.store.directory.checkpoint(step)
    await run.on_learner_thread(lambda: run.learner.load_checkpoint(checkpoint))
