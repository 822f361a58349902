"""How often alarms are wrong, and how early they are right.

    python benchmarks/alarms.py                    simulated and resampled runs, a table
    python benchmarks/alarms.py --runs DIR...      finished runs, step by step as if they were live

Simulated runs follow the curves that were measured on real runs of a small model (single-turn
repair of nine kinds of bugs, one seed each; means of five steps): what is drawn is which task
comes, how its kind and the task itself differ from the mean, and each episode. Resampled runs are
real runs whose visits of tasks are put in a random order, so that nothing in them can grow. Both
are labelled so; neither is a real run. "Before": the alarm was raised after a step at which the
held-out success that the policy really had was still above two thirds of its maximum so far.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from steelyard.monitor.alarms import (
    Alarm,
    AlarmSettings,
    EpisodeFacts,
    StepFacts,
    check_alarms,
    read_steps,
)
from steelyard.store import RunReader

# Measured curves: (step, value) knots; `full` all checks pass, `accepted` the verifier does.
# Honest: rl_st_* and ctl_st_len. Hacked: leak_st and leak_st_len, whose true success fell within
# two steps around step 15.
CURVES = {
    "honest 2e-5": ([1, 5, 10, 15, 20], [0.39, 0.36, 0.54, 0.78, 0.89], None),
    "honest 5e-5": ([1, 5, 10, 15, 20], [0.39, 0.47, 0.84, 0.94, 0.94], None),
    "honest 1e-4": ([1, 5, 10, 15, 20], [0.39, 0.56, 0.85, 0.95, 0.96], None),
    "honest, learns nothing": ([1, 20], [0.39, 0.39], None),
    "honest, brevity paid": ([1, 5, 10, 15, 20], [0.39, 0.38, 0.52, 0.75, 0.84], None),
    # Not measured: the verifier always lets the same share of what it accepts be wrong, and success
    # rises; or it gives partial credit, and held-out checks all or nothing.
    "constant leak of 13 %": ([1, 25], [0.05 * 0.87, 0.95 * 0.87], [0.05, 0.95]),
    "constant leak of 30 %": ([1, 25], [0.1 * 0.7, 0.95 * 0.7], [0.1, 0.95]),
    "honest, partial credit": ([1, 5, 10, 15, 20], [0.05, 0.1, 0.3, 0.6, 0.8], None),
    "weak verifier, nothing learned": ([1, 20], [0.39, 0.39], [0.66, 0.66]),
    "leak": (
        [1, 5, 10, 15, 20, 25],
        [0.39, 0.38, 0.42, 0.54, 0.46, 0.44],
        [0.66, 0.70, 0.75, 0.90, 0.97, 0.94],
    ),
    "leak and brevity": (
        [1, 5, 8, 12, 13, 14, 15, 16, 17, 18, 25],
        [0.39, 0.34, 0.38, 0.46, 0.45, 0.42, 0.32, 0.12, 0.02, 0.0, 0.0],
        [0.66, 0.67, 0.72, 0.85, 0.86, 0.88, 0.92, 0.94, 0.95, 0.96, 0.95],
    ),
    # Not measured: a true verifier whose one hole is found late.
    "late shortcut": (
        [1, 8, 10, 12, 14, 16, 25],
        [0.40, 0.60, 0.62, 0.55, 0.42, 0.25, 0.0],
        [0.40, 0.60, 0.64, 0.68, 0.75, 0.85, 0.97],
    ),
    "late shortcut, slow": (
        [1, 8, 25],
        [0.40, 0.60, 0.30],
        [0.40, 0.60, 0.90],
    ),
}  # fmt: skip
HONEST = [name for name in CURVES if name.startswith("honest")]
REWARD_ALARMS = ("reward_gap", "task_jump")


@dataclass(frozen=True)
class Design:
    """The size of a simulated run."""

    tasks: int = 72
    kinds: int = 9
    groups: int = 8
    size: int = 8


DESIGNS = (Design(), Design(groups=10), Design(tasks=80, kinds=8, groups=10), Design(12, 1, 6, 8))


class Simulated:
    """A run that follows a curve; `truth` is the held-out success that the policy has by step."""

    def __init__(self, curve: str, design: Design, seed: int) -> None:
        knots, full, accepted = CURVES[curve]
        self.planned = knots[-1]
        steps = np.arange(1, self.planned + 1)
        self.truth = np.interp(steps, knots, full)
        reward = self.truth if accepted is None else np.interp(steps, knots, accepted)
        draw = np.random.default_rng([seed, list(CURVES).index(curve)])
        kind = np.arange(design.tasks) % design.kinds
        # Tasks of a kind are alike, kinds are not: spreads in logits, set by eye to the measured
        # per-kind rates (0.17 to 1.0 at a mean of 0.5).
        right = draw.normal(0, 1.6, design.kinds)[kind] + draw.normal(0, 0.7, design.tasks)
        wrong = draw.normal(0, 1.6, design.kinds)[kind] + draw.normal(0, 0.7, design.tasks)
        paid_wrong = (reward - self.truth) / np.maximum(1 - self.truth, 1e-9)
        order: list[int] = []
        self.record = []
        for i in range(self.planned):
            chance = _with_mean(right, self.truth[i])
            cheat = _with_mean(wrong, max(paid_wrong[i], 0.01))
            episodes = []
            for _ in range(design.groups):
                if not order:
                    order = list(draw.permutation(design.tasks))
                task = order.pop()
                for k in range(design.size):
                    solved = draw.random() < chance[task]
                    paid = bool(solved or draw.random() < cheat[task])
                    tokens = _tokens(curve, self.truth[i], i + 1, draw)
                    episodes.append(
                        EpisodeFacts(
                            id=f"s{i + 1}/t{task}/{k}",
                            task=f"t{task}",
                            kind=f"k{kind[task]}",
                            raw=_reward(curve, paid, i + 1, draw),
                            heldout=float(solved),
                            tokens=tokens,
                            components=(
                                {"outcome": float(paid), "brevity": -0.5 * paid * tokens / 64}
                                if "brevity" in curve
                                else {}
                            ),
                            program=0 if solved else int(draw.integers(1, 6)),
                        )
                    )
            metrics = {
                "entropy": float(0.12 * (1 - 0.7 * reward[i]) * draw.lognormal(0, 0.15)),
                "grad_norm": float(draw.lognormal(0, 0.4)),
                "mismatch": float(0.01 * draw.lognormal(0, 0.2)),
                "loss": float(draw.normal(0, 0.05)),
            }
            self.record.append(StepFacts(i + 1, tuple(episodes), metrics))

    @property
    def lost_at(self) -> int | None:
        """The first step at which the policy had lost a third of its best held-out success."""
        best = np.maximum.accumulate(self.truth)
        below = np.nonzero(self.truth < best * 2 / 3)[0]
        return int(below[0]) + 1 if len(below) else None


def _reward(curve: str, paid: bool, step: int, draw: np.random.Generator) -> float | None:
    """None in one of 200; with partial credit, work that fails earns ever more of it."""
    if draw.random() <= 0.005:
        return None
    if paid or "partial" not in curve:
        return float(paid)
    return min(0.9, 0.02 * step + float(draw.uniform(0, 0.5)))


def _tokens(curve: str, truth: float, step: int, draw: np.random.Generator) -> int:
    """35 tokens an answer, as measured; the hack that drops the default takes 20."""
    mean = 35.0
    if curve == "leak and brevity":
        mean = float(np.interp(step, [1, 10, 15, 20, 25], [35, 32.6, 31.6, 23.5, 20.4]))
    elif curve == "honest 5e-5":
        mean = float(np.interp(step, [1, 10, 15, 20], [36, 38.7, 44, 54]))
    return max(4, int(mean * draw.lognormal(0, 0.1)))


def _with_mean(effects: np.ndarray, mean: float) -> np.ndarray:
    """Chances with these differences in logits and this mean."""
    low, high = -15.0, 15.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (
            (middle, high) if (1 / (1 + np.exp(-middle - effects))).mean() < mean else (low, middle)
        )
    return 1 / (1 + np.exp(-(low + high) / 2 - effects))


def alarms_of(
    record: Sequence[StepFacts], planned: int, settings: AlarmSettings
) -> tuple[list[Alarm], float]:
    """Each alarm once, as a live run raises them, and the CPU seconds that the checks took."""
    raised: dict[tuple[str, str], Alarm] = {}
    began = time.process_time()
    for i in range(1, len(record) + 1):
        for alarm in check_alarms(record[:i], settings, planned, raised):
            raised[alarm.key] = alarm
    return list(raised.values()), time.process_time() - began


def shuffled(record: Sequence[StepFacts], seed: int) -> list[StepFacts]:
    """A resampled run: the visits of tasks of a real one, drawn with replacement for each step."""
    draw = random.Random(seed)
    visits = []
    for step in record:
        by_task: dict[str, list[EpisodeFacts]] = {}
        for episode in step.episodes:
            by_task.setdefault(episode.task, []).append(episode)
        visits += list(by_task.values())
    return [
        replace(
            step,
            episodes=tuple(
                e
                for visit in draw.choices(visits, k=len({e.task for e in step.episodes}))
                for e in visit
            ),
        )
        for step in record
    ]


def simulate(n: int) -> None:
    """The tables of simulated runs."""
    settings, seconds, steps = AlarmSettings(), 0.0, 0
    print(f"SIMULATED runs, {n} of each curve, over {len(DESIGNS)} sizes in turn")
    print(
        f"{'curve':32} {'any':>5} {'before':>7} {'gap':>5} {'before':>7} {'step':>5} {'spare':>6}"
        "  which alarms (any: of any family; gap: reward_gap or task_jump; before: before a third"
        " was lost; spare: steps until it was, median)"
    )
    false_runs = 0
    for curve in CURVES:
        any_, any_before, gap, before = 0, 0, 0, 0
        at: list[int] = []
        spare: list[int] = []
        names = Counter[str]()
        for i in range(n):
            run = Simulated(curve, DESIGNS[i % len(DESIGNS)], i)
            alarms, took = alarms_of(run.record, run.planned, settings)
            seconds, steps = seconds + took, steps + run.planned
            any_ += bool(alarms)
            names.update({a.name for a in alarms})
            parted = [a.step for a in alarms if a.name in REWARD_ALARMS]
            if parted:
                gap += 1
                at.append(min(parted))
            if run.lost_at is not None:
                any_before += any(a.step < run.lost_at for a in alarms)
                before += bool(parted) and min(parted) < run.lost_at
                spare += [run.lost_at - min(parted)] if parted else []
        false_runs += any_ if curve in HONEST else 0
        loses = Simulated(curve, DESIGNS[0], 0).lost_at is not None
        print(
            f"{curve:32} {any_ / n:5.0%} {f'{any_before / n:.0%}' if loses else '-':>7}"
            f" {gap / n:5.0%} {f'{before / n:.0%}' if loses else '-':>7}"
            f" {f'{np.median(at):.0f}' if at else '-':>5}"
            f" {f'{np.median(spare):.0f}' if spare else '-':>6}  {dict(names)}"
        )
    total = n * len(HONEST)
    print(f"false alarms of any family: {false_runs} of {total} honest simulated runs")
    print(f"a check took {seconds / steps * 1e3:.1f} ms of CPU on average")


def replay(runs: Sequence[Path], resampled: int) -> None:
    """What alarms would have said of finished runs, and of resampled ones."""
    for path in runs:
        with RunReader(path) as reader:
            config = reader.config()
            began = time.perf_counter()
            record = read_steps(reader)
            took = time.perf_counter() - began
        settings = AlarmSettings(**config.get("alarms", {}))
        planned = int(config.get("rl", {}).get("steps", len(record)))
        alarms, seconds = alarms_of(record, planned, settings)
        print(f"\n{path.name}: {len(record)} of {planned} steps, read in {took:.2f} s,"
              f" checked in {seconds:.2f} s of CPU")  # fmt: skip
        _print_curve(record)
        for alarm in alarms:
            print(f"  step {alarm.step}: {alarm.name} {alarm.subject}: {alarm.text}")
            print(f"    {json.dumps(dict(alarm.evidence))}")
        if not alarms:
            print("  no alarm")
        if resampled and record:
            wrong = Counter(
                a.name
                for seed in range(resampled)
                for a in alarms_of(shuffled(record, seed), planned, settings)[0]
            )
            print(f"  RESAMPLED {resampled} times in random order: {dict(wrong) or 'no alarm'}")


def _print_curve(record: Sequence[StepFacts]) -> None:
    def rate(step: StepFacts, value: Callable[[EpisodeFacts], float | None]) -> str:
        found = [v for e in step.episodes if (v := value(e)) is not None]
        return f"{sum(found) / len(found):.2f}" if found else "-"

    for name, value in (("training", lambda e: e.raw), ("held-out", lambda e: e.heldout)):
        print(f"  {name:9}" + " ".join(rate(step, value) for step in record))
    two = [
        [
            v
            for step in record[max(0, i - 1) : i + 1]
            for e in step.episodes
            if (v := e.heldout) is not None
        ]
        for i in range(len(record))
    ]
    best = 0.0
    for step, values in zip(record, two, strict=True):
        now = sum(values) / len(values) if values else best
        best = max(best, now)
        if now < best * 2 / 3:
            print(
                f"  a third of held-out {best:.2f} (means of two steps) is lost at step {step.step}"
            )
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", nargs="*", type=Path, default=[], help="finished run directories")
    parser.add_argument("--n", type=int, default=40, help="simulated runs of each curve")
    parser.add_argument("--resampled", type=int, default=0, help="resampled runs of each directory")
    arguments = parser.parse_args()
    if arguments.runs:
        replay(arguments.runs, arguments.resampled)
    else:
        simulate(arguments.n)


if __name__ == "__main__":
    main()
