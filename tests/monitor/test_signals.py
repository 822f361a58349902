from dataclasses import replace

import numpy as np
import pytest
from made_run import BUGGY, FIXED, episode, failed, lost, passed, training_group, write_run

from steelyard.episodes import Check, Group, Scored
from steelyard.monitor import view
from steelyard.monitor.keeping import (
    Held,
    best_policy,
    heldout_by_policy,
    last_good_policy,
    last_sound,
)
from steelyard.monitor.significance import Unit
from steelyard.monitor.statistics import clustered_interval
from steelyard.store import EpisodeFilter, RunReader, RunStore


def heldout_group(step, name, verdicts):
    """`verdicts` holds (verifier passes, held-out pass) per episode."""
    group = f"s{step}/{name}"
    return Group(
        group,
        name,
        [
            episode(
                f"{group}/{i}", name, passed() if paid else failed(), heldout=Scored(float(right))
            )
            for i, (paid, right) in enumerate(verdicts)
        ],
    )


@pytest.fixture
def parted(tmp_path):
    """Held-out rates 1/2, 3/4, 3/4, 0 while the reward goes 1/2, 3/4, 1, 1."""
    path = tmp_path / "run"
    store = RunStore.start(path, {"rl": {"steps": 4}}, model="tiny")
    yes, no, cheat = (True, True), (False, False), (True, False)
    for step, verdicts in enumerate(
        ([yes, yes, no, no], [yes, yes, yes, no], [yes, yes, yes, cheat], [cheat] * 4), start=1
    ):
        store.add_group(step, heldout_group(step, "a-or", verdicts), "train", True)
        store.add_metrics(step, "rl", {"loss": 0.0})
    store.close()
    return path


def test_signals_show_training_and_truth_of_the_same_episodes(parted):
    with RunReader(parted) as reader:
        steps = view(reader, "signals")["steps"]
    assert [s["training"] for s in steps] == [0.5, 0.75, 1.0, 1.0]
    assert [s["heldout"] for s in steps] == [0.5, 0.75, 0.75, 0.0]
    assert [s["gap"] for s in steps] == [0.0, 0.0, 0.25, 1.0]
    assert all(s["unseen"] is None for s in steps)


def test_signals_of_a_run_count_errors_apart(tmp_path):
    write_run(tmp_path / "run")
    with RunReader(tmp_path / "run") as reader:
        found = view(reader, "signals")
    first, second = found["steps"]
    assert first["training"] == pytest.approx(1 / 7), "one episode of eight has no score"
    assert (first["episodes"], first["unscored"]) == (8, 1)
    assert first["heldout"] is None, "these tasks have no held-out checks"
    assert first["gap"] is None
    assert first["unseen"] == 0.5
    assert second["unseen"] == 1.0
    assert first["cost"]["calls"] == 2.0
    assert first["cost"]["tokens"] == 4.0
    assert first["cost"]["regressions"] is None, "nobody looked at the untouched task"
    final = next(e for e in found["evaluations"] if e["name"] == "final")
    assert (final["n"], final["unscored"], final["tasks"], final["k"]) == (7, 1, 2, 4)
    assert final["pass_at_1"] == pytest.approx(4 / 7)
    assert (final["low"], final["high"]) == pytest.approx(
        clustered_interval([1.0] * 4 + [0.0] * 3, list("aaaabbb"))
    )
    assert final["tasks_left_out"] == 1, "of four samples of b-key one has no score"
    assert final["pass_at_k"] == final["pass_hat_k"] == 1.0
    warm_start = next(e for e in found["evaluations"] if e["name"] == "warm_start")
    assert (warm_start["k"], warm_start["tasks_left_out"]) == (4, 0)
    assert (warm_start["pass_at_k"], warm_start["pass_hat_k"]) == (0.5, 0.0), "2 of 4, and 0 of 4"
    assert warm_start["pass_at_k_low"] < 0.5 < warm_start["pass_at_k_high"]
    with RunReader(tmp_path / "run") as reader, pytest.raises(ValueError, match="takes no ids"):
        view(reader, "signals", ["x"])


def test_regressions_are_checks_that_passed_before(tmp_path):
    store = RunStore.start(tmp_path / "run", {}, model="tiny")
    group = training_group(1, "a-or", [passed(), failed(), lost()], [FIXED, BUGGY, BUGGY])
    store.add_group(1, group, "train", True)
    before = {"missing": True, "none": True, "zero": True, "normal": False}
    store.set_untouched({("a-or", "training"): [Check(n, ok) for n, ok in before.items()]})
    store.close()
    with RunReader(tmp_path / "run") as reader:
        (step,) = view(reader, "signals")["steps"]
        assert reader.regressions(["step"], EpisodeFilter())[(1,)].failed == 1
    assert step["cost"]["regressions"] == pytest.approx(1 / 6), "`zero` broke in one of two"


def test_the_best_policy_is_that_with_the_best_heldout_rate(parted):
    with RunReader(parted) as reader:
        # The policy after step s sampled step s + 1; its own step steadies the rate.
        assert heldout_by_policy(reader, range(5)) == {0: 0.5, 1: 0.625, 2: 0.75, 3: 0.375}
        assert best_policy(reader, [0, 1, 3]) == 1
        assert last_good_policy(reader, [0, 1, 2, 3, 4], before=3) == 2
        assert last_good_policy(reader, [0, 1, 2, 3], before=2) == 1
        # No checkpoint is left from before: then 5/6 of the best that the run ever had counts.
        assert last_good_policy(reader, [0, 1, 2, 3], before=0) == 2
        assert last_good_policy(reader, [0, 1, 3], before=0) == 1
        assert last_good_policy(reader, [0, 3], before=0) == 0, "none has kept it: the better one"
        assert last_good_policy(reader, [4], before=5) is None, "nothing is known of it yet"


def evaluated(store, step, solved):
    """Dev tasks 0 to 11, two samples each: both pass where the task is among `solved`."""
    members = [
        episode(f"step-{step}/{t}/{i}", f"t{t}-or", passed() if t in solved else failed())
        for t in range(12)
        for i in range(2)
    ]
    store.add_evaluation(f"step-{step}", step, "dev", members)


def test_a_rollback_goes_back_by_significance_and_not_by_luck(tmp_path):
    store = RunStore.start(tmp_path / "run", {}, model="tiny")
    for step, solved in enumerate(([0, 1, 2], range(9), range(2, 9), [0, 1], [0])):
        evaluated(store, step, solved)
        if step:
            store.add_metrics(step, "rl", {"loss": 0.0})
    store.close()
    with RunReader(tmp_path / "run") as reader:
        rates = heldout_by_policy(reader, range(5))
        assert rates[2] < 5 / 6 * rates[1], "it looks worse than the best, on 24 episodes"
        saved = [0, 1, 2, 3, 4]
        assert last_good_policy(reader, saved, before=5) == 2, "3 and 4 are worse beyond doubt"
        assert last_good_policy(reader, saved, before=3) == 2
        assert last_good_policy(reader, saved, before=2) == 1, "the alarm showed in step 2 already"
        assert last_good_policy(reader, [0, 3, 4], before=5) == 0, "the best of those left"


def test_of_many_equal_policies_the_luckiest_does_not_make_the_latest_look_worse():
    """60 policies, each on 12 dev tasks with 4 samples: 100 runs, simulated."""
    draws, rates = np.random.default_rng(0), np.linspace(0.1, 0.9, 12)

    def measured(rates):
        solved = draws.binomial(4, rates)
        units = tuple(Unit(f"t{i}", n / 4) for i, n in enumerate(solved))
        return Held(solved.sum() / 48, units, int(solved.sum()), 48)

    passed_over = {"equal": 0, "at a third": 0}
    for _ in range(100):
        held = {step: measured(rates) for step in range(60)}
        passed_over["equal"] += last_sound(held, [59]) is None
        passed_over["at a third"] += last_sound(held | {59: measured(rates / 3)}, [59]) is None
    assert passed_over["equal"] <= 5, "at 5 % / 59; at 5 % it was 40"
    assert passed_over["at a third"] >= 90, "and a real loss is still found"


def test_alarms_read_what_heldout_checks_said_and_where_they_failed(tmp_path):
    from steelyard.monitor.alarms import read_steps

    store = RunStore.start(tmp_path / "run", {}, model="tiny")
    made = [
        episode(f"s1/a/{i}", "a-or", passed(), heldout=heldout)
        for i, heldout in enumerate([Scored(0.0), lost(), None])
    ]
    store.add_group(1, Group("s1/a", "a-or", made), "train", True)
    store.add_group(2, heldout_group(2, "a-or", [(True, True)]), "train", True)
    for step in (1, 2):
        store.add_metrics(step, "rl", {"loss": 0.5})
    store.close()
    with RunReader(tmp_path / "run") as reader:
        first, second = read_steps(reader)
        assert read_steps(reader, after=1) == [second]
    assert [e.truth for e in first.episodes] == [0.0, None, 1.0]
    assert [e.gap for e in first.episodes] == [1.0, None, None]
    assert all(e.group for e in first.episodes)
    assert first.metrics == {"loss": 0.5}


def test_without_heldout_checks_dev_tasks_decide_and_test_tasks_never(tmp_path):
    write_run(tmp_path / "run")
    with RunReader(tmp_path / "run") as reader:
        assert heldout_by_policy(reader, range(4)) == {1: 0.5, 2: 1.0}
        assert best_policy(reader, [0, 1, 2]) == 2


def test_alarms_are_listed_with_their_evidence(tmp_path):
    from steelyard.monitor.alarms import Alarm

    alarm = Alarm(
        "task_jump", 3, "a-or jumped", {"p": 1e-6}, ("e1",), "quarantine", "a-or", ("a-or",)
    )
    store = RunStore.start(tmp_path / "run", {}, model="tiny")
    store.add_event("alarm", alarm.text, step=alarm.step, **alarm.as_json())
    other = replace(alarm, name="unscored", subject="")
    store.add_event("alarm", other.text, step=4, **other.as_json())
    store.close()
    with RunReader(tmp_path / "run") as reader:
        everything = view(reader, "alarms")
        (one,) = view(reader, "alarms", ["task_jump"])["alarms"]
        with pytest.raises(ValueError, match="no alarm 'nothing'"):
            view(reader, "alarms", ["nothing"])
    assert [a["name"] for a in everything["alarms"]] == ["task_jump", "unscored"]
    assert one["evidence"] == {"p": 1e-6}
    assert one["episodes"] == ["e1"]
    assert (one["step"], one["subject"], one["action"]) == (3, "a-or", "quarantine")
