"""What engine and learner both need to know of a model."""

from steelyard.models.chat import ChatRenderer, Message
from steelyard.models.loading import LoadedModel, load_weights, resolve
from steelyard.models.places import EMBEDDED
from steelyard.models.threads import release_memory, release_threads, use_threads

__all__ = [
    "EMBEDDED",
    "ChatRenderer",
    "LoadedModel",
    "Message",
    "load_weights",
    "release_memory",
    "release_threads",
    "resolve",
    "use_threads",
]
