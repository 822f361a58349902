"""Shortcut scanners: what an agent did that honest work does not need.

They read recorded trajectories and final files as text and syntax trees; nothing is run. A finding
says what stands in the record, not that the agent meant it.
"""

from steelyard.monitor.scanners.finding import Finding, Hit, Scanner, Severity
from steelyard.monitor.scanners.material import Given
from steelyard.monitor.scanners.scan import SCANNERS, read_findings, scan_episode, scan_run

__all__ = [
    "SCANNERS",
    "Finding",
    "Given",
    "Hit",
    "Scanner",
    "Severity",
    "read_findings",
    "scan_episode",
    "scan_run",
]
