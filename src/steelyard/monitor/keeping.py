"""Which policy was best by its held-out success: the one to keep, and to go back to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from steelyard.monitor.scores import evaluation_tallies
from steelyard.monitor.significance import Unit, fisher_tail, growth
from steelyard.store import RunReader

_KEPT = 5 / 6
"""A policy with so much of the best held-out rate has not lost it: less is within the noise of the
hundred or so episodes that a rate rests on."""
_SIGNIFICANT = 0.05
"""The chance that a policy as good as all the others is passed over."""


@dataclass(frozen=True, slots=True)
class Held:
    """What is known of one policy's held-out success: its rate, one unit per visit of a task, and
    how many of its episodes passed in full."""

    rate: float
    units: tuple[Unit, ...]
    passed: int
    episodes: int


def heldout_by_policy(reader: RunReader, steps: Iterable[int]) -> dict[int, float]:
    """The held-out rate of the policy after each of `steps`, where it was measured.

    By held-out checks on training episodes: those of the next step, which this policy sampled, and
    of its own step, for a steadier rate. Where the tasks have no held-out checks, by the success on
    dev tasks at that step. Never by test tasks.
    """
    return {step: found.rate for step, found in _held(reader, steps).items()}


def best_policy(reader: RunReader, steps: Iterable[int]) -> int | None:
    """The step with the highest held-out rate, the latest of equals; None if none is known."""
    return _best(_held(reader, steps))


def last_good_policy(reader: RunReader, steps: Iterable[int], before: int) -> int | None:
    """The latest of `steps` < `before` whose held-out success is not significantly below the best.

    `before` is the first step in which what an alarm says has shown. The best is that of any policy
    of the run: `last_sound` tests, so a single lucky or unlucky measurement decides nothing.

    Without such a step, the latest of `steps` with at least 5/6 of the best rate, which asks for
    more, since all of them may be spoilt; without that, the best of them. None if nothing is known
    of any.
    """
    chosen = _held(reader, steps)
    last = max((s.step for s in reader.steps("rl")), default=0)
    every = chosen | _held(reader, range(last + 1))
    sound = last_sound(every, [s for s in chosen if s < before])
    if sound is not None:
        return sound
    highest = max((found.rate for found in every.values()), default=0.0)
    kept = [s for s, found in chosen.items() if found.rate >= _KEPT * highest]
    return max(kept, default=_best(chosen))


def last_sound(held: Mapping[int, Held], steps: Iterable[int]) -> int | None:
    """The latest of `steps`, all of `held`, that is not significantly below the best of `held`.

    p ≤ 5 % / (m − 1) for m policies, where H0 says that the best is no better than this one: tested
    over visits of tasks (dev tasks paired) as alarms test growth, or by Fisher's exact test of the
    episodes where there are fewer than 8 visits. The best is the luckiest too, so that its test
    stands for one against each of the others (Bonferroni): of equals, any one is passed over with a
    chance of at most 5 %, however long the run.
    """
    top = _best(held)
    if top is None:
        return None
    level = _SIGNIFICANT / max(1, len(held) - 1)
    latest_first = sorted(steps, reverse=True)
    return next((s for s in latest_first if not _below(held[s], held[top], level)), None)


def _best(held: Mapping[int, Held]) -> int | None:
    return max(held, key=lambda step: (held[step].rate, step), default=None)


def _below(policy: Held, best: Held, level: float) -> bool:
    tested = growth(policy.units, best.units, level=level)
    if tested is None:
        p = fisher_tail(best.passed, best.episodes, policy.passed, policy.episodes)
    else:
        p = tested.p
    return p <= level


def _held(reader: RunReader, steps: Iterable[int]) -> dict[int, Held]:
    sampled = _sampled_at(reader)
    if not sampled:
        on_dev = _on_dev(reader)
        return {s: on_dev[s] for s in steps if s in on_dev} if len(on_dev) > 1 else {}
    return {
        step: _together(sampled.get(step, sampled[step + 1]), sampled[step + 1])
        for step in steps
        if step + 1 in sampled
    }


def _together(own: Held, following: Held) -> Held:
    if own is following:
        return own
    return Held(
        (own.rate + following.rate) / 2,
        own.units + following.units,
        own.passed + following.passed,
        own.episodes + following.episodes,
    )


def _sampled_at(reader: RunReader) -> dict[int, Held]:
    """What held-out checks say of the training episodes of each step."""
    visits: dict[int, list[tuple[Unit, int, int]]] = defaultdict(list)
    for step, kind, mean, passed, n in reader.query(
        "SELECT step, kind, avg(heldout_reward), sum(heldout_reward >= 1), count(*) FROM episodes"
        " WHERE purpose = 'train' AND raw IS NOT NULL AND heldout_reward IS NOT NULL"
        " GROUP BY step, task, kind"
    ):
        visits[step].append((Unit(kind, mean), passed, n))
    return {step: _of_visits(of_step) for step, of_step in visits.items()}


def _on_dev(reader: RunReader) -> dict[int, Held]:
    """The success on dev tasks after each step; a task is compared with itself."""
    tallies = evaluation_tallies(reader)
    return {
        e.step: _of_visits(
            [
                (Unit(task, t.solved / t.n), t.solved, t.n)
                for task, t in tallies[e.name, e.split].items()
                if t.n
            ]
        )
        for e in reader.evaluations("dev")
        if e.tally.n
    }


def _of_visits(visits: list[tuple[Unit, int, int]]) -> Held:
    """`visits` holds the mean, the full passes and the number of the episodes of each."""
    episodes = sum(n for _, _, n in visits)
    return Held(
        sum(unit.value * n for unit, _, n in visits) / episodes,
        tuple(unit for unit, _, _ in visits),
        sum(passed for _, passed, _ in visits),
        episodes,
    )
