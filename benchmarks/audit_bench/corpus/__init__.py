"""Small verifiers with one labelled flaw each, and sound ones, to measure an audit with.

They were written before the audit's probes, from the public record alone.
"""

from __future__ import annotations

from . import (
    channel,
    exits,
    inside,
    interpreter,
    leaks,
    pytest_config,
    shell,
    sound_data,
    sound_scripts,
    sound_texts,
    strict,
    texts,
    trivial,
)
from .case import Case, write_case
from .classes import CLASSES, SOUND, effect_of

_FAMILIES = (
    *(trivial, exits, pytest_config, interpreter, inside, channel, shell, leaks, texts, strict),
    *(sound_data, sound_scripts, sound_texts),
)

CASES: tuple[Case, ...] = tuple(case for family in _FAMILIES for case in family.CASES)

__all__ = ["CASES", "CLASSES", "SOUND", "Case", "effect_of", "write_case"]
