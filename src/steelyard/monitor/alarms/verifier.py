"""The verifier accepts what held-out checks reject (too weak), or rejects what they accept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from steelyard.monitor.alarms.alarm import Finding
from steelyard.monitor.alarms.facts import EpisodeFacts, History, clusters, mean
from steelyard.monitor.alarms.settings import VerifierSettings
from steelyard.monitor.significance import exceeds_zero

_SHOWN = 40


def findings(history: History, settings: VerifierSettings, rate: float) -> Iterator[Finding]:
    """`weak_verifier` and `strict_verifier`, over all episodes so far.

    H0: of the episodes that one side accepts, the other rejects at most the tolerated share r. Per
    visit of a task, v = (wrong − r · accepted) / episodes; H0 says E[v] ≤ 0.
    """
    if not history.looks_now:
        return
    level = rate / 2 / history.looks
    for name, accepts, rejects, text in (
        (
            "weak_verifier",
            _by_verifier,
            _by_heldout,
            "the verifier accepts work that the held-out checks reject ({wrong} of {n} accepted "
            "episodes): it tries too little; add checks before believing the reward",
        ),
        (
            "strict_verifier",
            _by_heldout,
            _by_verifier,
            "the verifier rejects work that the held-out checks accept ({wrong} of {n} right "
            "episodes): it may demand one way of writing it; read what its failed checks say",
        ),
    ):
        if (name, "") in history.known:
            continue
        values, accepted, disputed = [], 0, []
        for episodes in clusters(history.steps, lambda e: e.gap is not None, history):
            yes = [e for e in episodes if accepts(e)]
            wrong = [e for e in yes if not rejects(e)]
            values.append((len(wrong) - settings.tolerated * len(yes)) / len(episodes))
            accepted += len(yes)
            disputed += wrong
        if not values or mean(values) <= 0:
            continue
        p = exceeds_zero(values)
        if p <= level:
            yield Finding(
                name=name,
                text=text.format(wrong=len(disputed), n=accepted),
                evidence={
                    "disputed": len(disputed),
                    "accepted": accepted,
                    "share": len(disputed) / accepted,
                    "tolerated": settings.tolerated,
                    "by_kind": _by_kind(disputed),
                    "p": p,
                    "level": level,
                },
                episodes=tuple(e.id for e in disputed[-_SHOWN:]),
                tasks=tuple(dict.fromkeys(e.task for e in disputed)),
            )


def _by_verifier(episode: EpisodeFacts) -> bool:
    return episode.raw is not None and episode.raw >= 1.0


def _by_heldout(episode: EpisodeFacts) -> bool:
    return episode.heldout is not None and episode.heldout >= 1.0


def _by_kind(episodes: list[EpisodeFacts]) -> dict[str, int]:
    counts: dict[str, int] = defaultdict(int)
    for episode in episodes:
        counts[episode.kind] += 1
    return dict(sorted(counts.items()))
