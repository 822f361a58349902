"""Decoding speed of the in-process engine against Hugging Face's `generate`, in one run.

    python benchmarks/engine_speed.py [--model SPEC] [--threads 2] [--batches 16 64 128]

Groups of 8 sessions share a prompt of about 250 tokens; every session samples the same number of
tokens. "decode" counts what comes after the prompts are in; "whole" counts everything, as does
`generate`. Medians over the repetitions. Nothing is guessed unless --draft-tokens says so: an
untrained policy's text at temperature 1 is hard to guess (`drafting.py` has the other case).
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import time
from typing import Any

import torch

from steelyard.engines import EngineSettings, TorchEngine
from steelyard.models import EMBEDDED, load_weights, release_threads, resolve

GROUP = 8
PROMPT_TOKENS = 250


def prompts_for(tokenizer: Any, batch: int) -> list[list[int]]:
    """`batch` prompts of PROMPT_TOKENS tokens, in groups that share one."""
    shared = "You repair small Python programs. Read the file, edit one line, then submit. " * 8
    prompts = []
    for group in range(-(-batch // GROUP)):
        text = shared + f"Task {group}: " + f"def option_{group}(settings): return {group}\n" * 20
        prompts.extend([tokenizer.encode(text)[:PROMPT_TOKENS]] * GROUP)
    return prompts[:batch]


def ours(engine: TorchEngine, prompts: list[list[int]], new: int) -> tuple[float, float, int]:
    """Seconds of a whole call, and of decoding once the prompts are in, with its steps."""

    async def run() -> tuple[float, float, int]:
        sessions = [engine.open(seed) for seed in range(len(prompts))]
        pairs = list(zip(sessions, prompts, strict=True))
        started = time.perf_counter()
        first = await asyncio.gather(*(s.sample(p, max_new_tokens=1) for s, p in pairs))
        prefilled = time.perf_counter()
        steps = engine.stats.steps
        await asyncio.gather(
            *(
                s.sample(p + f.token_ids, max_new_tokens=new - 1)
                for (s, p), f in zip(pairs, first, strict=True)
            )
        )
        ended = time.perf_counter()
        steps = engine.stats.steps - steps
        for session in sessions:
            session.close()
        return ended - started, ended - prefilled, steps

    return asyncio.run(run())


def theirs(model: Any, prompts: list[list[int]], new: int) -> float:
    """Seconds of one call of `generate`."""
    batch = torch.tensor(prompts)
    started = time.perf_counter()
    with torch.inference_mode():
        model.generate(
            batch,
            attention_mask=torch.ones_like(batch),
            do_sample=True,
            top_k=0,
            max_new_tokens=new,
            min_new_tokens=new,
            pad_token_id=0,
        )
    seconds = time.perf_counter() - started
    release_threads()  # this thread's idle workers would slow the engine down
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=EMBEDDED)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batches", type=int, nargs="+", default=[16, 64, 128])
    parser.add_argument("--new-tokens", type=int, default=48)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--draft-tokens", type=int, default=0)
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--skip-theirs", action="store_true", help="measure our engine only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loaded = resolve(options.model)
    model = None
    if not options.skip_theirs:
        model = load_weights(loaded, getattr(torch, options.dtype))
    settings = EngineSettings(
        dtype=options.dtype,
        threads=options.threads,
        max_rows=max(options.batches),
        draft_tokens=options.draft_tokens,
    )
    engine = TorchEngine(loaded, settings, stop_ids=frozenset())
    print(
        f"{loaded.name}, {options.dtype}, {options.threads} threads, back end {engine.backend}, "
        f"{PROMPT_TOKENS} prompt tokens in groups of {GROUP}, {options.new_tokens} new tokens"
    )
    print(
        f"{'batch':>6}{'decode tok/s':>14}{'ms/step':>9}{'whole tok/s':>13}{'HF tok/s':>10}"
        f"{'ratio':>7}"
    )
    for batch in options.batches:
        prompts = prompts_for(loaded.tokenizer, batch)
        whole, rate, step, generate = [], [], [], []
        for _ in range(options.repetitions):
            seconds, decoding, steps = ours(engine, prompts, options.new_tokens)
            whole.append(seconds)
            rate.append(batch * (options.new_tokens - 1) / decoding)
            step.append(decoding / steps)
            if model is not None:
                generate.append(theirs(model, prompts, options.new_tokens))
        tokens = batch * options.new_tokens
        row = (
            f"{batch:>6}{statistics.median(rate):>14.0f}"
            f"{statistics.median(step) * 1e3:>9.1f}{tokens / statistics.median(whole):>13.0f}"
        )
        if generate:
            theirs_rate = tokens / statistics.median(generate)
            ratio = tokens / statistics.median(whole) / theirs_rate
            row += f"{theirs_rate:>10.0f}{ratio:>7.1f}"
        print(row, flush=True)
    engine.close()


if __name__ == "__main__":
    main()
