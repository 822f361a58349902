"""Settings of the in-process engine."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator


class EngineSettings(BaseModel):
    """How the in-process torch engine samples, and within which bounds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    temperature: float = Field(1.0, ge=0.0, description="Softmax temperature; 0 is greedy.")
    max_rows: int = Field(64, ge=1, description="Episodes decoded in one step at most.")
    dtype: Literal["bfloat16", "float32"] = Field(
        "bfloat16", description="Type of weights and activations; logits are float32 always."
    )
    device: str = Field("cpu", description='Torch device: "cpu", "cuda" or "cuda:N".')
    threads: int | None = Field(
        None, ge=1, description="CPU threads of one operation; unset leaves torch's own choice."
    )
    lanes: int | None = Field(
        None,
        ge=1,
        description="Parts of the episodes that decode side by side, each on its share of the "
        "CPU threads. Unset: 2 where our own forward pass runs on a CPU of several cores, else 1.",
    )
    deterministic: bool = Field(
        False, description="Lockstep turns: the same seeds give the same tokens, bit for bit."
    )
    max_context_tokens: int = Field(
        2048, ge=2, description="Longest sequence, sampled tokens included."
    )
    prefill_tokens: int = Field(
        2048, ge=16, description="Tokens of prompts and observations run in one pass at most."
    )
    draft_tokens: int = Field(
        8,
        ge=0,
        description="Guesses of the next tokens that one step checks per episode at most, where "
        "that saves time; samples are the same up to rounding. 0: none.",
    )
    idle_cache_gib: float = Field(
        1.0, ge=0.0, description="Cache kept for episodes between two turns, in GiB."
    )
    backend: Literal["auto", "llama", "generic"] = Field(
        "auto", description="Forward pass: ours for the Llama family, or Hugging Face's."
    )

    @model_validator(mode="after")
    def _goes_together(self) -> EngineSettings:
        if self.deterministic and (self.dtype != "float32" or self.threads is None):
            raise ValueError(
                'deterministic = true needs dtype = "float32" and a fixed number of threads; got '
                f"dtype = {self.dtype!r}, threads = {self.threads!r}"
            )
        if (self.lanes or 1) > 1 and (self.deterministic or self.device != "cpu"):
            raise ValueError(
                f"lanes = {self.lanes}: lanes are for the CPU, and not for deterministic = true; "
                "leave lanes out"
            )
        return self
