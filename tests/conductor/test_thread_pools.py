"""No idle pool of OpenMP threads lies beside the one that works: it would halve its speed."""

import os

import pytest
import torch

from steelyard.conductor import read_run_file, stepping, train
from steelyard.conductor.listener import NullListener
from steelyard.models import release_threads
from steelyard.models.threads import _openmp


def native_threads():
    return set(os.listdir("/proc/self/task"))


@pytest.mark.skipif(_openmp() is None, reason="torch has another OpenMP, which need not be paused")
def test_threads_that_the_record_of_a_step_started_end_before_the_next(folder, monkeypatch):
    figures, update = stepping.group_figures, stepping.update
    started, left = set(), []

    def figures_of_many_tokens(groups):
        release_threads()  # an earlier test's
        before = native_threads()
        torch.set_num_threads(2)
        torch.ones(1 << 20).exp_()
        started.update(native_threads() - before)
        return figures(groups)

    def observed_update(*arguments):
        left.append(started & native_threads())
        return update(*arguments)

    monkeypatch.setattr(stepping, "group_figures", figures_of_many_tokens)
    monkeypatch.setattr(stepping, "update", observed_update)
    settings = read_run_file(folder.run_file("pools"), ["rl.steps=2", "evaluation.every_steps=0"])
    threads = torch.get_num_threads()
    try:
        train(settings, NullListener())
    finally:
        torch.set_num_threads(threads)
    assert started, "the operation was large enough to run in parallel"
    assert left == [set(), set()]
