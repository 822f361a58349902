"""Too many episodes cannot be graded: the reward of those that remain is not the policy's."""

from __future__ import annotations

from collections.abc import Iterator

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import History
from steelyard.monitor.alarms.settings import UnscoredSettings
from steelyard.monitor.significance import binomial_tail

_SHOWN = 16


def findings(history: History, settings: UnscoredSettings, rate: float) -> Iterator[Finding]:
    """`unscored`. H0: an episode of this step is unscored with at most the tolerated chance.

    The exact binomial test.
    """
    episodes = history.now.episodes
    lost = [e for e in episodes if e.raw is None]
    level = rate / max(history.planned, 1)
    if not lost:
        return
    p = binomial_tail(len(lost), len(episodes), settings.tolerated)
    if p <= level:
        yield Finding(
            name="unscored",
            text=(
                f"{len(lost)} of {len(episodes)} episodes of step {history.now.step} could not be "
                f"graded (p = {p:.1g} at the tolerated {settings.tolerated:.0%}); their causes are "
                "in the view outcomes, and steelyard doctor looks at the sandbox"
            ),
            evidence={
                "unscored": len(lost),
                "episodes": len(episodes),
                "tolerated": settings.tolerated,
                "p": p,
                "level": level,
            },
            episodes=tuple(e.id for e in lost[-_SHOWN:]),
            tasks=tuple(dict.fromkeys(e.task for e in lost)),
        )
