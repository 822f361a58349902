"""How a run's updates are made, as its settings say: for the run itself and for a replay."""

from __future__ import annotations

from steelyard.conductor.checkpoints import model_of
from steelyard.conductor.settings import RunSettings
from steelyard.conductor.update import Plan
from steelyard.learner import Learner, LearningRate
from steelyard.models import LoadedModel, resolve
from steelyard.store import RunDirectory


def plan_of(settings: RunSettings, step: int) -> Plan:
    """How the batch of RL step `step` (from 1) is learned from."""
    rl = settings.rl
    rate = LearningRate(
        peak=rl.learning_rate,
        warmup_steps=rl.warmup_steps,
        decay_steps=max(1, rl.steps),
        final_fraction=rl.final_learning_rate_fraction,
    )
    return Plan(
        learning_rate=rate.at(step - 1),
        temperature=settings.engine.temperature,
        epochs=rl.epochs,
        minibatches=rl.minibatches,
        seed=f"{settings.run.seed} {step}",
    )


def teacher_of(settings: RunSettings) -> LoadedModel | None:
    """The model that teaches; None where the algorithm asks none."""
    if settings.teacher is None or not settings.built_algorithm.needs_teacher:
        return None
    return resolve(model_of(settings.teacher.path))


def named_reference_of(settings: RunSettings) -> LoadedModel | None:
    """The anchor of the KL penalty that the run file names, if it names one and it is needed."""
    if settings.reference.path is None or not settings.built_algorithm.needs_reference:
        return None
    return resolve(model_of(settings.reference.path))


def held_reference(directory: RunDirectory) -> LoadedModel:
    """The policy as RL began, from the run's directory.

    Raises:
        ValueError: it is missing.
    """
    if not directory.reference.is_dir():
        raise ValueError(
            f"{directory.reference}: the reference of this run is missing; restore it, or start "
            "another run"
        )
    return resolve(str(directory.reference))


def open_learner(settings: RunSettings, model: LoadedModel, teacher: LoadedModel | None) -> Learner:
    """The learner of the run, with its critic and teacher if the algorithm wants them."""
    return Learner(model, settings.learner, critic=settings.built_algorithm.critic, teacher=teacher)
