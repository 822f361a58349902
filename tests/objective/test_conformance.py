"""The formulas of other trainers that `benchmarks/conformance.py` restates in numpy, as a test.

TRL's own code needs the extra `bench` and is run by that script.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from steelyard.objective import Aggregate, ClipMin, Correction, GroupComparison, WideningWindow


def _load() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "conformance.py"
    spec = importlib.util.spec_from_file_location("conformance", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look up their annotations
    spec.loader.exec_module(module)
    return module


conformance = _load()
SEEDS = (0, 1)
BATCHES = {seed: conformance.make_batch(seed) for seed in SEEDS}


def named(name: str, what: str) -> Any:
    (peer,) = (p for p in conformance.PEERS if p.name == name and p.what.startswith(what))
    return peer


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("peer", conformance.PEERS, ids=lambda peer: f"{peer.name}: {peer.what}")
def test_a_loss_agrees_or_differs_by_the_convention_it_names(peer, seed):
    row = conformance.compare(peer, BATCHES[seed])
    assert row.holds, row


@pytest.mark.parametrize("seed", SEEDS)
def test_credit_agrees_or_differs_by_the_convention_it_names(seed):
    rows = conformance.credit_rows(BATCHES[seed])
    assert len(rows) > 5
    assert [row for row in rows if not row.holds] == []


@pytest.mark.parametrize(
    ("peer", "changed"),
    [
        (named("verl", "PPO"), {"limit": ClipMin()}),
        (named("verl", "PPO"), {"limit": ClipMin(0.2, 0.28, dual=3.0)}),
        (named("verl", "PPO"), {"aggregate": Aggregate("sequence_mean")}),
        (named("verl", "PPO"), {"aggregate": Aggregate("prompt_mean")}),
        (named("verl", "PPO"), {"credit": GroupComparison(scale="std", ddof=0)}),
        (named("verl", "PPO"), {"credit": GroupComparison(scale="std", epsilon=1e-2)}),
        (named("verl", "GSPO"), {"limit": ClipMin()}),
        (named("verl", "GSPO"), {"ratio": "token"}),
        (named("verl", "TIS"), {"correction": None}),
        (named("verl", "TIS"), {"correction": Correction(highest_ratio=3.0)}),
        (named("AReaL", "decoupled PPO, "), {"correction": Correction("mask", highest_ratio=5.0)}),
        (named("IcePop", "GRPO"), {"correction": Correction("mask", highest_ratio=5.0)}),
        (named("CTPO", "the paper"), {"limit": WideningWindow(power=0.0)}),
        (named("CTPO", "the paper"), {"limit": WideningWindow(upper_for_negative=True)}),
        (named("CTPO", "its code"), {"limit": WideningWindow()}),
        (named("verl", "k3 value"), {"kl": None}),
        (named("DeepSeek-V3.2", "ρ"), {"kl": None}),
        (named("prime-rl", "its default"), {"kl": None}),
    ],
    ids=lambda x: x.what if hasattr(x, "what") else ", ".join(x),
)
def test_the_comparison_notices_a_changed_axis(peer, changed):
    """What a peer does shows in these batches: with another choice on that axis we disagree."""
    other = dataclasses.replace(peer, row=dataclasses.replace(peer.row, **changed))
    assert not all(agrees(conformance.compare(other, BATCHES[seed])) for seed in SEEDS)


def agrees(row: Any) -> bool:
    gap = row.left if row.convention else max(row.loss, row.gradient)
    return gap < 10 * conformance.TOLERANCE
