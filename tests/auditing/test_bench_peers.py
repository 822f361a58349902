"""The peers' benchmark: the corpus is presented to them as it is, and counted as stated."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "audit_bench"))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks/audit_bench/peer_adapters"))

from corpus import CASES, CLASSES, SOUND, Case, write_case
from peer_table import PEERS, count, levels
from presenting import BARE, TextCase

TEXTS = [case for case in CASES if case.is_text]
PEER = PEERS["rewardprobe"]


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: case.name)
def test_a_reward_function_pays_a_peer_what_it_pays_our_grader(case: Case, tmp_path: Path) -> None:
    text = TextCase(write_case(case, tmp_path).parent)
    for row in text.rows:
        assert text.dressed(row, row[BARE]) == text.right(row)
    if case.flaw in ("flaky", "stateful"):
        return
    row = text.rows[case.row]
    if case.gold_pays is not None:
        assert text.score(row, text.right(row)) == case.gold_pays
    if case.pays is not None and "answer.txt" in case.cheat:
        assert text.score(row, str(case.cheat["answer.txt"])) == case.pays
    for change in case.wrong:
        assert text.score(row, str(change["answer.txt"])) < 1.0


def test_a_finding_counts_by_the_level_that_the_peer_gives_it() -> None:
    assert levels(PEER, {"findings": [["critical", "x"], ["info", "y"]]}) == (True, True)
    assert levels(PEER, {"findings": [["warning", "x"]]}) == (False, True)
    assert levels(PEER, {"findings": [["resisted", "x"]]}) == (False, False)
    assert levels(PEER, {"error": "it took more than 60 s"}) == (False, False)


def test_a_case_that_a_peer_cannot_take_is_no_miss() -> None:
    refused = {case.name: {"refused": "it takes text"} for case in CASES}
    first = next(case for case in CASES if case.flaw == "substring")
    counts = count(PEER, {**refused, first.name: {"findings": []}})
    assert (counts["substring"].accepted, counts["substring"].weighty) == (1, 0)
    assert sum(number.accepted for number in counts.values()) == 1
    assert sum(counts[flaw].cases for flaw in (*CLASSES, SOUND)) == len(CASES)
