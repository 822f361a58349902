"""The run that the viewer is timed on."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

import viewer_scale
from steelyard.monitor import view
from steelyard.monitor.scanners import scan_run
from steelyard.store import RunReader


def test_every_copy_of_the_generated_run_has_the_findings_of_the_first(tmp_path: Path) -> None:
    viewer_scale.write_large_run(tmp_path / "large", 2 * viewer_scale.FIRST)
    with RunReader(tmp_path / "large") as reader:
        asked: list[str] = []
        reader._connection.set_trace_callback(asked.append)
        found = view(reader, "findings", [])
        whole = ["n_tokens" in query for query in asked]
        assert sum(whole) == 1, "episodes are read as a whole where the scan stands, and only there"
        assert found["scanned"] == found["episodes"] == 2 * (viewer_scale.FIRST + 100)
        share = found["total"] / found["episodes"]
        assert abs(share - viewer_scale.TRYING) < 0.03, "one finding for each that tries"
        assert len(found["by_scanner"]) == len(viewer_scale.SHORTCUTS)
        first, copies = (
            [f for f in found["findings"] if ("/copy-" in f["episode"]) is copied]
            for copied in (False, True)
        )
        assert [f"{f['episode']}/copy-1" for f in first] == [f["episode"] for f in copies]
        assert {f["step"] for f in copies} <= set(range(11, 21))
        assert scan_run(reader, {}) == [], "nothing is left to scan"
