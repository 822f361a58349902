"""What the heart costs: credit + ratio + limit + aggregate, forward, on a million action tokens.

    python benchmarks/objective_speed.py [--tokens N] [--segments N] [--rounds N]

Each round also times one `torch.exp` plus one `cumsum` over the same tokens, the least that a
ratio could cost, so that the ratio of the two survives a noisy machine. Medians.
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
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    tokens, rewards = batch(args.tokens, args.segments)
    columns = (tokens.turn_T, tokens.segment_T, tokens.episode_T, tokens.group_T)
    draw = torch.Generator().manual_seed(1)
    prox_T = -torch.rand(args.tokens, generator=draw)
    logp_T = prox_T + 0.01 * torch.randn(args.tokens, generator=draw)
    value_T = torch.rand(args.tokens, generator=draw)

    def plain() -> torch.Tensor:
        return torch.exp(logp_T - prox_T).cumsum(0)

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
        plain()
        for row in rows.values():
            heart(row)
        base, took = [], {name: [] for name in rows}
        for _ in range(args.rounds):
            for name, row in rows.items():
                base.append(seconds(plain))
                took[name].append(seconds(lambda row=row: heart(row)))
    unit = statistics.median(base)
    print(f"{args.tokens} tokens in {args.segments} segments, {torch.get_num_threads()} threads")
    print(f"exp + cumsum: {unit * 1e3:.1f} ms")
    print("| algorithm | ms | times exp + cumsum |\n|---|---|---|")
    for name, times in took.items():
        middle = statistics.median(times)
        print(f"| {name} | {middle * 1e3:.0f} | {middle / unit:.1f} |")


if __name__ == "__main__":
    main()
