"""Reads what a model's token ids mean, for those who only look at a run: needs no torch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_BYTE_LEVEL = "gpt2"


def decoder_of(file: Path) -> Any:
    """A `tokenizers.Tokenizer` of a tokenizer.json, or of a GGUF file, which then only decodes.

    None where a package is missing, or the file holds no vocabulary that this can read.
    """
    try:
        return _of_gguf(file) if file.suffix == ".gguf" else _of_json(file)
    except Exception:  # the packages raise nothing more exact
        return None


def _of_json(file: Path) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(file))


def _of_gguf(file: Path) -> Any:
    from gguf import GGUFReader
    from tokenizers import Tokenizer, decoders, models

    fields = GGUFReader(file).fields
    if fields["tokenizer.ggml.model"].contents() != _BYTE_LEVEL:
        return None
    tokens = fields["tokenizer.ggml.tokens"].contents()
    # Without merges nothing can be encoded; whoever decodes needs only the tokens.
    decoder = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, []))
    decoder.decoder = decoders.ByteLevel()
    return decoder
