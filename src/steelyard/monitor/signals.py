"""The three signals side by side: training reward, independent success, cost and failure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import multimode

from steelyard.monitor.scores import Json, evaluation_tallies, rate_over_tasks
from steelyard.monitor.statistics import clustered_interval, pass_at_k, pass_hat_k
from steelyard.store import EpisodeFilter, EvaluationRecord, RunReader, Tally

_PAIRED = "raw IS NOT NULL AND heldout_reward IS NOT NULL"
_REWARD, _TRUTH = (f"min(1.0, max(0.0, {column}))" for column in ("raw", "heldout_reward"))


def signals(reader: RunReader) -> Json:
    """What training sees against what is true, by step and by evaluation.

    `steps`, one each RL step, over all its training episodes, those of unused groups too:
    `training` is the mean raw reward of the scored, `heldout` the mean held-out reward of those
    that have one, `gap` the mean difference of the two over episodes with both (rewards clipped to
    [0, 1]), `unseen` the success on dev tasks after the step. `cost` is per episode: tool `calls`,
    those answered with an error, those `repeated` unchanged, sampled `tokens`, and `regressions`,
    the share of checks that passed before the agent began and fail after it. What was not measured
    is null; unscored episodes enter `unscored` and `cost`, never a rate.

    `evaluations`: `pass_at_1` with a 95 % interval clustered by task; pass@k and pass^k with
    theirs, means over tasks, at k = the samples that the evaluation took of most tasks. Tasks with
    fewer scored samples have no part in the two: `tasks_left_out` counts them.
    """
    evaluations = reader.evaluations()
    unseen = {
        e.step: e.tally.solved / e.tally.n for e in evaluations if e.split == "dev" and e.tally.n
    }
    return {"steps": _steps(reader, unseen), "evaluations": _evaluations(reader, evaluations)}


def _steps(reader: RunReader, unseen: Mapping[int, float]) -> list[Json]:
    broken = reader.regressions(["step"], EpisodeFilter(purpose="train"))
    steps = []
    for step, n, scored, training, heldout, gap, *cost in reader.query(
        "SELECT step, count(*), count(raw), avg(raw),"
        f" avg(CASE WHEN {_PAIRED} THEN {_TRUTH} END),"
        f" avg(CASE WHEN {_PAIRED} THEN {_REWARD} - {_TRUTH} END),"
        " avg(n_calls), avg(n_call_errors), avg(n_repeated_calls), avg(n_action_tokens)"
        " FROM episodes WHERE purpose = 'train' GROUP BY step ORDER BY step"
    ):
        calls, call_errors, repeated, tokens = cost
        regressions = broken.get((step,))
        steps.append(
            {
                "step": step,
                "training": training,
                "heldout": heldout,
                "gap": gap,
                "unseen": unseen.get(step),
                "episodes": n,
                "unscored": n - scored,
                "cost": {
                    "calls": calls,
                    "call_errors": call_errors,
                    "repeated": repeated,
                    "regressions": regressions.failed / regressions.checks if regressions else None,
                    "tokens": tokens,
                },
            }
        )
    return steps


def _evaluations(reader: RunReader, evaluations: Sequence[EvaluationRecord]) -> list[Json]:
    tallies = evaluation_tallies(reader)
    return [
        {
            "name": e.name,
            "split": e.split,
            "step": e.step,
            **_rates(tallies.get((e.name, e.split), {})),
        }
        for e in evaluations
    ]


def _rates(by_task: Mapping[str, Tally]) -> Json:
    sampled = multimode(t.n + t.unscored for t in by_task.values())
    k = min(sampled, default=0)
    whole = [(t.n, t.solved) for t in by_task.values() if t.n >= k]
    return {
        **rate_over_tasks(by_task),
        "tasks": sum(t.n > 0 for t in by_task.values()),
        "k": k,
        "tasks_left_out": len(by_task) - len(whole),
        **_over_tasks("pass_at_k", pass_at_k, whole, k),
        **_over_tasks("pass_hat_k", pass_hat_k, whole, k),
    }


def _over_tasks(
    name: str,
    estimator: Callable[[int, int, int], float],
    tasks: Sequence[tuple[int, int]],
    k: int,
) -> Json:
    if not tasks:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    values = [estimator(n, solved, k) for n, solved in tasks]
    low, high = clustered_interval(values, range(len(values)))
    return {name: sum(values) / len(values), f"{name}_low": low, f"{name}_high": high}
