"""No idle pool of OpenMP threads lies beside the one that works: it would halve its speed."""

import os

import pytest
import torch

from steelyard.conductor import read_run_file, stepping, train
from steelyard.conductor.collect import GroupSource
from steelyard.conductor.listener import NullListener
from steelyard.models import release_threads
from steelyard.models.threads import _openmp


def native_threads():
    return set(os.listdir("/proc/self/task"))


@pytest.mark.skipif(_openmp() is None, reason="torch has another OpenMP, which need not be paused")
@pytest.mark.parametrize(
    ("before", "owner", "then"),
    [("release_memory", stepping, "update"), ("group_figures", GroupSource, "collect")],
    ids=["before the learner works", "before the engine works"],
)
def test_the_threads_of_the_loop_that_records_end(folder, monkeypatch, before, owner, then):
    earlier, later = getattr(stepping, before), getattr(owner, then)
    started, left = set(), []

    def with_tensor_work(*arguments):
        release_threads()  # an earlier test's
        threads = native_threads()
        torch.set_num_threads(2)
        torch.ones(1 << 20).exp_()
        started.update(native_threads() - threads)
        return earlier(*arguments)

    def observed(*arguments):
        left.append(started & native_threads())
        return later(*arguments)

    monkeypatch.setattr(stepping, before, with_tensor_work)
    monkeypatch.setattr(owner, then, observed)
    changes = ["rl.steps=2", "evaluation.every_steps=0", "checkpoint.every_steps=2"]
    settings = read_run_file(folder.run_file("pools"), changes)
    threads = torch.get_num_threads()
    try:
        train(settings, NullListener())
    finally:
        torch.set_num_threads(threads)
    assert started, "the operation was large enough to run in parallel"
    assert left == [set(), set()]
