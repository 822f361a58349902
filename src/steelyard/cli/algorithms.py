"""`steelyard algorithms`: the table, printed from the records that run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from steelyard.objective import Algorithm


_WIDE = 120
"""Columns below which the table would break its words."""


def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The table of algorithms, one row each; [algorithm].name takes all but sft, the warm start."""
    from steelyard.objective import ALGORITHMS, as_table

    if as_json:
        print(json.dumps({k: as_table(v) for k, v in ALGORITHMS.items()}, indent=2))
        return
    console = Console()
    rows = [cells(row) for row in ALGORITHMS.values()]
    if console.width >= _WIDE:
        console.print(_table(rows))
    else:
        for row in rows:
            console.print(_block(row), markup=False, highlight=False)
    console.print(
        "Ratio and limit are of π_θ over the learner's own recomputation at the batch's start, "
        "unless μ (the sampler) is named.\nEvery axis can be changed in the run file's "
        "[algorithm]; numbers and their sources: steelyard algorithms --json",
        highlight=False,
        markup=False,
    )


def cells(row: Algorithm) -> dict[str, str]:
    """What the notes' table says of an algorithm, by column."""
    return {
        "algorithm": row.name,
        "weight from": weight_from(row),
        "critic": "no" if row.critic is None else row.critic.kind,
        "ratio": ratio(row),
        "limit": limit(row),
        "aggregate": aggregate(row),
        "source": row.source,
    }


def _table(rows: list[dict[str, str]]) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold", leading=1)
    for column in rows[0]:
        # Names of algorithms stay whole: they are what one types.
        table.add_column(column, no_wrap=column == "algorithm")
    for row in rows:
        table.add_row(*row.values())
    return table


def _block(row: dict[str, str]) -> str:
    """The row for a narrow screen, one line a column."""
    lines = [f"{row['algorithm']}  ({row['source']})"]
    shown = ("weight from", "critic", "ratio", "limit", "aggregate")
    return "\n".join([*lines, *(f"    {name:<12} {row[name]}" for name in shown), ""])


def weight_from(row: Algorithm) -> str:
    """Where a token's weight comes from, and what is added to the loss or taken off the reward."""
    from steelyard.objective import (
        GAE,
        Filter,
        GroupComparison,
        Imitation,
        RewardToGo,
        TeacherLogRatio,
    )

    match row.credit:
        case Imitation():
            text = "every demonstrated token 1"
        case Filter(threshold=threshold):
            text = f"1 if the return exceeds {threshold:g}"
        case RewardToGo(baseline="learned"):
            text = "reward-to-go − V(h)"
        case RewardToGo():
            text = "reward-to-go"
        case GroupComparison(baseline=baseline, scale=scale):
            text = "group comparison: R − " + (
                "mean of the others" if baseline == "leave_one_out" else "mean"
            )
            text += "" if scale == "none" else f", ÷ {scale}"
        case GAE(gamma=gamma, lam=lam, level=level):
            text = f"GAE({gamma:g}, {lam:g}) over {level}s"
        case TeacherLogRatio():
            text = "log π_teacher − log π"
        case None:
            text = "teacher's distribution"
    if row.kl is not None:
        place = "in the reward" if row.kl.estimator == "k1_reward" else row.kl.estimator
        text += f"; KL {row.kl.coefficient:g} ({place})"
    return text


def ratio(row: Algorithm) -> str:
    """The ratio's scope, in words."""
    from steelyard.objective import Filter, Imitation

    if row.ratio == "none" and isinstance(row.credit, (Imitation, Filter)):
        return "none (imitation)"  # whoever wrote the tokens, the loss is their log-likelihood
    words = {
        "none": "none (fresh samples)",
        "token": "this token",
        "prefix": "start to here",
        "sequence": "whole episode, length-normalised",
        "full": "whole episode",
    }
    return words[row.ratio] + (", over μ" if row.anchor == "behaviour" else "")


def limit(row: Algorithm) -> str:
    """The limit with its bounds as ratios."""
    from steelyard.objective import ClipMin, Mask, StopGradientClip, Truncate, WideningWindow

    match row.limit:
        case None:
            return "none"
        case ClipMin(low=low, high=high, dual=dual):
            text = f"min with clip [{1 - low:g}, {1 + high:g}]"
            return text + (f", dual {dual:g}" if dual is not None else "")
        case StopGradientClip(highest_ratio=highest, lowest_ratio=lowest):
            return f"clipped [{lowest:g}, {highest:g}] as a constant weight"
        case WideningWindow(low=low, high=high, power=power):
            return f"min with clip e^[−{low:g} t^{power:g}, {high:g} t^{power:g}]"
        case Mask(lowest_ratio=lowest, highest_ratio=highest):
            return f"masked outside [{lowest:g}, {highest:g}]"
        case Truncate(highest_ratio=highest):
            return f"truncated at {highest:g} as a constant weight"


def aggregate(row: Algorithm) -> str:
    """The one division, in words."""
    rule = row.aggregate
    if rule.kind == "constant":
        return "sum ÷ episodes" if rule.length == 1 else "sum ÷ (episodes · token limit)"
    return {
        "token_mean": "mean of tokens",
        "sequence_mean": "mean of episodes' means",
        "prompt_mean": "mean of groups' means",
    }[rule.kind]
