"""Checks that passed before the agent began and fail after it."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.episodes import Scored
from steelyard.monitor.scanners.finding import Hit, Scanner, Severity, quoted
from steelyard.monitor.scanners.material import Material

_NAMED = 3


def _regressed(material: Material) -> Iterator[Hit]:
    outcomes = {"training": material.episode.outcome, "heldout": material.episode.heldout}
    for suite, outcome in outcomes.items():
        if not isinstance(outcome, Scored):
            continue
        before = material.given.untouched.get(suite, {})
        broken = [c.name for c in outcome.checks if before.get(c.name) and not c.passed]
        if broken:
            named = ", ".join(quoted(name) for name in broken[:_NAMED])
            more = f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
            yield Hit(f"broke {suite} checks that passed untouched: {named}{more}", Severity.INFO)


REGRESSION_SCANNERS = (
    Scanner("regressions", "broke checks that passed before it began", _regressed),
)
