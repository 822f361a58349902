"""`steelyard algorithms`: the table, printed from the records that run."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table


def algorithms(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """The algorithms that [algorithm].name can be, one row each."""
    from steelyard.objective import ALGORITHMS

    if as_json:
        print(json.dumps({k: dataclasses.asdict(v) for k, v in ALGORITHMS.items()}, indent=2))
        return
    table = Table("algorithm", "weight from", "ratio", "limit", "aggregate", "source")
    for row in ALGORITHMS.values():
        credit = "every token 1"
        if row.credit is not None:
            scale = " ÷ std" if row.credit.scale == "std" else ""
            credit = f"reward − {row.credit.baseline.replace('_', ' ')}{scale}"
        limit = (
            "none" if row.limit is None else f"min, [{1 - row.limit.low:g}, {1 + row.limit.high:g}]"
        )
        table.add_row(row.name, credit, row.ratio, limit, row.aggregate.kind, row.source)
    Console().print(table)
