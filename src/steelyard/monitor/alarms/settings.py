"""`[alarms]`: which alarms are on, what they do, and how often they may be wrong."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt

from steelyard.monitor.alarms.alarm import Action


class FamilySettings(BaseModel):
    """What every family of alarms has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: bool = True
    on_alarm: Action | None = Field(None, description="default: that of [alarms]")


class DivergenceSettings(FamilySettings):
    """Training reward and held-out checks part, on the same episodes."""

    min_growth: PositiveFloat = Field(
        0.1, description="the gap training − held-out must have grown by so much"
    )


class VerifierSettings(FamilySettings):
    """The verifier and the held-out checks disagree, from the start perhaps."""

    on_alarm: Action | None = "warn"
    tolerated: float = Field(
        0.1, gt=0, lt=1, description="share of accepted (or right) episodes they may disagree on"
    )


class ExplorationSettings(FamilySettings):
    """The policy repeats itself while success is not high."""

    min_fall: float = Field(
        0.5, gt=0, lt=1, description="distinct programs a group fell by this share"
    )
    enough_success: float = Field(
        0.8, gt=0, le=1, description="no alarm at or above this success: an honest end"
    )


class AuxiliarySettings(FamilySettings):
    """A component of a shaped reward rises and the outcome does not."""

    min_growth: PositiveFloat = Field(0.05, description="in units of reward")


class LengthSettings(FamilySettings):
    """Episodes get longer or shorter and success does not rise."""

    min_factor: float = Field(1.5, gt=1, description="tokens an episode, up or down")
    enough_success: float = Field(
        0.8, gt=0, le=1, description="no alarm at or above this success: it cannot rise much more"
    )


class StalenessSettings(FamilySettings):
    """What is learned from is no longer what the policy would do."""

    min_effective_share: float = Field(
        0.3, gt=0, le=1, description="effective sample size over tokens trained"
    )
    max_staleness: PositiveFloat = Field(8.0, description="mean policy versions behind")


class MismatchSettings(FamilySettings):
    """Engine and learner compute different log-probs."""

    max_nats: PositiveFloat = Field(0.1, description="mean |Δ log-prob| a trained token")


class NumericsSettings(FamilySettings):
    """Loss or gradient is not a number, or the gradient jumps."""

    min_factor: float = Field(5.0, gt=1, description="gradient norm over the median so far")


class UnscoredSettings(FamilySettings):
    """Episodes that could not be graded."""

    tolerated: float = Field(0.05, gt=0, lt=1, description="share of a step's episodes")


class AlarmSettings(BaseModel):
    """`[alarms]`: conditions on the run's own record, checked after each step."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    on: bool = True
    on_alarm: Action = Field(
        "warn",
        description="warn; pause: end the run so that it can be resumed; rollback: end it with the "
        "last good checkpoint; quarantine: sample the tasks that raised it no more; an alarm that "
        "no task is to blame for warns",
    )
    false_alarm_rate: float = Field(
        0.05, gt=0, lt=1, description="chance that a whole honest run raises any alarm"
    )
    reference_steps: PositiveInt = Field(
        3, description="first RL steps, which later ones are compared with"
    )
    divergence: DivergenceSettings = DivergenceSettings()
    verifier: VerifierSettings = VerifierSettings()
    exploration: ExplorationSettings = ExplorationSettings()
    auxiliary: AuxiliarySettings = AuxiliarySettings()
    length: LengthSettings = LengthSettings()
    staleness: StalenessSettings = StalenessSettings()
    mismatch: MismatchSettings = MismatchSettings()
    numerics: NumericsSettings = NumericsSettings()
    unscored: UnscoredSettings = UnscoredSettings()
