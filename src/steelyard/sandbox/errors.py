"""What can go wrong with a sandbox itself, as opposed to what runs in it."""

from __future__ import annotations


class SandboxError(RuntimeError):
    """The sandbox could not be started or died; says nothing about the code that ran in it."""


class SandboxUnavailable(ValueError):
    """This machine cannot sandbox at all; the one sentence says why and what to do."""
