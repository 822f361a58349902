"""An update once more, from the record: what a batch that went wrong did to the weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from steelyard.conductor.planning import (
    held_reference,
    named_reference_of,
    open_learner,
    plan_of,
    teacher_of,
)
from steelyard.conductor.settings import RunSettings, made_deterministic
from steelyard.conductor.update import Update, update
from steelyard.episodes import Group
from steelyard.learner import Batch, Learner
from steelyard.models import resolve
from steelyard.store import WARM_START_STEP, RunReader


@dataclass(frozen=True, slots=True)
class Replay:
    """One update computed again.

    It began from checkpoint `checkpoint`, over the recorded updates between. `update` is None
    where nothing could be learned from. `recorded_loss` and `recorded_grad_norm` are those of the
    run, NaN where they were not finite, None where it recorded none.
    """

    step: int
    checkpoint: int
    update: Update | None
    recorded_loss: float | None
    recorded_grad_norm: float | None


@dataclass(frozen=True, slots=True)
class EpisodeShare:
    """One episode's part in an update, over its trained tokens.

    `advantage` is their mean credit; `lowest_logp` the least likely token under the policy before
    the update, in nats; NaN or −inf in either is what made a loss no number. `entropy` is the mean.
    """

    episode: str
    tokens: int
    advantage: float
    lowest_logp: float
    entropy: float


def episode_shares(update: Update) -> list[EpisodeShare]:
    """Every episode with a trained token: what is no number first, then by `lowest_logp`."""
    shares = []
    for e, episode in enumerate(update.episodes):
        mine_T = update.trained_T & (update.batch.episode_T == e)
        if not mine_T.any():
            continue
        shares.append(
            EpisodeShare(
                episode.id,
                int(mine_T.sum()),
                float(update.advantage_T[mine_T].mean()),
                float(update.prox_logp_T[mine_T].min()),
                float(update.entropy_T[mine_T].mean()),
            )
        )

    def order(share: EpisodeShare) -> tuple[bool, float]:
        known = math.isfinite(share.advantage) and math.isfinite(share.lowest_logp)
        return known, share.lowest_logp if known else 0.0

    return sorted(shares, key=order)


def recorded_groups(reader: RunReader, step: int) -> list[Group]:
    """The groups that entered the batch of RL step `step`, in order, as they were sampled."""
    return [
        Group(
            group.id,
            group.task,
            [reader.episode(record.id) for record in reader.episode_records(group=group.id)],
        )
        for group in reader.groups(step=step)
        if group.used
    ]


def recorded_batch(reader: RunReader, step: int) -> Batch:
    """The batch of RL step `step`: its scored episodes, in order."""
    groups = recorded_groups(reader, step)
    return Batch.from_episodes([e for g in groups for e in g.episodes if not e.unscored])


def replay(run: Path, step: int) -> Replay:
    """Computes the update of RL step `step` again; the run's directory stays as it is.

    The learner starts from the last checkpoint before the step and takes the recorded updates in
    between. For a run with `run.deterministic = true` on the same machine the result is the
    original to the last bit; otherwise it differs by rounding.

    Raises:
        RunNotFound, UnknownSchema: there is no such run.
        ValueError: the step was not recorded, no checkpoint before it is left, or rehearsal
            (`rl.rehearsal_rate_fraction`) lies between that checkpoint and the step.
    """
    with RunReader(run) as reader:
        values = {record.step: record.values for record in reader.steps("rl")}
        if step not in values:
            raise ValueError(f"{run}: RL step {step} is not recorded; choose 1 to {len(values)}")
        earlier = [s for s in reader.directory.checkpoint_steps() if s < step]
        if not earlier:
            raise ValueError(
                f"{run}: no checkpoint before step {step} is left to replay from; raise "
                "checkpoint.keep in the next run"
            )
        if any("rehearsal_episodes" in values[n] for n in range(earlier[-1] + 1, step)):
            raise ValueError(
                f"{run}: between checkpoint {earlier[-1]} and step {step} the run imitated "
                "references, which are not recorded; set checkpoint.every_steps = 1 in the next run"
            )
        settings = made_deterministic(RunSettings.model_validate(reader.config()))
        learner = _restored(settings, reader, earlier[-1])
        result = None
        for number in range(earlier[-1] + 1, step + 1):
            result = update(
                recorded_groups(reader, number),
                learner,
                settings.built_algorithm,
                plan_of(settings, number),
            )
        return Replay(
            step, earlier[-1], result, values[step].get("loss"), values[step].get("grad_norm")
        )


def _restored(settings: RunSettings, reader: RunReader, checkpoint: int) -> Learner:
    """The learner as it was at a checkpoint."""
    learner = open_learner(settings, resolve(settings.model.path), teacher_of(settings))
    learner.load_checkpoint(reader.directory.checkpoint(checkpoint))
    if settings.built_algorithm.needs_reference:
        learner.set_reference(named_reference_of(settings) or held_reference(reader.directory))
    if checkpoint == WARM_START_STEP:
        learner.align_critic()  # as the run does, after it has saved this checkpoint
    return learner
