"""The plot of `estimators.py`: bias and error against staleness, at each length."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes

BATCH = 64
_DASHES = {"*": ":", "s": "--", "D": "--"}
"""Lines that another one covers show through."""


class Measured(Protocol):
    """What a line needs of a cell."""

    def rms(self, of: str) -> float:
        """Root mean square over problems of a property."""

    def error(self, episodes: int) -> float:
        """RMSE of the best multiple."""


# Okabe and Ito's colours, which colour-blind readers tell apart; markers say it again.
_ORANGE, _SKY, _GREEN, _YELLOW = "#E69F00", "#56B4E9", "#009E73", "#B8A800"
_BLUE, _RED, _PINK, _BLACK, _GREY = "#0072B2", "#D55E00", "#CC79A7", "#000000", "#7F7F7F"

PUBLISHED = {
    "reinforce": ("reinforce, rest", _BLACK, "o"),
    "reinforce_baseline (V of μ)": ("reinforce_baseline (V of μ)", _GREY, "s"),
    "rloo": ("rloo", _GREEN, "D"),
    "ppo (V of μ)": ("ppo (V of μ)", _YELLOW, "P"),
    "dr_grpo": ("dr_grpo, grpo", _ORANGE, "v"),
    "dapo": ("dapo", _SKY, "^"),
    "cispo": ("cispo", _BLUE, "X"),
    "gspo": ("gspo", _PINK, "<"),
    "ctpo": ("ctpo", _RED, ">"),
    "full_ratio (truncated at 5)": ("full_ratio (truncated at 5)", _BLACK, "*"),
}
PARTS = {
    "token ratio, no limit": ("token ratio", _BLUE, "X"),
    "sequence ratio, no limit": ("sequence ratio", _PINK, "<"),
    "prefix ratio, no limit": ("prefix ratio", _RED, ">"),
    "full ratio, no limit": ("full ratio (no bias)", _BLACK, "*"),
    "prefix ratio × TD error (V of μ)": ("prefix ratio × TD error (V of μ)", _GREY, "s"),
    "prefix ratio × TD error (V of π)": ("prefix ratio × TD error (V of π)", _GREEN, "D"),
    "dr_grpo + token TIS 2": ("token TIS 2", _ORANGE, "v"),
    "dr_grpo + IcePop [.5, 5]": ("IcePop [.5, 5]", _SKY, "^"),
    "dr_grpo + episode TIS 2": ("episode TIS 2", _YELLOW, "P"),
}


def plot(cells: Mapping[tuple[str, int, float], Measured], path: Path) -> None:
    """Four rows of panels: bias and error of the published rows, then of ratios without a limit
    and of corrections. One column a length."""
    lengths = sorted({length for _, length, _ in cells})
    staleness = sorted({late for _, _, late in cells})
    figure, panels = plt.subplots(
        4, len(lengths), figsize=(14, 12.5), sharex=True, sharey=True, layout="constrained"
    )
    for band, styles in enumerate((PUBLISHED, PARTS)):
        for column, length in enumerate(lengths):
            line_of = {name: [cells[name, length, late] for late in staleness] for name in styles}
            bias = {name: [one.rms("turned") for one in line] for name, line in line_of.items()}
            error = {name: [one.error(BATCH) for one in line] for name, line in line_of.items()}
            for part, values in enumerate((bias, error)):
                _dress(panels[2 * band + part, column], staleness)
                _draw(panels[2 * band + part, column], values, styles)
        first = 2 * band
        title = ("as published", "one part at a time")[band]
        panels[first, 0].set_ylabel(f"{title}\nbias (sine of the angle)")
        panels[first + 1, 0].set_ylabel(f"{title}\nerror, n = {BATCH} episodes")
        panels[first, -1].legend(
            loc="upper left", bbox_to_anchor=(1.02, 1.0), fontsize=9, frameon=False
        )
    for column, length in enumerate(lengths):
        panels[0, column].set_title(f"{length} turns, {length + 1} action tokens", fontsize=11)
        panels[-1, column].set_xlabel("staleness s")
    figure.suptitle(
        "How far each estimator is from the policy gradient, whatever its step size "
        "(0 exact, 1 worthless)",
        fontsize=13,
    )
    figure.savefig(path, dpi=90)
    plt.close(figure)


def _draw(
    axes: Axes, values: Mapping[str, list[float]], styles: Mapping[str, tuple[str, str, str]]
) -> None:
    for name, (label, colour, marker) in styles.items():
        axes.plot(
            range(len(values[name])),
            values[name],
            color=colour,
            marker=marker,
            markersize=5,
            linewidth=1.3,
            linestyle=_DASHES.get(marker, "-"),
            zorder=3 if marker == "*" else 2,
            label=label,
        )


def _dress(axes: Axes, staleness: list[float]) -> None:
    axes.set_xticks(range(len(staleness)), [f"{late:g}" for late in staleness])
    axes.set_ylim(-0.03, 1.03)
    axes.grid(color="#E4E4E4", linewidth=0.7)
    axes.spines[["top", "right"]].set_visible(False)
