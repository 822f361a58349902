"""`steelyard export`: a trained model as one plain Hugging Face directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    source: Annotated[Path, typer.Argument(help="A run directory or one of its checkpoints.")],
    target: Annotated[Path, typer.Argument(help="Where the model directory is written.")],
) -> None:
    """Write the policy as a Hugging Face directory, a LoRA adapter merged into its base."""
    from steelyard.conductor import export_checkpoint

    written = export_checkpoint(source, target)
    print(f"{written}: load it with transformers, or try it: steelyard play TASK --model {target}")
