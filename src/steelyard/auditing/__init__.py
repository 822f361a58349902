"""Attacks a grader from the outside, through the same door as an agent; needs no torch."""

from steelyard.auditing.findings import (
    Finding,
    Kind,
    Report,
    Strength,
    TaskAudit,
    Tier,
    Trial,
    Verdict,
)
from steelyard.auditing.report import markdown
from steelyard.auditing.runner import Watcher, audit
from steelyard.auditing.settings import AuditSettings

__all__ = [
    "AuditSettings",
    "Finding",
    "Kind",
    "Report",
    "Strength",
    "TaskAudit",
    "Tier",
    "Trial",
    "Verdict",
    "Watcher",
    "audit",
    "markdown",
]
