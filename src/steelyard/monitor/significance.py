"""Significance tests that need no distribution: task-level bootstraps, exact counts, and outliers.

They take *units*: one number per visit of a task (its episodes of one step, averaged), because the
episodes of one task are not independent. All are one-sided: small p means "too large".
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import numpy as np
from numpy.typing import NDArray

_RESAMPLES = 20_000
_WORTH_RESAMPLING = 2.0
"""Below so many standard errors the p-value is that of Student's t alone: it is far from any level
that an alarm spends, and 20,000 resamples a step would be waste."""
_MANY_UNITS = 300
"""From here on Student's t serves as well, and resampling would take seconds."""
FEWEST_UNITS = 8
"""Of each window: fewer tell too little of their own spread for a tail of 1e-4 to mean anything."""
_LEAST_SPREAD = 0.05
"""Added in quadrature to a standard deviation: a handful of equal units does not prove that there
is no spread."""


@dataclass(frozen=True, slots=True)
class Unit:
    """The mean of one visit of a task; units of one `stratum` (kind or task) are compared."""

    stratum: Hashable
    value: float


@dataclass(frozen=True, slots=True)
class Growth:
    """By how much a mean grew between two windows: `p` of "it did not", and a lower bound."""

    before: float
    after: float
    growth: float
    low: float
    p: float


def growth(
    before: Sequence[Unit], after: Sequence[Unit], *, level: float, seed: int = 0
) -> Growth | None:
    """t = g / SE, where g is the growth of the mean within strata, against t* of resampled units.

    g and the strata's own means are fitted together by least squares, so that a window which
    happens to hold more of a hard kind does not look like a change. What is left of each unit is
    resampled within its window (units are visits of tasks: a task-level bootstrap); t* =
    (g* − g) / SE*. p is the larger of #{t* ≥ t} / resamples and the tail of Student's t beyond t
    with Welch's degrees of freedom (at most n − 2): the bootstrap knows how skewed the units are,
    Student's t how few they are, and it reaches p-values that no number of resamples does.
    `low` bounds g from below at `level`. None where the windows are too small for a spread: fewer
    than 8 units in one, or no more units than strata.

    Source: the bootstrap-t, Efron and Tibshirani 1993, chapter 12; cluster bootstrap for
    evaluations, arXiv 2411.00640; Welch 1947 (Biometrika 34).
    """
    if min(len(before), len(after)) < FEWEST_UNITS:
        return None
    fitted = _fit(before, after) or _fit(_pooled(before), _pooled(after))
    if fitted is None:
        return None
    grown, rest_before, rest_after, inflation = fitted
    error = _standard_error(rest_before, rest_after, inflation)
    t, df = grown / error, _freedom(rest_before, rest_after)
    p, quantile = _student_tail(t, df), _student_quantile(level, df)
    if t > _WORTH_RESAMPLING and len(before) + len(after) < _MANY_UNITS:
        draws = np.random.default_rng(seed)
        star = _resampled(rest_before, rest_after, inflation, draws)
        p = max(p, float(np.count_nonzero(star >= t)) / _RESAMPLES)
        quantile = max(quantile, float(np.quantile(star, 1.0 - level)))
    return Growth(
        before=_mean(before),
        after=_mean(after),
        growth=grown,
        low=grown - quantile * error,
        p=p,
    )


def exceeds_zero(values: Sequence[float], *, seed: int = 0) -> float:
    """p of "the mean of the units is at most 0", by the bootstrap-t over units.

    The larger of #{t* ≥ t} / resamples and Student's tail with n − 1 degrees of freedom, as in
    `growth`. 1 for fewer than 8 units, which can prove nothing.
    """
    x = np.asarray(values, dtype=float)
    if len(x) < FEWEST_UNITS:
        return 1.0
    t = float(x.mean()) / _error_of_mean(x)
    p = _student_tail(t, len(x) - 1)
    if t <= _WORTH_RESAMPLING or len(x) >= _MANY_UNITS:
        return p
    draws = np.random.default_rng(seed)
    sample = x[draws.integers(0, len(x), size=(_RESAMPLES, len(x)))]
    spread = np.sqrt((sample.var(axis=1, ddof=1) + _LEAST_SPREAD**2) / len(x))
    star = (sample.mean(axis=1) - x.mean()) / spread
    return max(p, float(np.count_nonzero(star >= t)) / _RESAMPLES)


def binomial_tail(successes: int, n: int, rate: float) -> float:
    """Σ_{i ≥ successes} C(n, i) rateⁱ (1 − rate)ⁿ⁻ⁱ: the exact chance of so many or more."""
    if successes <= 0:
        return 1.0
    log_rate, log_rest = math.log(rate), math.log1p(-rate)
    terms = (
        math.lgamma(n + 1) - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_rate
        + (n - i) * log_rest
        for i in range(successes, n + 1)
    )  # fmt: skip
    return min(1.0, math.fsum(math.exp(term) for term in terms))


def fisher_tail(now: int, n_now: int, earlier: int, n_earlier: int) -> float:
    """Σ_{i ≥ now} C(n_now, i) C(n_earlier, m − i) / C(n_now + n_earlier, m), m = now + earlier.

    The chance that so many of the m events fall among the latest n_now samples if they fall
    anywhere alike. Source: Fisher's exact test, one-sided.
    """
    m, n = now + earlier, n_now + n_earlier
    top = sum(
        math.comb(n_now, i) * math.comb(n_earlier, m - i) for i in range(now, min(m, n_now) + 1)
    )
    return top / math.comb(n, m)


def outlier(earlier: Sequence[float], value: float, least_spread: float) -> float:
    """p of a new value as large as this, from t = (x − median) / (s √(1 + 1/n)), n − 1 degrees.

    s = 1.4826 · median |x − median| of the `earlier` values, at least `least_spread`. 1 for
    fewer than 4 earlier values.
    """
    n = len(earlier)
    if n < 4:
        return 1.0
    centre = median(earlier)
    spread = max(least_spread, 1.4826 * median(abs(x - centre) for x in earlier))
    t = (value - centre) / (spread * math.sqrt(1.0 + 1.0 / n))
    return _student_tail(t, n - 1)


def _student_tail(t: float, df: float) -> float:
    """P(T ≥ t) = Φ(−z), z = ± (8 df + 1) / (8 df + 3) · √(df log(1 + t² / df)).

    Source: Wallace 1959 (Annals of Mathematical Statistics 30), a normal approximation.
    """
    z = (8 * df + 1) / (8 * df + 3) * math.sqrt(df * math.log1p(t * t / df))
    return 0.5 * math.erfc(math.copysign(z, t) / math.sqrt(2.0))  # exact far out, unlike a cdf


def _student_quantile(level: float, df: float) -> float:
    """The t at which `_student_tail` is `level`, for level < 1/2."""
    z = -NormalDist().inv_cdf(level) * (8 * df + 3) / (8 * df + 1)
    return math.sqrt(df * math.expm1(z * z / df))


def _pooled(units: Sequence[Unit]) -> list[Unit]:
    return [Unit(None, unit.value) for unit in units]


def _fit(
    before: Sequence[Unit], after: Sequence[Unit]
) -> tuple[float, NDArray[np.float64], NDArray[np.float64], float] | None:
    """The growth, what is left of each window's units, and √(units / degrees of freedom)."""
    units = [*before, *after]
    strata = {stratum: i for i, stratum in enumerate(dict.fromkeys(u.stratum for u in units))}
    design = np.zeros((len(units), 1 + len(strata)))
    design[len(before) :, 0] = 1.0
    for row, unit in enumerate(units):
        design[row, 1 + strata[unit.stratum]] = 1.0
    value = np.array([unit.value for unit in units])
    solution, _, rank, _ = np.linalg.lstsq(design, value, rcond=None)
    freedom = len(units) - int(rank)
    if int(rank) < design.shape[1] or freedom < max(4, len(units) // 3):
        return None
    rest = value - design @ solution
    inflation = math.sqrt((len(units) - 2) / freedom)
    return float(solution[0]), rest[: len(before)], rest[len(before) :], inflation


def _resampled(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    inflation: float,
    draws: np.random.Generator,
) -> NDArray[np.float64]:
    variance = np.zeros(_RESAMPLES)
    difference = np.zeros(_RESAMPLES)
    for window, sign in ((before, -1.0), (after, 1.0)):
        sample = window[draws.integers(0, len(window), size=(_RESAMPLES, len(window)))]
        difference += sign * (sample.mean(axis=1) - window.mean())
        variance += (sample.var(axis=1, ddof=1) + _LEAST_SPREAD**2) / len(window)
    star: NDArray[np.float64] = difference / (inflation * np.sqrt(variance))
    return star


def _standard_error(
    before: NDArray[np.float64], after: NDArray[np.float64], inflation: float
) -> float:
    return inflation * math.hypot(_error_of_mean(before), _error_of_mean(after))


def _freedom(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """(a + b)² / (a² / (n_a − 1) + b² / (n_b − 1)), where a and b are the means' variances."""
    a, b = _error_of_mean(before) ** 2, _error_of_mean(after) ** 2
    return (a + b) ** 2 / (a * a / (len(before) - 1) + b * b / (len(after) - 1))


def _error_of_mean(x: NDArray[np.float64]) -> float:
    return math.sqrt((float(x.var(ddof=1)) + _LEAST_SPREAD**2) / len(x))


def _mean(units: Sequence[Unit]) -> float:
    return math.fsum(unit.value for unit in units) / len(units)
