"""What a run will need, before it starts."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from steelyard.agents import demonstration_texts
from steelyard.agents.prompt import first_messages
from steelyard.conductor.batches import SPARED
from steelyard.conductor.settings import RunSettings
from steelyard.conductor.starting import RunTasks
from steelyard.conductor.warm_start import n_batches
from steelyard.conductor.watching import checkpoints_kept
from steelyard.learner import lanes_of
from steelyard.models import ChatRenderer, resolve
from steelyard.tasks import Task

_RUNTIME_GB = 0.9
"""Python, torch and transformers themselves, without weights."""
_SAMPLING_EFFICIENCY = 0.16
_TRAINING_EFFICIENCY = 0.35
"""Shares of the measured matrix throughput that decoding and training reach (two CPU cores)."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Sizes in GB (10^9 bytes), times in seconds."""

    parameters: int
    tasks: dict[str, int]
    prompt_tokens: int
    episodes_per_step: int
    tokens_per_step: int
    warm_start_batches: int
    evaluation_episodes: int
    memory_gb: float
    disk_gb: float
    seconds: float


def estimate(settings: RunSettings) -> Estimate:
    """Memory, tokens and time of the run, from its tasks, the model's shape and a short timing.

    Episodes are taken to be half as long as the limits allow, groups to fill at the first try.
    """
    tasks = RunTasks(settings)
    model = resolve(settings.model.path)
    renderer = ChatRenderer(model.tokenizer)
    prompt = max(_prompt_tokens(t, renderer, settings) for t in tasks.train[:20])
    agent, rl = settings.agent, settings.rl
    sampled = min(agent.max_episode_tokens - prompt, agent.max_turns * agent.max_turn_tokens) // 2
    episodes = rl.groups_per_step * rl.episodes_per_group
    evaluations = _evaluation_episodes(settings, tasks)
    parameters, body = _parameters(model.config)
    runs_checks = settings.warm_start is None or settings.warm_start.run_checks
    demonstration_tokens = [
        prompt + len("".join(demonstration_texts(t, run_checks=runs_checks))) // 3
        for t in tasks.demonstrations
    ]
    sampled_tokens = sampled * (episodes * rl.steps + evaluations)
    prompts_of_groups = rl.groups_per_step * prompt
    trained_tokens = rl.steps * (prompts_of_groups + episodes * sampled)
    if settings.warm_start is not None:
        trained_tokens += settings.warm_start.epochs * sum(demonstration_tokens)
    if rl.rehearsal_rate_fraction > 0:
        longest = max(demonstration_tokens, default=prompt + sampled)
        trained_tokens += rl.steps * rl.groups_per_step * longest
    throughput = _matmul_flops(settings.learner.dtype)
    seconds = 2 * body * sampled_tokens / (
        throughput * _SAMPLING_EFFICIENCY
    ) + 6 * body * trained_tokens / (throughput * _TRAINING_EFFICIENCY)
    return Estimate(
        parameters=parameters,
        tasks={
            name: len(getattr(tasks, name)) for name in ("demonstrations", "train", "dev", "test")
        },
        prompt_tokens=prompt,
        episodes_per_step=episodes,
        tokens_per_step=episodes * sampled,
        warm_start_batches=0
        if settings.warm_start is None
        else n_batches(len(tasks.demonstrations), settings.warm_start),
        evaluation_episodes=evaluations,
        memory_gb=_memory_gb(settings, model.config, parameters, prompt + sampled),
        disk_gb=_most_checkpoints(settings) * _checkpoint_bytes(settings, parameters) / 1e9,
        seconds=seconds,
    )


def _prompt_tokens(task: Task, renderer: ChatRenderer, settings: RunSettings) -> int:
    return len(renderer.prompt(first_messages(task, settings.agent)))


def _evaluation_episodes(settings: RunSettings, tasks: RunTasks) -> int:
    section, rl = settings.evaluation, settings.rl
    rounds = 1 + (rl.steps // section.every_steps if section.every_steps else 0)
    on_test = len(tasks.test) * (section.test_samples + 2 * section.baseline_samples)
    return on_test + rounds * len(tasks.dev) * section.dev_samples


def _parameters(config: Any) -> tuple[int, int]:
    """All parameters, and those that a token is multiplied with."""
    from transformers import AutoModelForCausalLM

    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    total = sum(p.numel() for p in model.parameters())
    embedding = model.get_input_embeddings().weight.numel()
    tied = bool(getattr(config, "tie_word_embeddings", False))
    return total, total if tied else total - embedding


def _memory_gb(settings: RunSettings, config: Any, parameters: int, tokens: int) -> float:
    compute = 2 if settings.learner.dtype == "bfloat16" else 4
    engine = 2 if settings.engine.dtype == "bfloat16" else 4
    # Master, gradient and Adam's two moments are float32; a float32 learner needs no copy.
    trained = parameters * (16 + (2 if compute == 2 else 0))
    if settings.learner.method == "lora":
        trained = parameters * compute
    kv_heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    cache = 2 * config.num_hidden_layers * kv_heads * head * engine * tokens
    cache *= settings.engine.max_rows
    activations = (
        lanes_of(settings.learner, has_critic=settings.built_algorithm.critic is not None)
        * settings.learner.max_bin_tokens
        * config.num_hidden_layers
        * config.hidden_size
        * 34
        * compute
    )
    logits = 3 * settings.engine.max_rows * config.vocab_size * 4
    total = parameters * engine + trained + cache + activations + logits
    return _RUNTIME_GB + float(total) / 1e9


def _most_checkpoints(settings: RunSettings) -> int:
    """The latest, the best by held-out checks, those of bad batches, and the one being written."""
    return checkpoints_kept(settings.checkpoint.keep, settings.alarms) + 1 + SPARED + 1


def _checkpoint_bytes(settings: RunSettings, parameters: int) -> float:
    if settings.learner.method == "lora":
        return parameters * 0.5
    return parameters * 12.0


def _matmul_flops(dtype: str) -> float:
    """Floating-point operations a second of this machine's matrix product, measured."""
    a = torch.randn(512, 1024, dtype=getattr(torch, dtype))
    b = torch.randn(1024, 1024, dtype=getattr(torch, dtype))
    torch.mm(a, b)
    began = time.perf_counter()
    rounds = 0
    while time.perf_counter() - began < 0.3:
        torch.mm(a, b)
        rounds += 1
    return rounds * 2 * 512 * 1024 * 1024 / (time.perf_counter() - began)
