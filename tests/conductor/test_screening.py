"""No run on a broken verifier, unless it is asked for; each content is audited once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from run_folder import RunFolder

from steelyard.auditing import AuditSettings
from steelyard.conductor import read_run_file, screening, train
from steelyard.conductor.listener import NullListener
from steelyard.grading import GradingSettings
from steelyard.monitor import view
from steelyard.store import RunReader
from steelyard.tasks import Task, read_jsonl


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STEELYARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "audits"


def test_a_broken_verifier_is_refused_and_named(folder: RunFolder) -> None:
    folder.reward("return 1.0")
    settings = read_run_file(folder.run_file("refused"))
    with pytest.raises(ValueError, match=r"rewards\.py:score: doing nothing is paid in full"):
        train(settings, NullListener())
    assert not settings.path.exists()


def test_an_accepted_one_is_named_in_the_record(folder: RunFolder) -> None:
    folder.reward("return 1.0")
    settings = read_run_file(folder.run_file("accepted"), ["rl.steps=1"])
    train(settings, NullListener(), accept_audit=True)
    with RunReader(settings.path) as reader:
        audits = [event for event in reader.events() if event.kind == "audit"]
        shown = view(reader, "audit")
    assert len(audits) == 1
    assert audits[0].text.startswith("broken: rewards.py:score: doing nothing is paid in full")
    assert audits[0].data["task"] == "rewards.py:score"
    assert audits[0].data["verdict"] == "broken"
    assert "cheat" in audits[0].data["kinds"]
    assert shown["recorded"] == "all"
    assert [task["verdict"] for task in shown["tasks"]] == ["broken"]


def test_each_content_is_audited_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = screening.audit

    def counting(tasks: list[Task], settings: AuditSettings, watcher: object) -> object:
        seen.append(len(tasks))
        return real(tasks, settings, watcher)  # type: ignore[arg-type]

    monkeypatch.setattr(screening, "audit", counting)
    rewards, rows = tmp_path / "rewards.py", tmp_path / "rows.jsonl"
    rows.write_text(json.dumps({"prompt": "1 + 1?", "expected": "2"}) + "\n")
    body = "def score(prompt, answer, expected):\n    return float(answer == expected)\n"
    verdicts = []
    for source in (body, body, f"{body}\n# mended\n"):
        rewards.write_text(source)
        verdicts += screening.screen(read_jsonl(rows), GradingSettings())
    assert seen == [1, 0, 1]
    assert {result.verdict for result in verdicts} == {"sound"}
    assert len(list(cache.glob("*.json"))) == 2
