"""CPU threads: how many an operation runs on, and what an idle one gives back."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from pathlib import Path
from typing import Any

_SOFT_PAUSE = 1


def use_threads(n: int) -> None:
    """From now on operations of the calling thread run on `n` CPU threads.

    torch's own call is not enough in a new thread, which at its first parallel operation takes the
    number that was last set in any thread. For the same reason who starts a thread that calls this
    calls it again for itself: what is last set is what threads yet to come will take.
    """
    import torch

    torch.get_num_threads()  # as the first parallel operation would
    torch.set_num_threads(n)


def release_threads() -> None:
    """Ends the calling thread's OpenMP workers; its next parallel operation starts new ones.

    Idle pools are not free. Once a process has more OpenMP threads than cores, GNU's runtime no
    longer lets a worker spin before it sleeps, and every small operation then pays for a wake-up:
    decoding beside one idle pool ran at about 0.6 of its speed. So whoever goes idle calls this.
    Starting a pool costs about 0.1 ms.
    """
    library = _openmp()
    if library is not None:
        library.omp_pause_resource_all(_SOFT_PAUSE)


def release_memory() -> None:
    """Returns freed memory to the system.

    The allocator keeps what a thread freed for that thread. Engine and learner work in turn, so
    without this the process holds the sum of their peaks instead of the larger one. Taking memory
    back costs page faults, so it is for when the other one's turn comes, not for every batch.
    """
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is not None:
        trim(0)


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None)


@functools.cache
def _openmp() -> Any:
    """The OpenMP runtime that torch has loaded, if it can pause."""
    import torch  # noqa: F401  (loads it)

    with contextlib.suppress(OSError):
        for line in Path("/proc/self/maps").read_text().splitlines():
            path = line.split(maxsplit=5)[-1]
            if "/libgomp" in path:
                library = ctypes.CDLL(path)
                return library if hasattr(library, "omp_pause_resource_all") else None
    return None
