"""Results that are kept from run to run, by the content that they depend on."""

from __future__ import annotations

import os
from pathlib import Path


def keep(place: Path, text: str) -> None:
    """Writes the file whole or not at all; one that cannot be written is given up: it only saves
    time."""
    scratch = place.with_suffix(f".{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch.write_text(text)
        scratch.replace(place)
    except OSError:
        pass
