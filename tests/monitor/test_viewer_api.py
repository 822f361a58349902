"""The viewer's server: every view's JSON twin, and what it refuses."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile_run import EPISODE, write_hostile_run
from made_run import BUGGY, FIXED, episode, failed, passed, training_group, write_run
from starlette.testclient import TestClient
from typer.testing import CliRunner

from steelyard.cli.main import app
from steelyard.models import EMBEDDED
from steelyard.monitor import VIEWS, view
from steelyard.monitor.scanners import scan_run
from steelyard.monitor.viewer import Runs, application
from steelyard.monitor.viewer.app import STATIC
from steelyard.store import RunNotFound, RunReader, RunStore

LOCAL = "http://127.0.0.1:8300"
NEEDS_EPISODE = {"episode", "changes", "tokens"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "demo")
    write_hostile_run(folder / "hostile")
    return folder


@pytest.fixture(scope="module")
def client(runs: Path) -> Iterator[TestClient]:
    with TestClient(application(Runs([runs])), base_url=LOCAL) as client:
        yield client


@pytest.mark.parametrize("name", VIEWS)
def test_the_twin_equals_what_show_prints(client: TestClient, runs: Path, name: str) -> None:
    ids = ["final/a-or/0"] if name in NEEDS_EPISODE else []
    # First the command, which scans the episodes for the views that need it; the viewer only reads.
    printed = CliRunner().invoke(app, ["show", str(runs / "demo"), name, *ids, "--json"])
    answer = client.get(f"/api/demo/{name}", params={"ids": ids})
    assert answer.status_code == 200, answer.text
    assert json.loads(printed.stdout) == answer.json()


def test_terms_page_the_same_in_both(client: TestClient, runs: Path) -> None:
    terms = {"purpose": "train", "sort": "-step", "offset": 3, "limit": 2}
    answer = client.get("/api/demo/episodes", params=terms).json()
    words = [f"{key}={value}" for key, value in terms.items()]
    printed = CliRunner().invoke(app, ["show", str(runs / "demo"), "episodes", *words, "--json"])
    assert json.loads(printed.stdout) == answer
    # Sixteen training episodes, the last recorded of step 2 first.
    assert answer["total"] == 16
    assert [e["id"] for e in answer["episodes"]] == ["step-2/d-key/0", "step-2/c-or/3"]


@pytest.mark.parametrize(
    ("terms", "total"),
    [
        (["outcome=solved"], 12),
        (["outcome=unscored"], 3),
        (["cause=sandbox_failure", "purpose=train"], 2),
        (["stop_reason=turn_limit"], 8),
        (["tool=submit", "evaluation=final"], 7),
        (["tool=subm"], 0),
        (["failed=zero", "step=2", "purpose=train"], 5),
        (["text=RETURN 3 IF VALUE", "task=c-or"], 3),
        (['text=get("retries") or', "group=step-1/d-key"], 4),
        (["text=100%_sure"], 0),
        (["final", "kind=key"], 4),
        (["finding=nobody"], 0),
    ],
)
def test_search(runs: Path, terms: list[str], total: int) -> None:
    with RunReader(runs / "demo") as reader:
        shown = view(reader, "episodes", terms)
        assert shown["total"] == len(shown["episodes"]) == total
        assert view(reader, "episodes", [*terms, "limit=1"])["total"] == total


def test_tasks_without_a_kind_can_be_asked_for(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "run", {}) as store:
        for task, n in (("plain-", 2), ("a-or", 3)):
            store.add_group(1, training_group(1, task, [failed()] * n, [BUGGY] * n), "train", True)
    with RunReader(tmp_path / "run") as reader:
        found = view(reader, "episodes", ["kind=(none)"])
        assert {e["task"] for e in found["episodes"]} == {"plain-"}
        assert view(reader, "episodes", ["kind="]) == found
        assert view(reader, "episodes", ["kind=or"])["total"] == 3


def test_search_by_finding_reads_what_a_scan_has_finished(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with RunStore.start(path, {}) as store:
        exits = training_group(1, "a-or", [failed()] * 2, ["import os\nos._exit(0)\n", BUGGY])
        store.add_group(1, exits, "train", True)
    with RunReader(path) as reader:
        scan_run(reader)
        with reader.directory.findings.open("ab") as file:  # as a scan does before it says so
            file.write(b'{"episode": "step-1/a-or/1", "scanner": "early"}\n{half a li')
        (found,) = view(reader, "episodes", ["finding=exits"])["episodes"]
        assert found["id"] == "step-1/a-or/0"
        assert view(reader, "episodes", ["finding=early"])["episodes"] == []


@pytest.mark.parametrize(
    ("name", "terms", "sentence"),
    [
        ("episodes", ["sort=mood"], "cannot be sorted by 'mood'"),
        ("episodes", ["step=two"], "step must be a whole number"),
        ("episodes", ["limit=-1"], "limit must be a whole number from 0 on"),
        ("episodes", ["outcome=maybe"], "outcome is one of solved, wrong, unscored"),
        ("episodes", ["tool=a", "tool=b"], "tool is given twice"),
        ("groups", ["verdict=odd"], "verdict is one of mixed"),
        ("groups", ["sort=task"], "groups are sorted by"),
        ("tokens", ["final/a-or/0", "1"], "has 1 segments"),
        ("tokens", ["final/a-or/0", "x"], "a segment's number"),
        ("changes", ["nobody"], "no episode 'nobody'"),
    ],
)
def test_a_wrong_term_is_one_sentence(
    client: TestClient, name: str, terms: list[str], sentence: str
) -> None:
    answer = client.get(f"/api/demo/{name}", params={"ids": terms})
    assert answer.status_code == 400
    assert sentence in answer.json()["error"]


def test_a_run_alone_leads_to_its_overview(client: TestClient) -> None:
    answer = client.get("/r/demo", follow_redirects=False)
    assert answer.headers["location"] == "/r/demo/overview"
    assert client.get("/r/demo").headers["content-type"].startswith("text/html")
    elsewhere = client.get("/r/%2F%2Fexample.org", follow_redirects=False)
    assert not elsewhere.headers.get("location", "").startswith(("//", "http://example"))


def test_groups_by_verdict_newest_first(runs: Path) -> None:
    with RunReader(runs / "demo") as reader:
        shown = view(reader, "groups", ["verdict=mixed", "sort=-recorded", "limit=1"])
        every = view(reader, "groups")
    assert [g["id"] for g in shown["groups"]] == ["step-2/c-or"]
    assert shown["total"] == 2
    assert shown["verdicts"] == {"mixed": 2, "all_pass": 0, "all_fail": 2, "unscored": 0}
    assert every["groups"][2] == shown["groups"][0]


def test_history_counts_unscored_apart(runs: Path) -> None:
    with RunReader(runs / "demo") as reader:
        shown = view(reader, "history")
    assert shown["tasks"] == [{"task": "c-or", "kind": "or"}, {"task": "d-key", "kind": "key"}]
    assert shown["steps"] == [1, 2]
    assert shown["cells"][0] == [0, 0, 1, 3, 1, pytest.approx(1 / 3)]
    assert shown["cells"][3] == [1, 1, 0, 4, 0, 0.0]


def test_changes_between_two_episodes(runs: Path) -> None:
    with RunReader(runs / "demo") as reader:
        (file,) = view(reader, "changes", ["final/a-or/0", "base/a-or/0"])["files"]
    assert (file["name"], file["status"]) == ("settings.py", "changed")
    removed = [text for mark, text in file["lines"] if mark == "-"]
    added = [text for mark, text in file["lines"] if mark == "+"]
    assert removed == BUGGY.splitlines()[1:]
    assert added == FIXED.splitlines()[1:]


@pytest.mark.parametrize("of_evaluation", [False, True])
def test_changes_against_the_start_files_of_the_task(tmp_path: Path, of_evaluation: bool) -> None:
    from made_run import episode, passed

    from steelyard.store import BASE_STEP, RunStore
    from steelyard.tasks import CheckSpec, FunctionChecks, Task, write_task

    checks = FunctionChecks("settings.py", "retry_count", (CheckSpec("zero", ({},), 3),))
    task = Task("a-or", "Fix it.", checks, files={"settings.py": BUGGY.encode()})
    write_task(task, tmp_path / "tasks" / "a-or")
    # A training run has a section of tasks, an evaluation their place alone.
    place = str(tmp_path / "tasks")
    config = {"tasks": place if of_evaluation else {"test": place}}
    with RunStore.start(tmp_path / "run", config) as store:
        made = [episode("e/0", "a-or", passed(), program=FIXED), episode("e/1", "other", passed())]
        store.add_evaluation("base", BASE_STEP, "test", made)
    with RunReader(tmp_path / "run") as reader:
        shown = view(reader, "changes", ["e/0"])
        unknown = view(reader, "changes", ["e/1"])
    assert shown["against"] == "the task's start files"
    assert shown["files"][0]["lines"][1:3] == [
        [" ", "def retry_count(config):"], ["-", BUGGY.splitlines()[1]],
    ]  # fmt: skip
    assert unknown["files"] == []
    assert unknown["against"].startswith("nothing: ")


def test_tokens_and_credit_by_turn(runs: Path) -> None:
    with RunReader(runs / "hostile") as reader:
        shown = view(reader, "tokens", [EPISODE, "0", "offset=2", "limit=8"])
        (episode,) = view(reader, "episode", [EPISODE])["episodes"]
    assert (shown["total"], shown["segments"], shown["turns"]) == (11, 1, [[3, 7], [9, 11]])
    assert (shown["text"], shown["tokenizer"]) == (None, None)
    fields = shown["fields"]
    assert fields["id"] == [3, 4, 5, 6, 7, 8, 9, 10]
    assert fields["action"] == [False, True, True, True, True, False, False, True]
    assert fields["advantage"] == [None, 1.0, 1.0, 1.0, 1.0, None, None, -2.0]
    assert fields["behaviour_logp"] == [None, -0.5, -1.0, -0.25, -2.0, None, None, -0.125]
    assert fields["limited"] == [None, False, False, False, False, None, None, True]
    learned = [turn["learned"] for turn in episode["turns"]]
    assert [values["advantage"] for values in learned] == [1.0, -2.0]
    # The last token's entropy was not evaluated: it enters no mean.
    assert [values["entropy"] for values in learned] == [0.46875, 0.5]
    assert [values["limited"] for values in learned] == [0.0, 1.0]


def test_tokens_are_decoded_with_the_runs_own_tokenizer(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    words = {f"word{i}": i for i in range(16)}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="word0"))
    write_hostile_run(tmp_path / "run")
    checkpoint = tmp_path / "run" / "checkpoints" / "step-000001"
    checkpoint.mkdir(parents=True)
    tokenizer.save(str(checkpoint / "tokenizer.json"))
    with RunReader(tmp_path / "run") as reader:
        shown = view(reader, "tokens", [EPISODE])
        (checkpoint / "tokenizer.json").write_text("{}")
        broken = view(reader, "tokens", [EPISODE])
    assert shown["text"] == [f"word{i}" for i in range(1, 12)]
    assert broken["text"] is None


@pytest.mark.smollm2
@pytest.mark.parametrize("converted", [True, False])
def test_tokens_of_the_embedded_model_need_no_checkpoint(
    smollm2: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, converted: bool
) -> None:
    """`eval` records its model by name alone, and another machine has never converted it."""
    if not converted:
        monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "empty"))
    made = episode("final/a-or/0", "a-or", passed())
    text = "def width(config):\n    return 80  # – µ <b>\n"
    ids = [1, *smollm2.tokenizer(text, add_special_tokens=False).input_ids, 2]
    made.trajectory.segments[0].append_context(ids)
    with RunStore.start(tmp_path / "run", {"model": EMBEDDED}, model=EMBEDDED) as store:
        store.add_evaluation("final", 0, "test", [made])
    with RunReader(tmp_path / "run") as reader:
        shown = view(reader, "tokens", ["final/a-or/0", "0", "offset=7"])
    assert shown["fields"]["id"] == ids
    assert shown["tokenizer"].endswith("tokenizer.json" if converted else ".gguf")
    alone = [smollm2.tokenizer.decode([i]) for i in ids]
    assert shown["text"] == alone
    assert alone[0] == "<|im_start|>"
    assert not list(tmp_path.glob("empty")), "the viewer writes nothing"


def test_the_summary_compares_rewards_on_the_same_episodes(runs: Path) -> None:
    with RunReader(runs / "hostile") as reader:
        (step,) = view(reader, "summary")["steps"]
    assert step["paired"] == {"training": 0.5, "heldout": 0.0, "n": 2}


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8300", "", "10.0.0.7"])
@pytest.mark.parametrize("path", ["/", "/api/", "/static/app.js"])
def test_another_host_name_is_refused(client: TestClient, host: str, path: str) -> None:
    assert client.get(path, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8300", "LOCALHOST:8300"])
def test_this_machine_is_answered_whatever_the_port(client: TestClient, host: str) -> None:
    assert client.get("/api/", headers={"Host": host}).status_code == 200


def test_other_sites_and_other_methods_are_refused(client: TestClient) -> None:
    cross = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}
    assert client.get("/api/", headers=cross).status_code == 403
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert client.request(method, "/api/demo/summary").status_code == 405


@pytest.mark.parametrize("path", ["/", "/api/", "/static/app.js", "/api/nobody/summary", "/nope"])
def test_every_answer_carries_the_policy(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/api/../summary", "/api/..%2fhostile/summary", "/api/%2e%2e/summary",
        "/api/nobody/summary",
        "/static/../app.py", "/static/%2e%2e/app.py", "/static/..%2f..%2fviews.py", "/api/demo/no",
    ],
)  # fmt: skip
def test_no_name_leads_elsewhere(client: TestClient, path: str) -> None:
    assert client.get(path).status_code == 404


def test_what_an_episode_wrote_is_never_sent_as_a_page(client: TestClient) -> None:
    answer = client.get("/api/hostile/episode", params={"ids": EPISODE})
    assert answer.headers["content-type"] == "application/json"
    page = client.get("/r/hostile/episode", params={"id": EPISODE})
    assert "window.broken" not in page.text


def test_every_module_is_asked_for_with_the_first_page(client: TestClient) -> None:
    """Else a browser finds each only in the one that imports it, one journey after another."""
    modules = {f"/static/{path.relative_to(STATIC)}" for path in STATIC.rglob("*.js")}
    page = client.get("/").text
    asked = re.findall(
        r'<(?:link rel="modulepreload" href|script type="module" src)="([^"]+)"', page
    )
    assert sorted(asked) == sorted(modules)


def test_runs_of_one_name_are_told_apart_and_new_ones_appear(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_run(tmp_path / folder / "same")
    runs = Runs([tmp_path / "a", tmp_path / "b", tmp_path / "a" / "same"])
    assert list(runs.directories()) == ["same", "same-2"]
    write_run(tmp_path / "b" / "young", finished=False)
    assert [r["state"] for r in runs.listing()] == ["finished", "finished", "killed"]
    places = [tmp_path / "a" / "same", tmp_path / "b" / "same", tmp_path / "b" / "young"]
    assert [r["directory"] for r in runs.listing()] == [str(place) for place in places]
    with pytest.raises(RunNotFound, match="neither it nor a folder directly in it"):
        Runs([tmp_path])


def test_a_run_of_another_schema_is_listed_with_its_reason(tmp_path: Path) -> None:
    write_run(tmp_path / "old")
    with sqlite3.connect(tmp_path / "old" / "run.db") as connection:
        connection.execute("PRAGMA user_version = 1")
    with TestClient(application(Runs([tmp_path])), base_url=LOCAL) as client:
        (run,) = client.get("/api/").json()["runs"]
        assert (run["state"], "schema version 1" in run["error"]) == ("unreadable", True)
        assert client.get("/api/old/summary").status_code == 404


def test_a_run_that_cannot_be_read_leaves_the_others_on_the_list(tmp_path: Path) -> None:
    write_run(tmp_path / "good")
    write_run(tmp_path / "torn")
    database = tmp_path / "torn" / "run.db"
    with sqlite3.connect(database) as connection:
        (page,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'events'"
        ).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with database.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    with TestClient(application(Runs([tmp_path])), base_url=LOCAL) as client:
        good, torn = client.get("/api/").json()["runs"]
        assert (good["state"], good["error"]) == ("finished", None)
        assert torn["state"] == "unreadable"
        assert torn["error"]
        assert client.get("/api/torn/summary").status_code == 503


def test_the_stamp_changes_with_the_record(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "live", {}) as store:
        runs = Runs([tmp_path])
        (before,) = runs.listing()
        store.add_metrics(1, "rl", {"entropy": 0.5})
        (after,) = runs.listing()
        assert before["state"] == after["state"] == "running"
        assert before["stamp"] != after["stamp"]
        assert runs.listing() == [after]
