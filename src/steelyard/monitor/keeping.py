"""Which policy was best by its held-out success: the one to keep, and to go back to."""

from __future__ import annotations

from collections.abc import Iterable

from steelyard.store import RunReader

_KEPT = 5 / 6
"""A policy with so much of the best held-out rate has not lost it: less is within the noise of the
hundred or so episodes that a rate rests on."""


def heldout_by_policy(reader: RunReader, steps: Iterable[int]) -> dict[int, float]:
    """The held-out rate of the policy after each of `steps`, where it was measured.

    By held-out checks on training episodes: those of the next step, which this policy sampled, and
    of its own step, for a steadier rate. Where the tasks have no held-out checks, by the success on
    dev tasks at that step. Never by test tasks.
    """
    chosen = list(steps)
    rates = dict(
        reader.query(
            "SELECT step, avg(heldout_reward) FROM episodes WHERE purpose = 'train'"
            " AND raw IS NOT NULL AND heldout_reward IS NOT NULL GROUP BY step"
        )
    )
    if not rates:
        on_dev = {e.step: e.tally for e in reader.evaluations("dev")}
        if len(on_dev) < 2:
            return {}
        return {s: on_dev[s].solved / on_dev[s].n for s in chosen if s in on_dev and on_dev[s].n}
    return {
        step: (rates.get(step, rates[step + 1]) + rates[step + 1]) / 2
        for step in chosen
        if step + 1 in rates
    }


def best_policy(reader: RunReader, steps: Iterable[int]) -> int | None:
    """The step with the highest held-out rate, the latest of equals; None if none is known."""
    rates = heldout_by_policy(reader, steps)
    return max(rates, key=lambda step: (rates[step], step), default=None)


def last_good_policy(
    reader: RunReader, steps: Iterable[int], *, before: int | None = None
) -> int | None:
    """The latest of `steps` from before the held-out maximum of the run was lost.

    That is, whose rate is at least 5/6 of the best that any policy of the run reached; without such
    a step, the best of `steps`. Only steps < `before` are candidates where it is given: a rollback
    never keeps the policy at which its alarm was raised.
    """
    rates = heldout_by_policy(reader, [s for s in steps if before is None or s < before])
    last = max((s.step for s in reader.steps("rl")), default=0)
    best = max(heldout_by_policy(reader, range(last + 1)).values(), default=0.0)
    good = [step for step, rate in rates.items() if rate >= _KEPT * best]
    return max(good, default=None) if good else best_policy(reader, rates)
