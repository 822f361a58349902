"""Intervals and errors for success rates, and pass@k / pass^k."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from statistics import NormalDist


def wilson_interval(successes: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """(p̂ + z²/2n ± z √(p̂(1 − p̂)/n + z²/4n²)) / (1 + z²/n), with p̂ = successes / n.

    z is the normal quantile of (1 + confidence) / 2. Unlike p̂ ± z·SE it stays within [0, 1] and
    keeps its coverage for small n and for rates near 0 and 1. It takes the samples to be
    independent: several samples of one task make it too narrow (see `clustered_standard_error`).

    Source: Wilson 1927; recommended for evaluations of a few hundred items by arXiv 2503.01747.
    Raises: ValueError unless 0 ≤ successes ≤ n, n ≥ 1 and 0 < confidence < 1.
    """
    _require_counts(successes, n)
    if n < 1:
        raise ValueError("a Wilson interval needs at least one sample")
    return _wilson(successes / n, n, confidence)


def clustered_interval(
    values: Sequence[float], clusters: Sequence[Hashable], confidence: float = 0.95
) -> tuple[float, float]:
    """The Wilson interval of x̄ at the effective sample size n* = x̄(1 − x̄) / SE².

    SE is `clustered_standard_error` times √(C / (C − 1)) for C clusters; n* lies between 1 and n.
    Values lie in [0, 1]; samples of one task share a cluster. With one 0/1 value per cluster it is
    the Wilson interval of n − 1 samples. Where SE is 0 (all values alike, say), n* is C.

    Source: the design-effect-adjusted Wilson interval, Kott and Carr 1997; compared with others by
    Dean and Pagano 2015. Raises: ValueError for no values, unequal lengths or a value outside
    [0, 1].
    """
    error = clustered_standard_error(values, clusters)
    if min(values) < 0.0 or max(values) > 1.0:
        raise ValueError("an interval of a rate needs values between 0 and 1")
    n, n_clusters = len(values), len(set(clusters))
    rate = min(1.0, math.fsum(values) / n)
    if error == 0.0 or n_clusters == 1:
        return _wilson(rate, n_clusters, confidence)
    error *= math.sqrt(n_clusters / (n_clusters - 1))
    return _wilson(rate, min(float(n), max(1.0, rate * (1.0 - rate) / error**2)), confidence)


def _wilson(rate: float, n: float, confidence: float) -> tuple[float, float]:
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, got {confidence}")
    z = NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    centre = rate + z * z / (2 * n)
    half = z * math.sqrt(rate * (1.0 - rate) / n + z * z / (4 * n * n))
    scale = 1.0 + z * z / n
    # At 0 and at 1 one bound is exactly 0 or 1; rounding must not make it −1e-17.
    low = 0.0 if rate == 0.0 else (centre - half) / scale
    high = 1.0 if rate == 1.0 else (centre + half) / scale
    return low, high


def clustered_standard_error(values: Sequence[float], clusters: Sequence[Hashable]) -> float:
    """√(Σ_c (Σ_{i∈c} (x_i − x̄))²) / n: the standard error of the mean x̄ of dependent samples.

    `values` and `clusters` have length n; samples of one task share a cluster. With one sample
    per cluster it is the ordinary √(Σ(x_i − x̄)²)/n; with samples that agree within their cluster
    it grows to that of the cluster means.

    Source: arXiv 2411.00640, equation 4 (there with the n − 1 variance in the diagonal term).
    Raises: ValueError for no values or unequal lengths.
    """
    if not values or len(values) != len(clusters):
        raise ValueError(
            f"needs as many clusters as values, at least one: got {len(values)} values and"
            f" {len(clusters)} clusters"
        )
    mean = math.fsum(values) / len(values)
    residuals: dict[Hashable, list[float]] = defaultdict(list)
    for value, cluster in zip(values, clusters, strict=True):
        residuals[cluster].append(value - mean)
    return math.sqrt(math.fsum(math.fsum(r) ** 2 for r in residuals.values())) / len(values)


def pass_at_k(n: int, successes: int, k: int) -> float:
    """1 − C(n − c, k) / C(n, k): the chance that at least one of k samples of a task succeeds.

    Unbiased from n ≥ k samples with c successes; 1 where n − c < k.

    Source: arXiv 2107.03374. Raises: ValueError unless 0 ≤ c ≤ n and 1 ≤ k ≤ n.
    """
    _require_k(n, successes, k)
    return 1.0 - math.comb(n - successes, k) / math.comb(n, k)


def pass_hat_k(n: int, successes: int, k: int) -> float:
    """C(c, k) / C(n, k): the chance that all k samples of a task succeed (pass^k).

    Source: arXiv 2406.12045 (τ-bench). Raises: ValueError unless 0 ≤ c ≤ n and 1 ≤ k ≤ n.
    """
    _require_k(n, successes, k)
    return math.comb(successes, k) / math.comb(n, k)


def mean_over_tasks(
    estimator: Callable[[int, int, int], float], counts: Iterable[tuple[int, int]], k: int
) -> float:
    """The mean over tasks of `pass_at_k` or `pass_hat_k`; `counts` holds (n, successes) per task.

    Raises: ValueError for no tasks, or a task with fewer than k samples.
    """
    estimates = [estimator(n, successes, k) for n, successes in counts]
    if not estimates:
        raise ValueError("needs the counts of at least one task")
    return math.fsum(estimates) / len(estimates)


def variety(distinct: float, episodes: float, groups: int = 1) -> float | None:
    """(distinct − groups) / (episodes − groups): how much the episodes of a group differ.

    `distinct` counts the different final workspaces of each of the groups, over `episodes` in all:
    0 where every group holds only one, 1 where all its episodes differ, whatever the size of a
    group. None for groups of one episode, which say nothing.
    """
    return (distinct - groups) / (episodes - groups) if episodes > groups else None


def _require_k(n: int, successes: int, k: int) -> None:
    _require_counts(successes, n)
    if not 1 <= k <= n:
        raise ValueError(f"k must lie between 1 and the number of samples, got k={k}, n={n}")


def _require_counts(successes: int, n: int) -> None:
    if not 0 <= successes <= n:
        raise ValueError(f"successes must lie between 0 and n, got {successes} of n={n}")
