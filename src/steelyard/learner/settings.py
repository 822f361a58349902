"""What a user may choose about the learner."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class LearnerSettings(BaseModel):
    """How the weights are held and moved."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    method: Literal["full", "lora"] = "full"
    """Train every weight, or low-rank adapters (float32) on every linear layer."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Of forward and backward; weights and optimiser state stay float32."""
    device: str = "cpu"
    """Where training runs: "cpu", "cuda", "cuda:1"."""
    threads: int | None = Field(None, ge=1)
    """CPU threads of the learner; None leaves torch's own choice."""
    lanes: int | None = Field(None, ge=1)
    """Bins that run at the same time, each on its share of the CPU threads. None: 2 where our own
    Llama path runs on several cores without a critic, else 1. The order in which their gradients
    are added is left to chance, so a deterministic run has 1."""
    max_bin_tokens: int = Field(1024, ge=1)
    """Tokens per forward pass after shared prefixes are merged; bounds memory, not the result."""
    share_prefixes: bool = True
    """Compute a prefix that several samples share once, where the model allows it."""
    lora_rank: int = Field(16, ge=1)
    """Rank of each adapter."""
    lora_alpha: float = Field(32.0, gt=0)
    """Scale of each adapter: its product is multiplied by lora_alpha / lora_rank."""
    lora_seed: int = 0
    """Seed of the adapters' random start."""
    max_grad_norm: float = Field(1.0, gt=0)
    """Gradients are scaled down to this global L2 norm."""
    critic_learning_rate: float = Field(1e-4, gt=0)
    """Of the critic, where the algorithm has one; constant."""
    adam_beta1: float = Field(0.9, ge=0, lt=1)
    """Decay of AdamW's first moment."""
    adam_beta2: float = Field(0.95, ge=0, lt=1)
    """Decay of AdamW's second moment."""
    adam_epsilon: float = Field(1e-8, gt=0)
    """Added to AdamW's denominator."""
    weight_decay: float = Field(0.0, ge=0)
    """AdamW's decoupled weight decay."""


class LearningRate(BaseModel):
    """A linear warm-up to `peak`, then constant, or a linear decay to `final_fraction` of it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    peak: float = Field(gt=0)
    """The highest learning rate."""
    warmup_steps: int = Field(0, ge=0)
    """Optimiser steps of linear warm-up; 0 starts at the peak."""
    decay_steps: int | None = Field(None, ge=1)
    """Optimiser steps, warm-up included, at whose end the decay ends; None stays constant."""
    final_fraction: float = Field(0.1, ge=0, le=1)
    """The share of the peak that remains after the decay."""

    def at(self, step: int) -> float:
        """lr(step) = peak · min(1, (step + 1) / warmup) · (1 − (1 − final) · progress).

        `step` counts from 0; progress runs from 0 at the end of the warm-up to 1 at the last of
        `decay_steps`, and is 0 where there is no decay.
        """
        rate = self.peak
        if step < self.warmup_steps:
            rate *= (step + 1) / self.warmup_steps
        if self.decay_steps is not None:
            span = max(1, self.decay_steps - 1 - self.warmup_steps)
            progress = min(1.0, max(0.0, (step - self.warmup_steps) / span))
            rate *= 1.0 - (1.0 - self.final_fraction) * progress
        return rate
