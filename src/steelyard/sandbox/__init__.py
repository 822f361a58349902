"""Runs a command somewhere it can do no harm."""

from steelyard.sandbox.calling import Caller, Reply, ReplyKind
from steelyard.sandbox.errors import SandboxError, SandboxUnavailable
from steelyard.sandbox.packages import packages_can_be_shown
from steelyard.sandbox.pool import SandboxPool
from steelyard.sandbox.sandbox import Completed, Program, Sandbox, check_available
from steelyard.sandbox.settings import SandboxSettings

__all__ = [
    "Caller",
    "Completed",
    "Program",
    "Reply",
    "ReplyKind",
    "Sandbox",
    "SandboxError",
    "SandboxPool",
    "SandboxSettings",
    "SandboxUnavailable",
    "check_available",
    "packages_can_be_shown",
]
