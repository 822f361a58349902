"""Settings of the turn loop."""

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, PositiveInt, model_validator


class AgentSettings(BaseModel):
    """`[agent]` of the run file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    max_turns: PositiveInt = Field(6, description="turns after which an episode ends unsolved")
    stuck_after: int | None = Field(
        None,
        ge=2,
        description="an episode ends unsolved when the agent says the same so often in a row, "
        "refused each time; default: it may go on",
    )
    max_turn_tokens: PositiveInt = Field(
        128, description="tokens a turn may sample; a turn cut here ends the episode as truncated"
    )
    max_episode_tokens: PositiveInt = Field(
        1024, description="tokens of an episode's context, prompt and observations included"
    )
    tool_timeout_seconds: PositiveFloat = Field(10.0, description="wall time of one `run` call")
    max_observation_characters: PositiveInt = Field(
        800, description="longer tool results are cut in the middle"
    )
    max_shown_lines: int = Field(
        60, ge=0, description="files up to this many lines in all are shown in the first message"
    )

    @model_validator(mode="after")
    def _can_be_stuck(self) -> "AgentSettings":
        if self.stuck_after is not None and self.stuck_after > self.max_turns:
            raise ValueError(
                f"stuck_after = {self.stuck_after} never comes about, since max_turns = "
                f"{self.max_turns} ends an episode first; lower it"
            )
        return self
