"""Tokens in, tokens and log-probs out."""

from steelyard.engines.base import Engine, EngineError, EngineStats, Sample, Session
from steelyard.engines.fingerprint import fingerprint
from steelyard.engines.settings import EngineSettings
from steelyard.engines.torch_engine import TorchEngine, TorchSession

__all__ = [
    "Engine",
    "EngineError",
    "EngineSettings",
    "EngineStats",
    "Sample",
    "Session",
    "TorchEngine",
    "TorchSession",
    "fingerprint",
]
