"""Bins that run at the same time, each on its share of the CPU threads.

An operation on two threads ends when the slower of them does, and an update is thousands of small
operations: where cores are shared with other machines, as in a cloud, much of the time goes to that
wait. Bins are independent until their gradients meet, so lanes wait for each other once an update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import torch

from steelyard.learner.forward import BinForward
from steelyard.learner.packing import Bin
from steelyard.learner.settings import LearnerSettings
from steelyard.models import release_threads, use_threads

_T = TypeVar("_T")


def lanes_of(settings: LearnerSettings, *, has_critic: bool) -> int:
    """How many lanes a learner has where our own Llama path runs."""
    if has_critic or settings.method == "lora" or settings.device != "cpu":
        return 1
    return settings.lanes or min(2, settings.threads or torch.get_num_threads())


def run_bins(
    forwards: Sequence[BinForward], bins: Sequence[Bin], work: Callable[[BinForward, Bin], _T]
) -> list[_T]:
    """work(forward, bin) for every bin, in the order of `bins`, with every forward in use at once.

    The forwards share the calling thread's number of OpenMP threads. What `work` raises for one bin
    ends the others that have not begun.
    """
    if len(forwards) == 1 or len(bins) < 2:
        return [work(forwards[0], bin_) for bin_ in bins]
    idle: SimpleQueue[BinForward] = SimpleQueue()
    for forward in forwards:
        idle.put(forward)

    def work_in_lane(bin_: Bin) -> _T:
        forward = idle.get()
        try:
            return work(forward, bin_)
        finally:
            idle.put(forward)

    # The longest first, so that lanes end together.
    longest_first = sorted(range(len(bins)), key=lambda i: -len(bins[i]))
    threads = torch.get_num_threads()
    share = max(1, threads // len(forwards))
    release_threads()  # of the caller, who waits
    try:
        with ThreadPoolExecutor(len(forwards), initializer=use_threads, initargs=(share,)) as pool:
            futures = {i: pool.submit(work_in_lane, bins[i]) for i in longest_first}
            try:
                return [futures[i].result() for i in range(len(bins))]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    finally:
        use_threads(threads)
