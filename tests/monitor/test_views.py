"""Every view of a run whose numbers are known."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_run import BUGGY, evaluated, write_run

from steelyard.monitor import VIEWS, before_and_after, view, wilson_interval
from steelyard.monitor.statistics import clustered_interval
from steelyard.store import BASE_STEP, RunReader, RunStore


@pytest.fixture
def reader(tmp_path: Path) -> RunReader:
    write_run(tmp_path / "demo")
    return RunReader(tmp_path / "demo")


@pytest.mark.parametrize("name", ["summary", "signals"])
def test_what_the_overview_shows_asks_the_record_nothing_twice(
    reader: RunReader, name: str
) -> None:
    asked: list[str] = []
    reader._connection.set_trace_callback(asked.append)
    view(reader, name)
    assert len(asked) > 5
    assert len(asked) == len(set(asked))


def test_summary_before_and_after(reader: RunReader) -> None:
    summary = view(reader, "summary")
    assert (summary["name"], summary["state"], summary["model"]) == ("demo", "finished", "tiny")
    base, warm_start, final = summary["base"], summary["warm_start"], summary["final"]
    assert (base["pass_at_1"], base["n"], base["split"]) == (0.0, 8, "test")
    assert (warm_start["pass_at_1"], warm_start["n"]) == (0.25, 8)
    # The sandbox failure is neither a success nor a failure.
    assert (final["pass_at_1"], final["n"], final["unscored"]) == (4 / 7, 7, 1)
    by_task = clustered_interval([1.0] * 4 + [0.0] * 3, list("aaaabbb"))
    assert (final["low"], final["high"]) == by_task
    (shown,) = (e for e in summary["evaluations"] if e["name"] == "final")
    assert (shown["low"], shown["high"]) == by_task
    assert final["by_kind"]["or"]["pass_at_1"] == 1.0
    assert final["by_kind"]["key"] == {
        "pass_at_1": 0.0, "low": 0.0, "high": wilson_interval(0, 1)[1], "n": 3, "unscored": 1,
    }  # fmt: skip
    assert final["tasks"] == 2
    # Residuals by task: or 4 · 3/7, key 3 · −4/7; √(2 · (12/7)²) / 7.
    assert final["standard_error"] == pytest.approx(2**0.5 * 12 / 49)


def test_summary_steps_and_unseen(reader: RunReader) -> None:
    summary = view(reader, "summary")
    assert [(e["step"], e["pass_at_1"], e["n"]) for e in summary["unseen"]] == [
        (1, 0.5, 2),
        (2, 1.0, 2),
    ]
    first, second = summary["steps"]
    assert first["reward_mean"] == pytest.approx(1 / 7)  # 7 of 8 scored
    assert second["reward_mean"] == pytest.approx(2 / 7)
    assert first["groups"] == {"mixed": 1, "all_pass": 0, "all_fail": 1, "unscored": 0}
    assert (first["entropy"], second["entropy"]) == (0.5, 0.25)
    assert first["tokens_per_second"] == {"sampling": 1000.0, "training": 2000.0}
    assert first["waiting_seconds"] == {"engine": 5.5, "learner": 6.5}
    assert first["seconds"] == {"sampling": 6.0, "grading": 0.5, "training": 5.0}
    assert first["seconds_total"] == 11.0  # grading passes while episodes are sampled
    assert (summary["groups_with_signal"], summary["groups"]) == (2, 4)


def test_outcomes_are_counted_where_they_happened(reader: RunReader) -> None:
    counts = view(reader, "summary")["outcomes"]
    assert counts["training"] == {"solved": 3, "wrong": 11, "sandbox_failure": 2}
    assert counts["evaluation"] == {
        "solved": 9, "wrong": 10, "turn_limit": 8, "sandbox_failure": 1,
    }  # fmt: skip
    assert counts["heldout"] == {"solved": 9}
    rows = {row["outcome"]: row for row in view(reader, "outcomes", ["final"])["outcomes"]}
    assert rows["sandbox_failure"]["example"] == "final/b-key/3"
    assert rows["sandbox_failure"]["detail"] == "the sandbox died"
    assert [rows[kind]["evaluation"] for kind in ("solved", "wrong", "truncated")] == [4, 3, 0]


def test_summary_cost_and_checkpoints(reader: RunReader) -> None:
    summary = view(reader, "summary")
    cost = summary["cost"]
    assert cost["seconds"] == {
        "warm_start": 3.0, "sampling": 12.0, "training": 10.0, "evaluation": 15.0,
    }  # fmt: skip
    assert cost["seconds_within_sampling"] == {"grading": 1.0}
    assert 0 < cost["seconds_total"] < 60
    assert cost["episodes"] == {"training": 16, "evaluation": 28}
    assert cost["tokens_sampled"] == {"training": 64, "evaluation": 112}
    assert cost["tokens_trained"] == {"warm_start": 500, "rl": 600}
    assert cost["peak_memory_bytes"] == 2**31
    assert [Path(c).name for c in summary["checkpoints"]] == ["step-000002"]


def test_a_kind_at_zero_is_named_with_its_diagnosis(reader: RunReader) -> None:
    (found,) = view(reader, "summary")["kinds_at_zero"].items()
    kind, diagnosis = found
    assert kind == "key"
    assert diagnosis["submitted_wrong"] == 0.75
    assert diagnosis["unscored"] == 0.25
    assert (diagnosis["training_groups"], diagnosis["training_groups_all_fail"]) == (2, 2)
    assert diagnosis["distinct_programs_per_group"] == 1.0
    assert diagnosis["cause"] == (
        "submitted a wrong program in 75% of 4 episodes; all 2 training groups all-fail, so no"
        " gradient: 1.0 distinct final programs in 4 episodes, the policy hardly explores"
    )


def test_a_kind_that_training_never_saw_says_so(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "r", {}) as store:
        store.add_evaluation("final", 1, "test", evaluated("base", {"x-new": (0, 2)}))
    with RunReader(tmp_path / "r") as reader:
        (diagnosis,) = view(reader, "summary")["kinds_at_zero"].values()
    assert diagnosis["never_submitted"] == 1.0
    assert diagnosis["cause"].endswith("no training task is of this kind, so nothing was learned"
                                       " from it directly")  # fmt: skip


def test_a_run_that_has_not_come_far(tmp_path: Path) -> None:
    path = tmp_path / "young"
    with RunStore.start(path, {}), RunReader(path) as reader:
        summary = view(reader, "summary")
    assert summary["state"] == "running"
    assert not {"base", "warm_start", "final"} & set(summary)
    assert summary["steps"] == summary["unseen"] == []
    with RunReader(path) as reader:
        assert view(reader, "summary")["state"] == "killed"  # its writer never said goodbye
        assert before_and_after(reader) is None


def test_test_split_gives_the_headline_and_dev_the_series(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "r", {}) as store:
        store.add_evaluation("base", BASE_STEP, "dev", evaluated("base-d", {"d-or": (1, 2)}))
        store.add_evaluation("base", BASE_STEP, "test", evaluated("base-t", {"t-or": (0, 2)}))
    with RunReader(tmp_path / "r") as reader:
        summary = view(reader, "summary")
    assert (summary["base"]["split"], summary["base"]["pass_at_1"]) == ("test", 0.0)
    assert [(e["name"], e["step"], e["pass_at_1"]) for e in summary["unseen"]] == [
        ("base", BASE_STEP, 0.5)
    ]


def test_before_and_after_are_of_one_task(reader: RunReader) -> None:
    pair = before_and_after(reader)
    assert pair == ("base/a-or/0", "final/a-or/0")
    before, after = view(reader, "episode", pair)["episodes"]
    assert (before["solved"], after["solved"]) == (False, True)
    assert before["checks"][2] == {"name": "zero", "passed": False, "detail": "expected 0, got 3"}
    assert [call["name"] for call in after["turns"][0]["calls"]] == ["edit", "submit"]
    assert before["files"] == {"settings.py": BUGGY}
    assert after["segments"] == [
        {"tokens": 7, "action_tokens": 4, "parent": None, "fork_position": None, "versions": [0]}
    ]


def test_narrowing_by_id(reader: RunReader) -> None:
    def names(what: str, *ids: str) -> list[str]:
        return [record["id"] for record in view(reader, what, ids)[what]]

    assert names("groups", "1") == ["step-1/c-or", "step-1/d-key"]
    assert names("groups", "c-or") == ["step-1/c-or", "step-2/c-or"]
    assert names("groups", "step-2/d-key") == ["step-2/d-key"]
    assert names("episodes", "step-2") == ["dev-2/e-or/0", "dev-2/e-or/1"]
    assert len(names("episodes", "final", "base")) == 16
    assert view(reader, "config", ["rl.steps"]) == {"config": {"rl.steps": 2}}
    assert [row["entropy"] for row in view(reader, "metrics", ["entropy"])["rl"]] == [0.5, 0.25]
    (task,) = view(reader, "tasks", ["a-or"])["tasks"]
    assert task["training"] is None
    rates = {name: rate["pass_at_1"] for name, rate in task["evaluations"].items()}
    assert rates == {"base": 0.0, "warm_start": 0.5, "final": 1.0}


@pytest.mark.parametrize(
    ("what", "ids", "sentence"),
    [
        ("nonsense", [], "there is no view 'nonsense': choose one of summary, "),
        ("groups", ["nobody"], "no group, task or step 'nobody'"),
        ("episodes", ["nobody"], "no episode, group, task or evaluation 'nobody'"),
        ("episode", ["nobody"], "no episode 'nobody'"),
        ("episode", [], "needs the id of an episode"),
        ("tasks", ["nobody"], "no task 'nobody'"),
        ("metrics", ["nothing"], "no metric 'nothing'"),
        ("config", ["rl.nothing"], r"no key 'rl\.nothing'"),
        ("events", ["nothing"], "no kind of event 'nothing'"),
        ("summary", ["extra"], "takes no ids"),
    ],
)
def test_what_does_not_exist_is_one_sentence(
    reader: RunReader, what: str, ids: list[str], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        view(reader, what, ids)


def test_a_seed_that_a_browser_would_round_is_a_string(tmp_path: Path) -> None:
    seeds = [2**63 - 1, 2**53 - 1]
    with RunStore.start(tmp_path / "r", {}) as store:
        store.add_evaluation(
            "base", BASE_STEP, "test", evaluated("base", {"x-or": (0, 2)}), seeds=seeds
        )
    with RunReader(tmp_path / "r") as reader:
        shown = view(reader, "episodes")["episodes"]
    assert [e["seed"] for e in shown] == [str(2**63 - 1), 2**53 - 1]


@pytest.mark.parametrize("what", VIEWS)
def test_every_view_is_strict_json(reader: RunReader, what: str) -> None:
    ids = ["final/a-or/0"] if what in ("episode", "changes", "tokens") else []
    shown = view(reader, what, ids)
    assert json.loads(json.dumps(shown, allow_nan=False)) == shown
