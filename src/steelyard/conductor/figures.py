"""What a step's tokens and groups say about the step, in numbers for the record."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

import torch
from torch import Tensor

from steelyard.conductor.update import Update
from steelyard.episodes import Group

_QUARTERS = 4


def token_figures(update: Update) -> dict[str, float | None]:
    """Figures over the trained tokens; None where none of them has a finite log-prob.

    With x_t = log π(token t) − log μ(token t), π as the last optimiser step saw it and μ the
    policy that sampled the token:

    - `mismatch`, `mismatch_max`: |log prox − log μ|, the learner before the update against the
      engine; staleness and numerical noise together;
    - `staleness`, `staleness_std`, `staleness_max`: versions between the sampler and the learner;
    - `ess_tokens`: (Σ w)² / (n Σ w²) with w = e^x of each token; `ess_episodes`: the same with
      w = e^(Σ x) of each episode. 1 where all samples count alike, 1/n where one alone counts;
    - `log_ratio_std`: the spread of log π/prox; 0 where the batch takes one optimiser step;
    - `behaviour_log_ratio_std_q1` … `_q4`: the spread of x by quarter of an episode's tokens.
    """
    batch = update.batch
    behaviour_T = batch.behaviour_logp_T
    now_T = update.prox_logp_T + update.log_ratio_T - behaviour_T
    known_T = update.trained_T & torch.isfinite(now_T)
    gap_T = (update.prox_logp_T - behaviour_T).abs()[known_T].double()
    lag_T = (update.start_version - batch.version_T)[update.trained_T].double()
    quarter_T = _quarters(batch.episode_T, batch.n_episodes)
    sum_E = torch.zeros(batch.n_episodes, dtype=torch.float64)
    sum_E.index_add_(0, batch.episode_T[known_T], now_T[known_T].double())
    present_E = torch.zeros(batch.n_episodes, dtype=torch.bool)
    present_E[batch.episode_T[known_T]] = True
    return {
        "mismatch": _mean(gap_T),
        "mismatch_max": _largest(gap_T),
        "staleness": _mean(lag_T),
        "staleness_std": _std(lag_T),
        "staleness_max": _largest(lag_T),
        "ess_tokens": effective_share(now_T[known_T].double()),
        "ess_episodes": effective_share(sum_E[present_E]),
        "log_ratio_std": _std(update.log_ratio_T[known_T].double()),
        **{
            f"behaviour_log_ratio_std_q{q + 1}": _std(now_T[known_T & (quarter_T == q)].double())
            for q in range(_QUARTERS)
        },
    }


def group_figures(groups: Sequence[Group]) -> dict[str, float | None]:
    """How much the episodes of a group differ; means over the step's groups.

    `distinct_workspaces_per_group` counts different final workspaces, `distinct_actions_per_group`
    different sequences of sampled tokens. Unscored episodes, which may have neither, are left out.
    """
    played = [[e for e in group.episodes if not e.unscored] for group in groups]
    played = [episodes for episodes in played if episodes]
    if not played:
        return {}
    files = [_distinct(frozenset(e.files.items()) for e in episodes) for episodes in played]
    actions = [
        _distinct(
            tuple(
                token
                for s in e.trajectory.segments
                for token, sampled in zip(s.token_ids, s.action_mask, strict=True)
                if sampled
            )
            for e in episodes
        )
        for episodes in played
    ]
    return {
        "distinct_workspaces_per_group": sum(files) / len(played),
        "distinct_actions_per_group": sum(actions) / len(played),
    }


def effective_share(log_weight_N: Tensor) -> float | None:
    """(Σ w)² / (n Σ w²) with w = e^log_weight: the effective sample size as a share of n.

    None for no samples. Source: Kong, A note on importance sampling, 1992.
    """
    if len(log_weight_N) == 0:
        return None
    weight_N = (log_weight_N - log_weight_N.max()).exp()
    return float(weight_N.sum() ** 2 / (len(weight_N) * weight_N.square().sum()))


def _quarters(episode_T: Tensor, n_episodes: int) -> Tensor:
    """0 … 3: in which quarter of its episode's action tokens each token lies."""
    n_E = torch.bincount(episode_T, minlength=n_episodes)
    first_E = n_E.cumsum(0) - n_E
    rank_T = torch.arange(len(episode_T)) - first_E[episode_T]
    return _QUARTERS * rank_T // n_E[episode_T]


def _distinct(values: Iterable[Hashable]) -> int:
    return len(set(values))


def _mean(values_N: Tensor) -> float | None:
    return float(values_N.mean()) if len(values_N) else None


def _std(values_N: Tensor) -> float | None:
    return float(values_N.std(correction=0)) if len(values_N) else None


def _largest(values_N: Tensor) -> float | None:
    return float(values_N.max()) if len(values_N) else None
