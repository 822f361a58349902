"""Which estimator of the policy gradient at which staleness, on trees where the truth is known.

    python benchmarks/estimators.py            prints the tables; under 3 minutes on one core
    python benchmarks/estimators.py --write    also puts them into README.md, with the plot

Every trajectory is enumerated, so ∇J, the mean of an estimator under the sampler μ and its
variance are finite sums; `closed_form` says which. The estimators are `steelyard.objective`'s own
credit and loss. The variance is also sampled. Needs the train extra, and matplotlib for --write.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

from estimators_claims import biased_when_fresh, claims, noise_with_turn_rewards, problems
from estimators_lab import ROWS, Quality, Row, closed_form, quality, sampled
from estimators_tree import Shape, make_problem

LENGTHS = (2, 3, 4, 5, 6)
STALENESS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
SHOWN = (0.0, 0.1, 0.2, 0.4, 0.8)
GROUP = 8
BATCHES = (64, 4096)
PROBLEMS = 8
SAMPLED_EPISODES = 131_072
"""16,384 groups of 8."""

HERE = Path(__file__).parent
BEGIN, END = "<!-- estimators:begin -->", "<!-- estimators:end -->"


class Cell(NamedTuple):
    """One estimator at one length and staleness, on every problem."""

    qualities: list[Quality]

    def rms(self, of: str) -> float:
        """Root mean square over problems."""
        return _rms([getattr(quality, of) for quality in self.qualities])

    def cosine(self) -> float:
        """Mean over problems."""
        return sum(quality.cosine for quality in self.qualities) / len(self.qualities)

    def error(self, episodes: int) -> float:
        """RMSE of the best multiple, in a batch of `episodes`."""
        return _rms([quality.scaled_rmse(episodes) for quality in self.qualities])


Sweep = dict[tuple[str, int, float], Cell]


def sweep(lengths: tuple[int, ...], staleness: tuple[float, ...], along: float = 0.5) -> Sweep:
    """Every row, exactly, on `PROBLEMS` problems of each length."""
    cells: Sweep = {}
    for length in lengths:
        instances = [make_problem(Shape(length), seed, along=along) for seed in range(PROBLEMS)]
        for row in ROWS:
            for late in staleness:
                cells[row.name, length, late] = Cell(
                    [quality(one, closed_form(one, row, late, GROUP)) for one in instances]
                )
    return cells


@lru_cache
def gap(length: int, staleness: float) -> tuple[float, float]:
    """KL(μ ‖ π) of an episode and effective sample size, means over the problems."""
    pairs = [make_problem(Shape(length), seed).divergence(staleness) for seed in range(PROBLEMS)]
    return sum(kl for kl, _ in pairs) / PROBLEMS, sum(ess for _, ess in pairs) / PROBLEMS


class Check(NamedTuple):
    """Sampled against exact: distances in standard errors."""

    row: str
    length: int
    mean: float
    variance: float


def check_sampled(
    rows: tuple[Row, ...], lengths: tuple[int, ...], staleness: float, episodes: int
) -> Iterator[Check]:
    """The sampled mean and variance, which come from whole batches, against the exact ones."""
    for length in lengths:
        problem = make_problem(Shape(length), 0)
        for number, row in enumerate(rows):
            exact = closed_form(problem, row, staleness, GROUP)
            found = sampled(problem, row, staleness, GROUP, episodes, seed=number)
            batches = episodes / found.moments.episodes
            distance = float((found.moments.mean_D - exact.mean_D).norm())
            yield Check(
                row.name,
                length,
                distance / math.sqrt(exact.variance / batches),
                abs(found.moments.variance - exact.variance) / found.variance_error,
            )


def _rms(values: list[float]) -> float:
    return math.sqrt(sum(value * value for value in values) / len(values))


def _number(value: float, places: int = 2) -> str:
    # Half goes up: .125 and .12500000001 should read the same.
    text = f"{value + 1e-9:.{places}f}"
    return text.replace("0.", ".", 1) if text.lstrip("-").startswith("0.") else text


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def claims_table() -> str:
    """Zero where theory says zero."""
    worst: dict[str, tuple[float, float]] = {}
    for problem in problems().values():
        for claim in claims(problem):
            error, latest = worst.get(claim.text, (0.0, 0.0))
            worst[claim.text] = max(error, claim.error), max(latest, claim.staleness)
    rows = [
        [text, "any" if latest > 0 else "0", f"{error:.0e}"]
        for text, (error, latest) in worst.items()
    ]
    return _table(["estimator", "staleness", "greatest error / ‖∇J‖"], rows)


def fresh_table() -> str:
    """Biased although nothing is stale."""
    rows = [[one.text, _number(one.turned), _number(one.cosine, 3)] for one in biased_when_fresh()]
    return _table(["estimator, fresh samples", "sin of the angle", "cosine"], rows)


def _heads(length: int) -> list[str]:
    heads = []
    for late in SHOWN:
        kl, ess = gap(length, late)
        heads.append(f"s = {late:g}, KL {_number(kl, 3)}, ESS {_number(ess)}")
    return heads


def bias_table(cells: Sweep, length: int) -> str:
    """bias, cosine, noise against staleness."""
    rows = []
    for row in ROWS:
        line = [row.name]
        for late in SHOWN:
            cell = cells[row.name, length, late]
            noise = cell.rms("noise")
            line.append(
                f"{_number(cell.rms('bias'))} · {_number(cell.cosine(), 3)} · {_number(noise, 1)}"
            )
        rows.append(line)
    return _table(["bias · cosine · noise", *_heads(length)], rows)


def error_table(cells: Sweep, length: int) -> str:
    """RMSE of the best multiple against staleness, for the batches."""
    rows = []
    for row in ROWS:
        line = [row.name]
        for late in SHOWN:
            cell = cells[row.name, length, late]
            line.append(" · ".join(_number(cell.error(n)) for n in BATCHES))
        rows.append(line)
    head = " · ".join(f"n = {n}" for n in BATCHES)
    return _table([head, *(f"s = {late:g}" for late in SHOWN)], rows)


def length_table(cells: Sweep, staleness: float) -> str:
    """cosine and noise against length."""
    rows = []
    for row in ROWS:
        line = [row.name]
        for length in LENGTHS:
            cell = cells[row.name, length, staleness]
            line.append(f"{_number(cell.cosine(), 3)} · {_number(cell.rms('noise'), 1)}")
        rows.append(line)
    heads = [f"{n} turns, ESS {_number(gap(n, staleness)[1])}" for n in LENGTHS]
    return _table([f"cosine · noise at s = {staleness:g}", *heads], rows)


def best_table(cells: Sweep, length: int) -> str:
    """The least error, among the rows that need no critic, and what comes within 3 % of it."""
    names = [row.name for row in ROWS if row.critic == "none"]
    rows = []
    for late in STALENESS:
        line = [f"{late:g}"]
        for episodes in BATCHES:
            error = {name: cells[name, length, late].error(episodes) for name in names}
            least = min(error.values())
            close = [name for name in names if error[name] <= 1.03 * least]
            close.sort(key=error.__getitem__)
            more = f" and {len(close) - 4} more" if len(close) > 4 else ""
            line.append(f"{_number(least)}: {'; '.join(close[:4])}{more}")
        rows.append(line)
    return _table(["s", *(f"n = {n}" for n in BATCHES)], rows)


def turn_reward_table(shape: Shape) -> str:
    """Noise, where every turn may earn something."""
    noise: dict[str, list[str]] = {}
    for late in SHOWN:
        each = [
            noise_with_turn_rewards(make_problem(shape, seed, turn_rewards=True), late)
            for seed in range(PROBLEMS)
        ]
        for text in each[0]:
            noise.setdefault(text, []).append(_number(_rms([one[text] for one in each]), 1))
    rows = [[text, *line] for text, line in noise.items()]
    return _table(["noise; no bias", *(f"s = {late:g}" for late in SHOWN)], rows)


def direction_table(length: int, staleness: float) -> str:
    """Cosine, by where the policy has moved since the samples."""
    shares = (0.0, 0.5, 1.0)
    parts = {share: sweep((length,), (staleness,), share) for share in shares}
    rows = [
        [row.name, *(_number(parts[of][row.name, length, staleness].cosine(), 3) for of in shares)]
        for row in ROWS
    ]
    head = f"cosine, {length} turns, s = {staleness:g}"
    return _table([head, "moved at random", "half and half", "moved along ∇J"], rows)


def report(cells: Sweep) -> str:
    """All tables."""
    checks = list(check_sampled(ROWS, LENGTHS, 0.4, SAMPLED_EPISODES))
    furthest = max(checks, key=lambda check: check.variance)
    parts = [
        "Zero where theory says zero, by enumeration (2–6 turns, 2–4 choices, observations, "
        "outcome and per-turn rewards, shared and tabular parameters, groups of 2, 3 and 4; "
        "'any' is 0, .3 and 1):",
        claims_table(),
        "Biased although fresh (trees of up to 3 turns that may stop early, mean over 8; ∇J apart "
        "from a positive scale):",
        fresh_table(),
        f"Against staleness, at 6 turns of 7 action tokens and an outcome of 0 or 1, groups of "
        f"{GROUP}, {PROBLEMS} problems:",
        bias_table(cells, 6),
        "What is left of the error in a batch of n episodes when the step size is free (0 perfect, "
        "1 worthless):",
        error_table(cells, 6),
        "The least of these among rows without a critic, and what comes within 3 % of it:",
        best_table(cells, 6),
        "Against length:",
        length_table(cells, 0.4),
        "With a reward of 1/4 after each turn that did well, besides the outcome, at 3 turns of "
        "constant length:",
        turn_reward_table(Shape(3)),
        "Whether it matters which way the policy moved since the samples:",
        direction_table(4, 0.4),
        f"The variance was also sampled, {SAMPLED_EPISODES:,} episodes for every row and length at "
        f"s = .4, as whole batches through the package: of {len(checks)} variances the furthest is "
        f"{furthest.variance:.1f} standard errors from the exact one ({furthest.row}, "
        f"{furthest.length} turns), and the means are "
        f"{max(check.mean for check in checks):.1f} at most.",
    ]
    return "\n\n".join(parts)


def main() -> None:
    """Prints the tables; with --write puts them and the plot beside this file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write README.md and estimators.png")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    cells = sweep(LENGTHS, STALENESS)
    text = report(cells)
    print(text)
    if arguments.write:
        from estimators_plot import plot

        plot(cells, HERE / "estimators.png")
        readme = HERE / "README.md"
        before, _, rest = readme.read_text().partition(BEGIN)
        after = rest.partition(END)[2]
        readme.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")


if __name__ == "__main__":
    main()
