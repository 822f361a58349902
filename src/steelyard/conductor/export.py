"""A trained policy as one plain Hugging Face directory."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from steelyard.conductor.checkpoints import checkpoint_of

_TRAINING_STATE = ("optimizer.safetensors", "learner.json")


def export_checkpoint(source: Path, target: Path) -> Path:
    """Writes the checkpoint (of a run: the latest) as a model that `transformers` loads.

    A LoRA adapter is merged into its base; the optimiser's state is left out.

    Raises:
        ValueError: no checkpoint there, or `target` exists and is not empty.
    """
    checkpoint = checkpoint_of(source)
    if target.exists() and any(target.iterdir()):
        raise ValueError(f"{target}: exists and is not empty; choose another directory")
    if (checkpoint / "adapter_config.json").is_file():
        _merge(checkpoint, target)
    else:
        shutil.copytree(
            checkpoint, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_TRAINING_STATE)
        )
    return target


def _merge(adapter: Path, target: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    base = json.loads((adapter / "adapter_config.json").read_text())["base_model_name_or_path"]
    if not Path(base).is_dir():
        raise ValueError(f"{adapter}: its base model {base} is not there; put it back or retrain")
    model = AutoModelForCausalLM.from_pretrained(base, dtype="auto", trust_remote_code=False)
    merged = PeftModel.from_pretrained(model, adapter).merge_and_unload()
    merged.save_pretrained(target)
    AutoTokenizer.from_pretrained(adapter).save_pretrained(target)
