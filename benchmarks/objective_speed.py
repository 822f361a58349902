"""What the heart costs: credit + ratio + limit + aggregate, forward, on a million action tokens.

    python benchmarks/objective_speed.py [--tokens N] [--segments N] [--rounds N]

Each timing stands beside one of `torch.exp(x).cumsum(0)` over the same tokens, the least that a
ratio could cost, taken just before and just after it. The table has medians, of the times and of
the quotients, which survive a noisy machine where times do not.

Memory is what it is in a process that trains: one that has freed tensors of 32 MB, after which
glibc keeps what is freed. Before that, every round asks the kernel for its pages anew, and that
(`--cold`) takes longer than the arithmetic.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from steelyard.objective import (
    ALGORITHMS,
    Aggregate,
    Algorithm,
    Fixed,
    Rewards,
    Tokens,
    algorithm,
    credit,
    token_coefficients,
    token_loss,
)

ROWS = ("reinforce", "grpo", "dr_grpo", "dapo", "cispo", "gspo", "ctpo", "full_ratio", "ppo")


def batch(n_tokens: int, n_segments: int) -> tuple[Tokens, Rewards]:
    """One segment per episode, eight episodes a group, four turns an episode."""
    draw = torch.Generator().manual_seed(0)
    share = torch.rand(n_segments, generator=draw) + 0.2
    length = (share / share.sum() * n_tokens).long().clamp(min=8)
    length[-1] += n_tokens - int(length.sum())
    episode_T = torch.repeat_interleave(torch.arange(n_segments), length)
    start = torch.cumsum(length, 0) - length
    place_T = torch.arange(n_tokens) - start[episode_T]
    turn_T = episode_T * 4 + (place_T * 4 // length[episode_T]).clamp(max=3)
    tokens = Tokens(turn_T, episode_T, episode_T, episode_T // 8)
    reward_K = torch.zeros(4 * n_segments)
    reward_K[3::4] = torch.randint(0, 2, (n_segments,), generator=draw).float()
    episode_K = torch.arange(n_segments).repeat_interleave(4)
    return tokens, Rewards(reward_K, episode_K, torch.arange(n_segments) // 8)


def seconds(job: Callable[[], object]) -> float:
    began = time.perf_counter()
    job()
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--segments", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--cold", action="store_true")
    args = parser.parse_args()
    if not args.cold:
        torch.ones((32 << 20) - 8192, dtype=torch.uint8)
    tokens, rewards = batch(args.tokens, args.segments)
    columns = (tokens.turn_T, tokens.segment_T, tokens.episode_T, tokens.group_T)
    draw = torch.Generator().manual_seed(1)
    prox_T = -torch.rand(args.tokens, generator=draw)
    logp_T = prox_T + 0.01 * torch.randn(args.tokens, generator=draw)
    log_ratio_T = logp_T - prox_T
    value_T = torch.rand(args.tokens, generator=draw)

    def plain() -> torch.Tensor:
        return torch.exp(log_ratio_T).cumsum(0)

    def heart(row: Algorithm) -> float:
        assert row.credit is not None
        # Anew every time, so that nothing cached on it is for free.
        tokens = Tokens(*columns)
        earned = credit(row.credit, tokens, rewards, value_T=value_T)
        fixed = Fixed(tokens, earned.advantage_A, prox_logp_T=prox_T)
        weight_T = token_coefficients(tokens, row.aggregate)
        return float((weight_T * token_loss(logp_T, fixed, row).value_T).sum())

    rows = {}
    for name in ROWS:
        constant = ALGORITHMS[name].aggregate.kind == "constant"
        changes = {"aggregate": Aggregate("constant", 1024)} if constant else {}
        rows[name] = algorithm(name, kl=None, **changes)
    with torch.no_grad():
        base: list[float] = []
        took: dict[str, list[float]] = {name: [] for name in rows}
        times: dict[str, list[float]] = {name: [] for name in rows}
        for round_ in range(args.rounds + 1):
            for name, row in rows.items():
                before, own, after = (
                    seconds(plain),
                    seconds(lambda row=row: heart(row)),
                    seconds(plain),
                )
                if round_ > 0:  # the first warms up
                    base += [before, after]
                    took[name].append(own)
                    times[name].append(2.0 * own / (before + after))
    print(f"{args.tokens} tokens in {args.segments} segments, {torch.get_num_threads()} threads")
    print(f"exp + cumsum: {statistics.median(base) * 1e3:.2f} ms")
    print("| algorithm | ms | times exp + cumsum |\n|---|---|---|")
    for name in rows:
        own = statistics.median(took[name]) * 1e3
        print(f"| {name} | {own:.1f} | {statistics.median(times[name]):.1f} |")


if __name__ == "__main__":
    main()
