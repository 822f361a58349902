"""One RL step: sample groups, learn from them, rehearse, hand the weights over, record it all."""

from __future__ import annotations

from steelyard.conductor.batches import GradientWatch, record_bad_batch
from steelyard.conductor.clock import StepClock
from steelyard.conductor.collect import Collected, GroupSource, next_draw
from steelyard.conductor.context import RunContext
from steelyard.conductor.figures import group_figures
from steelyard.conductor.listener import StepReport
from steelyard.conductor.planning import plan_of
from steelyard.conductor.recording import token_fields
from steelyard.conductor.rehearsal import Rehearsal
from steelyard.conductor.reporting import (
    grading_seconds,
    reward_parts,
    step_report,
    update_metrics,
)
from steelyard.conductor.update import Update, update
from steelyard.conductor.warm_start import imitate
from steelyard.curriculum import Seen
from steelyard.episodes import Scored
from steelyard.models import release_memory, release_threads
from steelyard.store import RunReader

_SAMPLING_SHARE = 0.8
"""Of a step's progress."""


class Stepper:
    """Takes the RL steps of a run, from where its record ends.

    Raises: ValueError from `take` where nothing of the step could be scored.
    """

    def __init__(self, run: RunContext, rehearsal: Rehearsal | None) -> None:
        self._run = run
        self._rehearsal = rehearsal
        self._algorithm = run.settings.built_algorithm
        self._agreement_is_checked = False
        with RunReader(run.settings.path) as reader:
            groups = reader.groups()
            self._gradients = GradientWatch(norm for _, norm in reader.metric("grad_norm"))
        self.source = GroupSource(
            run.workshop.rollouts,
            run.tasks.train,
            run.settings.rl,
            run.settings.run.seed,
            dynamic=run.settings.samples_dynamically,
            draws=next_draw(group.id for group in groups),
            seen=[Seen.of(g.step, g.kind, g.rewards) for g in groups],
        )

    async def take(self, step: int) -> StepReport:
        """One RL step, recorded; what watches over it has not looked yet."""
        run = self._run
        clock = StepClock(run.workshop.engine)
        progressed = 0.0

        def on_progress(share: float) -> None:
            nonlocal progressed
            run.listener.advance((share - progressed) * _SAMPLING_SHARE)
            progressed = share

        collected = await self.source.collect(step, on_progress)
        clock.sampled()
        for group in collected.groups:
            seeds = self.source.seeds(group)
            run.store.add_group(step, group, "train", group in collected.used, seeds=seeds)
        _require_some_score(collected)
        release_memory()  # what the engine freed, before the learner takes its share
        clock.training_begins()
        result = await self._learn(step, collected)
        rehearsed = await self._rehearse(step, collected)
        if result is not None or rehearsed:
            await run.publish()
        clock.ends()
        report = self._record(step, collected, result, rehearsed, clock)
        run.listener.advance(1 - _SAMPLING_SHARE * progressed)
        release_threads()  # those that the figures took; the engine is next
        return report

    async def _learn(self, step: int, collected: Collected) -> Update | None:
        """The update, with what the record keeps of it; None where no group could be used."""
        run = self._run
        plan = plan_of(run.settings, step)
        agreement = None if self._agreement_is_checked else run.settings.agreement
        result = await run.on_learner_thread(
            lambda: update(collected.used, run.learner, self._algorithm, plan, agreement)
        )
        if result is None:
            return None
        if result.metrics.skipped:
            run.notes.add(f"step {step} moved nothing: {result.metrics.skipped}")
        run.store.set_token_fields(token_fields(result))
        if complaint := self._gradients.complaint(result):
            record_bad_batch(run.store, step, plan, result, complaint)
        self._agreement_is_checked = True
        return result

    async def _rehearse(self, step: int, collected: Collected) -> dict[str, float | None]:
        """One step of imitation after the update; its figures, empty where there is none."""
        if self._rehearsal is None:
            return {}
        batch = await self._rehearsal.batch(step, collected.groups)
        if batch is None:
            return {}
        run = self._run
        share = run.settings.rl.rehearsal_rate_fraction
        rate = share * plan_of(run.settings, step).learning_rate
        metrics = await run.on_learner_thread(lambda: imitate(batch, run.learner, rate))
        if metrics.skipped:
            run.notes.add(f"the rehearsal of step {step} moved nothing: {metrics.skipped}")
        return {
            "rehearsal_episodes": float(batch.n_episodes),
            "rehearsal_loss": metrics.loss,
            "rehearsal_grad_norm": metrics.grad_norm,
        }

    def _record(
        self,
        step: int,
        collected: Collected,
        result: Update | None,
        rehearsed: dict[str, float | None],
        clock: StepClock,
    ) -> StepReport:
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
        self._run.store.add_metrics(
            step,
            "rl",
            report.metrics() | metrics | extra | {"seconds_engine": clock.engine_busy},
            version=self._run.learner.steps_taken,
        )
        return report


def rehearsal_of(run: RunContext) -> Rehearsal | None:
    """What is imitated beside RL, if the run file asks for it.

    Raises: ValueError where no task has a reference solution.
    """
    settings, tasks = run.settings, run.tasks
    if settings.rl.rehearsal_rate_fraction == 0:
        return None
    return Rehearsal(
        tasks.train,
        tasks.demonstrations or tasks.train,
        settings.rl.groups_per_step,
        settings.run.seed,
        run.workshop,
        settings.agent,
        run_checks=settings.warm_start is None or settings.warm_start.run_checks,
        on_note=run.notes.add,
    )


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
