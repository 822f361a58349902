"""Shaping: what training sees beside the raw outcome, each part of it by its own name.

The raw outcome stays what dynamic sampling, evaluations and diagnosis look at. Paid for parts, a
policy may settle for them: watch the components one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from steelyard.episodes import Check, Scored


class ShapingSettings(BaseModel):
    """`[shaping]`: rewards beside the outcome. Nothing is on by default."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    partial_credit: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="an unsolved episode is worth so much times the share of checks that pass; "
        "groups in which nothing is solved are then learned from only without dynamic sampling",
    )
    overlong_buffer_tokens: int | None = Field(
        default=None,
        gt=0,
        description="the reward falls by up to 1 over the last so many tokens before "
        "agent.max_episode_tokens (DAPO)",
    )
    brevity: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="an episode loses up to this share of what it earned as it grows to "
        "brevity_tokens; the shortest way to be paid need not be right, so watch held-out checks",
    )
    brevity_tokens: PositiveInt = Field(
        default=64, description="sampled tokens at which brevity takes its whole share"
    )
    potential: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="potential-based rewards between turns: the potential of a state is so much "
        "times the share of checks that its files pass; each state is graded",
    )


def share_passed(outcome: Scored) -> float:
    """The share of checks that pass; the raw outcome where no check is named."""
    checks: Sequence[Check] = outcome.checks
    return sum(check.passed for check in checks) / len(checks) if checks else outcome.raw


def partial_credit(outcome: Scored, weight: float) -> float:
    """What is added so that the reward is at least weight · share of checks passed: ≥ 0.

    A solved episode gets nothing. With four checks and weight 1 each check is worth .25 until all
    of them pass.
    """
    return max(0.0, weight * share_passed(outcome) - outcome.raw)


def overlong(length_tokens: int, *, longest: int, buffer: int) -> float:
    """0 up to longest − buffer, then falling linearly to −1 at `longest`, and −1 beyond.

    Source: DAPO §3.4, eq. 13. The tensor form is `objective.overlong_penalty`.
    """
    assert 0 < buffer <= longest
    return min(0.0, max(-1.0, (longest - buffer - length_tokens) / buffer))


def brevity(outcome: Scored, action_tokens: int, *, weight: float, scale: int) -> float:
    """−weight · raw · min(1, action_tokens / scale): nothing for what is worth nothing."""
    return -weight * outcome.raw * min(1.0, action_tokens / scale)


def shaped(
    outcome: Scored,
    settings: ShapingSettings,
    *,
    length_tokens: int,
    longest: int,
    action_tokens: int,
) -> Scored:
    """`outcome` with the reward that training sees: its raw value and every component, summed.

    `length_tokens` is that of the episode's longest segment, which `longest` limits;
    `action_tokens` counts what the policy sampled in the whole episode. `components`
    holds "outcome" and whatever is switched on. Potentials are not part of it: they pay turns.
    """
    components = {"outcome": outcome.raw}
    if settings.partial_credit:
        components["partial_credit"] = partial_credit(outcome, settings.partial_credit)
    if settings.overlong_buffer_tokens is not None:
        components["overlong"] = overlong(
            length_tokens, longest=longest, buffer=settings.overlong_buffer_tokens
        )
    if settings.brevity:
        components["brevity"] = brevity(
            outcome, action_tokens, weight=settings.brevity, scale=settings.brevity_tokens
        )
    if len(components) == 1:
        return outcome
    return replace(outcome, reward=sum(components.values()), components=components)
