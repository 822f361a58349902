"""One GRPO step, Steelyard against TRL: same model, prompts, group size, lengths and loss.

    python benchmarks/vs_trl.py            needs the extras train and bench

Single-turn, because that is what TRL's GRPOTrainer does on its own. Both sample the same prompts
at temperature 1 up to the same number of tokens, in groups of the same size, reward completions
with the same function in the process, and take one AdamW step on the same loss. The reward is odd
length, so that nearly every group carries a signal for both. Sides alternate within one run; the
table has medians. Both are given two CPU threads and bfloat16 weights for sampling.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Callable

import torch

PROMPTS = [f"Write a short sentence about the number {i}." for i in range(4)]
GROUP_SIZE = 8
MAX_NEW_TOKENS = 64


def reward(text: str) -> float:
    return float(len(text) % 2)


def steelyard_step() -> Callable[[], tuple[float, int]]:
    """Returns a function that takes one step and gives its seconds and sampled tokens."""
    from steelyard.conductor.update import Plan, update
    from steelyard.engines import EngineSettings, TorchEngine
    from steelyard.episodes import Episode, Group, Scored, Segment, StopReason, Trajectory
    from steelyard.learner import Learner, LearnerSettings
    from steelyard.models import EMBEDDED, ChatRenderer, Message, release_threads, resolve
    from steelyard.objective import algorithm

    model = resolve(EMBEDDED)
    renderer = ChatRenderer(model.tokenizer)
    prompts = [renderer.prompt([Message(role="user", content=text)]) for text in PROMPTS]
    engine = TorchEngine(model, EngineSettings(max_rows=len(PROMPTS) * GROUP_SIZE))
    learner = Learner(model, LearnerSettings())
    steps = 0

    async def episode(group: int, i: int) -> Episode:
        session = engine.open((steps * len(PROMPTS) + group) * GROUP_SIZE + i)
        sample = await session.sample(prompts[group], max_new_tokens=MAX_NEW_TOKENS)
        session.close()
        segment = Segment()
        segment.append_context(prompts[group])
        segment.append_action(sample.token_ids, sample.logp, sample.version)
        return Episode(
            id=f"{steps}/{group}/{i}",
            task=str(group),
            group=str(group),
            trajectory=Trajectory([segment]),
            outcome=Scored(reward(renderer.decode(sample.token_ids))),
            stop_reason=StopReason.SUBMITTED,
        )

    async def sample_all() -> list[Episode]:
        return list(
            await asyncio.gather(
                *(episode(g, i) for g in range(len(PROMPTS)) for i in range(GROUP_SIZE))
            )
        )

    def step() -> tuple[float, int]:
        nonlocal steps
        began = time.perf_counter()
        episodes = asyncio.run(sample_all())
        groups = [
            Group(str(g), str(g), [e for e in episodes if e.group == str(g)])
            for g in range(len(PROMPTS))
        ]
        update(groups, learner, algorithm("dapo"), Plan(learning_rate=1e-6, temperature=1.0))
        release_threads()  # as a run does when the engine is next
        steps += 1
        engine.load(learner.weights(), steps)
        tokens = sum(e.trajectory.n_action_tokens for e in episodes)
        return time.perf_counter() - began, tokens

    return step


def trl_step() -> Callable[[], tuple[float, int]]:
    """The same with TRL's GRPOTrainer, one optimiser step at a time."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    from steelyard.models import EMBEDDED, release_threads, resolve

    model = resolve(EMBEDDED)
    tokens = 0

    def rewards(completions: list[list[dict[str, str]]], **columns: object) -> list[float]:
        nonlocal tokens
        tokens = sum(map(len, columns["completion_ids"]))  # type: ignore[arg-type]
        return [reward(c[0]["content"]) for c in completions]

    class Stop(TrainerCallback):  # type: ignore[misc]
        def on_step_begin(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            self.began = time.perf_counter()

        def on_step_end(self, args, state, control, **kwargs):  # type: ignore[no-untyped-def]
            self.seconds = time.perf_counter() - self.began
            control.should_training_stop = True

    stop = Stop()
    trainer = GRPOTrainer(
        model=str(model.path),
        reward_funcs=rewards,
        train_dataset=Dataset.from_list(
            [{"prompt": [{"role": "user", "content": text}]} for text in PROMPTS] * 50
        ),
        callbacks=[stop],
        args=GRPOConfig(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=len(PROMPTS) * GROUP_SIZE,
            num_generations=GROUP_SIZE,
            max_completion_length=MAX_NEW_TOKENS,
            temperature=1.0,
            top_k=0,
            learning_rate=1e-6,
            loss_type="dapo",
            epsilon_high=0.28,
            beta=0.0,
            bf16=True,
            use_cpu=True,
            max_steps=10_000,
            logging_strategy="no",
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            gradient_checkpointing=False,
            model_init_kwargs={"dtype": "bfloat16"},
        ),
    )

    def step() -> tuple[float, int]:
        trainer.train()
        release_threads()  # this thread's idle workers would slow the other side down
        return stop.seconds, tokens

    return step


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(2)
    sides = {"steelyard": steelyard_step(), "trl": trl_step()}
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    tokens: dict[str, list[int]] = {name: [] for name in sides}
    for i in range(rounds + 1):
        for name, step in sides.items():
            took, sampled = step()
            print(f"round {i} {name}: {took:.1f} s, {sampled} tokens", flush=True)
            if i:  # the first warms up
                seconds[name].append(took)
                tokens[name].append(sampled)
    print("\n| | median s a step | median sampled tokens |\n|---|---|---|")
    for name in sides:
        print(
            f"| {name} | {statistics.median(seconds[name]):.1f} "
            f"| {statistics.median(tokens[name]):.0f} |"
        )
    ratio = statistics.median(seconds["trl"]) / statistics.median(seconds["steelyard"])
    print(f"\nTRL takes {ratio:.1f} times as long.")


if __name__ == "__main__":
    main()
