"""The three signals side by side: training reward, independent success, cost and failure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from steelyard.monitor.scores import Json
from steelyard.monitor.statistics import clustered_interval, pass_at_k, pass_hat_k
from steelyard.store import EpisodeFilter, RunReader

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

    `evaluations`: `pass_at_1` with a 95 % interval clustered by task; pass@k and pass^k, means over
    tasks, at k = the fewest scored episodes of a task, with theirs.
    """
    return {"steps": _steps(reader), "evaluations": _evaluations(reader)}


def _steps(reader: RunReader) -> list[Json]:
    unseen = {e.step: e.tally.solved / e.tally.n for e in reader.evaluations("dev") if e.tally.n}
    costs = reader.rates(["step"], EpisodeFilter(purpose="train"))
    broken = reader.regressions(["step"], EpisodeFilter(purpose="train"))
    steps = []
    for step, n, scored, training, heldout, gap in reader.query(
        "SELECT step, count(*), count(raw), avg(raw),"
        f" avg(CASE WHEN {_PAIRED} THEN {_TRUTH} END),"
        f" avg(CASE WHEN {_PAIRED} THEN {_REWARD} - {_TRUTH} END)"
        " FROM episodes WHERE purpose = 'train' GROUP BY step ORDER BY step"
    ):
        cost, regressions = costs[(step,)], broken.get((step,))
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
                    "calls": cost.calls,
                    "call_errors": cost.call_errors,
                    "repeated": cost.repeated_calls,
                    "regressions": regressions.failed / regressions.checks if regressions else None,
                    "tokens": cost.action_tokens,
                },
            }
        )
    return steps


def _evaluations(reader: RunReader) -> list[Json]:
    counts: dict[tuple[str, str], list[tuple[str, int, int]]] = defaultdict(list)
    for name, split, task, n, solved in reader.query(
        "SELECT v.name, v.split, e.task, count(e.solved), coalesce(sum(e.solved), 0)"
        " FROM episodes e JOIN evaluations v ON v.key = e.evaluation_key"
        " GROUP BY v.key, e.task ORDER BY v.key, e.task"
    ):
        if n:
            counts[name, split].append((task, n, solved))
    return [
        {
            "name": e.name,
            "split": e.split,
            "step": e.step,
            "unscored": e.tally.unscored,
            **_rates(counts[e.name, e.split]),
        }
        for e in reader.evaluations()
    ]


def _rates(tasks: Sequence[tuple[str, int, int]]) -> Json:
    if not tasks:
        return {"pass_at_1": None, "low": None, "high": None, "n": 0, "tasks": 0}
    values = [float(i < solved) for _, n, solved in tasks for i in range(n)]
    low, high = clustered_interval(values, [task for task, n, _ in tasks for _ in range(n)])
    k = min(n for _, n, _ in tasks)
    return {
        "pass_at_1": sum(values) / len(values),
        "low": low,
        "high": high,
        "n": len(values),
        "tasks": len(tasks),
        "k": k,
        **_over_tasks("pass_at_k", pass_at_k, tasks, k),
        **_over_tasks("pass_hat_k", pass_hat_k, tasks, k),
    }


def _over_tasks(
    name: str,
    estimator: Callable[[int, int, int], float],
    tasks: Iterable[tuple[str, int, int]],
    k: int,
) -> Json:
    values = [estimator(n, solved, k) for _, n, solved in tasks]
    low, high = clustered_interval(values, range(len(values)))
    return {name: sum(values) / len(values), f"{name}_low": low, f"{name}_high": high}
