"""Admission: how many groups may be in flight, so that staleness has a bound."""

from __future__ import annotations


def capacity(
    *, staleness: int, version: int, groups_per_step: int, accepted: int, running: int
) -> int:
    """(η + i + 1) · B − (accepted + running): the groups that may still be started.

    Args:
        staleness: η, versions that a sample may lag behind the learner; 0 is synchronous RL.
        version: i, the learner's current policy version, counted from the start of RL.
        groups_per_step: B.
        accepted: groups since the start of RL that entered a batch or wait for one. Groups
            without a signal that dynamic sampling turned away do not count.
        running: groups in flight.

    Source: AReaL (Fu et al. 2025), §5.1.
    """
    return (staleness + version + 1) * groups_per_step - (accepted + running)
