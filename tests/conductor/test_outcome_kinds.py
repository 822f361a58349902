"""Each way in which an episode can end, brought about for real, from the sandbox to the views."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from steelyard.agents import AgentSettings
from steelyard.agents.demonstration import Script
from steelyard.cli.main import app
from steelyard.conductor.rollouts import Request, Rollouts
from steelyard.conductor.update import Plan, update
from steelyard.episodes import Group, OutcomeKind, Scored, outcome_kind
from steelyard.grading import Grader, GradingSettings
from steelyard.learner import Learner, LearnerSettings
from steelyard.models import ChatRenderer, resolve
from steelyard.monitor import view
from steelyard.objective import GroupComparison, algorithm
from steelyard.sandbox import SandboxPool, SandboxSettings
from steelyard.store import RunReader, RunStore
from steelyard.tasks import CheckProgram, CheckSpec, FunctionChecks, Task, TestScript

STOP = 2
RIGHT = {"m.py": b"def f(x): return x + 1\n"}
CHECKS = FunctionChecks("m.py", "f", (CheckSpec("one", (1,), 2),))
REWARD = "/logs/verifier/reward.json"


def script(text: str, n_files: int = 0) -> TestScript:
    """A test script, beside so many other files: very many of them are laid writable."""
    others = {f"data/{i}": b"" for i in range(n_files)}
    return TestScript({"test.sh": text.encode(), **others})


SUBMIT = json.dumps({"name": "submit", "arguments": {}})
READ = json.dumps({"name": "read", "arguments": {}})
REFUSED = json.dumps({"name": "read", "arguments": {"path": "nowhere"}})
RUN = json.dumps({"name": "run", "arguments": {"command": "sleep 20"}})
ENDINGS: dict[str, tuple[list[str], Task, OutcomeKind]] = {
    "solved": ([SUBMIT], Task("", "", CHECKS, RIGHT), OutcomeKind.SOLVED),
    "wrong": ([SUBMIT], Task("", "", CHECKS, {"m.py": b"def f(x): return 0\n"}), OutcomeKind.WRONG),
    "cut": (["no end " * 200], Task("", "", CHECKS, RIGHT), OutcomeKind.TRUNCATED),
    "turns": ([READ] * 9, Task("", "", CHECKS, RIGHT), OutcomeKind.TURN_LIMIT),
    "stuck": ([REFUSED] * 9, Task("", "", CHECKS, RIGHT), OutcomeKind.STUCK),
    "tokens": ([SUBMIT], Task("", "word " * 900, CHECKS, RIGHT), OutcomeKind.TOKEN_LIMIT),
    "crash": (
        [SUBMIT],
        Task("", "", CheckProgram("m.py", "f", "def check(candidate): open('gone')"), RIGHT),
        OutcomeKind.VERIFIER_ERROR,
    ),
    "tampered": (
        [SUBMIT],
        Task("", "", script(f"echo >> /tests/test.sh; echo '{{\"reward\": 1}}' > {REWARD}", 200)),
        OutcomeKind.VERIFIER_ERROR,
    ),
    "sleeps": (
        [SUBMIT],
        Task("", "", script("sleep 60"), verifier_timeout_seconds=0.5),
        OutcomeKind.VERIFIER_TIMEOUT,
    ),
    "true": (
        [SUBMIT],
        Task("", "", script(f"echo '{{\"reward\": true}}' > {REWARD}")),
        OutcomeKind.MALFORMED_REWARD,
    ),
    "killed grading": ([SUBMIT], Task("", "", script("sleep 20")), OutcomeKind.SANDBOX_FAILURE),
    "killed acting": ([RUN, SUBMIT], Task("", "", CHECKS, RIGHT), OutcomeKind.SANDBOX_FAILURE),
    # after those that are killed, which must not find its sandbox in the pool
    "slow": (
        [RUN],
        Task("", "", CHECKS, RIGHT, agent_timeout_seconds=0.2),
        OutcomeKind.AGENT_TIMEOUT,
    ),
    "full disk": (
        [SUBMIT],
        Task("", "", CHECKS, {**RIGHT, "a": b"\n" * 700_000, "b": b"\n" * 700_000}),
        OutcomeKind.INFRASTRUCTURE_FAILURE,
    ),
}


class Killer(threading.Thread):
    """Kills each sandbox that this process starts from now on, while it is at work."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self._spared = _sandboxes()

    def run(self) -> None:
        while not self.over.wait(0.02):
            for pid in _sandboxes() - self._spared:
                time.sleep(0.3)  # it has started by then, and works
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._spared.add(pid)


def _sandboxes() -> set[int]:
    """Our own children that are bubblewrap."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            pid, _, rest = status.read_text().partition(" (")
            name, _, fields = rest.rpartition(") ")
            if name == "bwrap" and int(fields.split()[1]) == os.getpid():
                found.add(int(pid))
    return found


class Session:
    """An engine's session that says what it was given."""

    def __init__(self, turns: list[str], killer: Killer | None, encode) -> None:
        self._killer = killer
        ends = [] if "no end" in turns[0] else [STOP]
        self._script = Script([[*encode(turn), *ends] for turn in turns])

    async def sample(self, token_ids, *, max_new_tokens):
        if self._killer is not None and not self._killer.is_alive():
            self._killer.start()
        sample = await self._script.sample(token_ids, max_new_tokens=max_new_tokens)
        sample.version[:] = [0] * len(sample.token_ids)
        return sample

    def close(self) -> None:
        if self._killer is not None and self._killer.is_alive():
            self._killer.over.set()
            self._killer.join()


class Engine:
    """Opens the scripted session whose number the seed is."""

    def __init__(self, encode) -> None:
        self._encode = encode

    def open(self, seed: int) -> Session:
        name = list(ENDINGS)[seed]
        killer = Killer() if name.startswith("killed") else None
        return Session(ENDINGS[name][0], killer, self._encode)


@pytest.fixture(scope="module")
def group(smollm2) -> Group:
    """One group with an episode of every ending, one after the other."""
    grading = GradingSettings(workers=1, sandbox=SandboxSettings(workspace_mb=1))
    pool = SandboxPool()
    requests = [
        Request(f"g/{i}", "g", _named(task, name), i)
        for i, (name, (_, task, _)) in enumerate(ENDINGS.items())
    ]
    with Grader(grading) as grader:
        rollouts = Rollouts(
            Engine(lambda text: smollm2.tokenizer(text, add_special_tokens=False).input_ids),
            grader,
            ChatRenderer(smollm2.tokenizer),
            frozenset({STOP}),
            pool,
            AgentSettings(max_turns=3, stuck_after=2),
            concurrency=1,
            lockstep=False,
        )
        try:
            return asyncio.run(rollouts.group(requests))
        finally:
            rollouts.close()
            pool.close()


def _named(task: Task, name: str) -> Task:
    return replace(task, name=name)


def test_every_ending_is_a_kind_of_its_own(group: Group) -> None:
    found = {e.task: outcome_kind(e.outcome, e.stop_reason) for e in group.episodes}
    assert found == {name: kind for name, (_, _, kind) in ENDINGS.items()}, [
        e.outcome for e in group.episodes
    ]
    assert set(found.values()) == set(OutcomeKind)
    for e in group.episodes:
        assert found[e.task].scored == isinstance(e.outcome, Scored) == (not e.unscored)


def test_only_scored_episodes_enter_the_baseline(group: Group, tiny_model: Path) -> None:
    assert group.rewards == [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    settings = LearnerSettings(dtype="float32", threads=1)
    learner = Learner(resolve(str(tiny_model)), settings)
    done = update([group], learner, algorithm("dapo", credit=GroupComparison()), Plan(1e-6, 1.0))
    assert done is not None
    assert done.batch.n_episodes == 7
    ends = torch.unique(done.advantage_T).tolist()
    assert ends == pytest.approx([-1 / 7, 6 / 7])  # of seven episodes, not of fourteen


def test_they_are_counted_and_shown(group: Group, tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "r", {}) as store:
        store.add_group(1, group, "train", True)
    counts = {"verifier_error": 2, "sandbox_failure": 2}
    with RunReader(tmp_path / "r") as reader:
        summary = view(reader, "summary")
        (killed,) = view(reader, "outcomes", ["killed acting"])["outcomes"][10:11]
    assert summary["outcomes"] == {
        "training": {kind.value: counts.get(kind.value, 1) for kind in OutcomeKind},
        "evaluation": {},
        "heldout": {},
    }
    assert summary["steps"][0]["scored"] == 7
    assert (killed["outcome"], killed["training"]) == ("sandbox_failure", 1)
    assert killed["detail"].startswith("SandboxError: the sandbox died")

    shown = CliRunner().invoke(app, ["show", str(tmp_path / "r"), "outcomes", "--json"])
    rows = {row["outcome"]: row for row in json.loads(shown.stdout)["outcomes"]}
    assert list(rows) == [kind.value for kind in OutcomeKind]
    for kind in OutcomeKind:
        row = rows[kind.value]
        assert row["carries_reward"] == kind.scored
        assert row["training"] == counts.get(kind.value, 1)
        assert row["example"] is not None
    text = CliRunner().invoke(app, ["show", str(tmp_path / "r")], env={"COLUMNS": "200"}).stdout
    assert "1 solved, 1 wrong, 1 agent timeout, 1 truncated" in text
    assert "2 verifier error, 1 verifier timeout, 1 malformed reward, 2 sandbox failure" in text
