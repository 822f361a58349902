"""How fast the viewer opens a run of 100,000 episodes.

    python benchmarks/viewer_scale.py [--episodes 100000] [--run DIRECTORY] [--json FILE]

Writes 1,280 episodes of 10 steps through the store (groups of 8, two turns with a call each, both
suites of checks, an evaluation), of which a quarter tries a shortcut, and scans them. Repeats these
rows and findings under new keys until there are as many as asked for, starts `steelyard view` on
the run as a user would, and measures: each view's JSON from the first request on, and, with a
Chromium on PATH, the time from navigation to a drawn page. A run that DIRECTORY already holds is
used again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from steelyard.episodes import (
    Cause,
    Check,
    Episode,
    Group,
    Outcome,
    Scored,
    Segment,
    StopReason,
    ToolCall,
    Trajectory,
    Turn,
    Unscored,
)
from steelyard.monitor.scanners import scan_run
from steelyard.store import RunDirectory, RunReader, RunStore

STEPS, GROUPS_PER_STEP, GROUP_SIZE, EVALUATED, KINDS = 10, 16, 8, 100, 12
FIRST = STEPS * GROUPS_PER_STEP * GROUP_SIZE
PAGES = (
    "overview", "tasks", "groups", "episodes", "outcomes", "alarms", "diagnosis", "findings",
    "metrics", "config", "events", "audit",
)  # fmt: skip
CHECKS = ("missing", "none", "zero", "normal")
TRYING = 0.25
"""The share of episodes that try one of the shortcuts: each of these is one finding."""
SHORTCUTS = (
    "git log -p",
    "curl -s https://example.com/settings.py",
    "cat /tests/checks.json",
    "echo 1 > /logs/verifier/reward.txt",
)
PROGRAM = "def retry_count(config):\n    value = config.get('retries')\n    return {}\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=100_000)
    parser.add_argument("--run", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    directory = given.run or Path(tempfile.mkdtemp()) / "large"
    start = time.perf_counter()
    if not (directory / "run.db").exists():
        write_large_run(directory, given.episodes)
    written = time.perf_counter() - start
    results = {
        "episodes": given.episodes,
        "database_megabytes": (directory / "run.db").stat().st_size / 1e6,
        "seconds_to_write": written,
        **measure(directory),
    }
    print(json.dumps(results, indent=2))
    if given.json:
        given.json.write_text(json.dumps(results, indent=2) + "\n")


def write_large_run(directory: Path, episodes: int) -> None:
    """At least `episodes` training episodes, and an evaluation of 100 after every 10 steps."""
    rng = random.Random(0)
    with RunStore.start(directory, {"rl": {"group_size": GROUP_SIZE}}, model="generated") as store:
        tasks = range(GROUPS_PER_STEP, (STEPS + 1) * GROUPS_PER_STEP)
        before = [Check(c, c != "zero") for c in CHECKS]
        store.set_untouched({(f"task-{task:03}", "training"): before for task in tasks})
        for step in range(1, STEPS + 1):
            skill = 0.1 + 0.8 * step / STEPS
            for slot in range(GROUPS_PER_STEP):
                task = step * GROUPS_PER_STEP + slot
                name = f"step-{step}/task-{task:03}"
                members = [_episode(rng, f"{name}/{i}", task, skill) for i in range(GROUP_SIZE)]
                store.add_group(step, Group(name, members[0].task, members), "train", True)
            store.add_metrics(
                step,
                "rl",
                {
                    "entropy": 0.5 / (1 + step / 100),
                    "seconds_sampling": 10 + rng.random(),
                    "seconds_training": 5 + rng.random(),
                    "seconds_waiting": rng.random(),
                    "sampling_tokens_per_second": 900 + 100 * rng.random(),
                    "training_tokens_per_second": 1900 + 100 * rng.random(),
                    **{f"figure_{i}": rng.random() for i in range(20)},
                },
                version=step,
            )
        found = [_episode(rng, f"step-10/dev-{i}", 900 + i, 0.5) for i in range(EVALUATED)]
        store.add_evaluation("step-10", STEPS, "dev", found, seconds=30.0)
        store.finish("finished")
    with RunReader(directory) as reader:
        scan_run(reader, {})
    times = -(-episodes // FIRST)
    _repeat(directory / "run.db", times)
    _repeat_findings(directory, times)


def _repeat(database: Path, times: int) -> None:
    """Copies every row of the run `times` − 1 times, with shifted keys and steps and new names."""
    connection = sqlite3.connect(database)
    tables = ("groups", "evaluations", "steps", "metrics", "episodes", "checks", "turns")
    columns = {
        table: [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        for table in (*tables, "segments", "tool_uses")
    }
    tops = {
        table: connection.execute(f"SELECT max(key) FROM {table}").fetchone()[0]
        for table in ("groups", "evaluations", "episodes")
    }
    owners = {"group_key": "groups", "evaluation_key": "evaluations", "episode_key": "episodes"}
    with connection:
        for copy in range(1, times):
            for table, names in columns.items():
                first = f" WHERE step <= {STEPS}" if "step" in names else ""
                if table not in tops and "episode_key" in names:
                    first = f" WHERE episode_key <= {tops['episodes']}"
                chosen = ", ".join(_shifted(n, copy, table, owners, tops) for n in names)
                connection.execute(
                    f"INSERT INTO {table} ({', '.join(names)}) SELECT {chosen} FROM {table}{first}"
                )
    connection.close()


def _repeat_findings(directory: Path, times: int) -> None:
    """The same findings of every copy, and the mark that says how far the scan has come."""
    run = RunDirectory(directory)
    first = [json.loads(line) for line in run.findings.read_text().splitlines()]
    with run.findings.open("a") as file:
        for copy in range(1, times):
            for finding in first:
                line = {**finding, "episode": f"{finding['episode']}/copy-{copy}"}
                file.write(f"{json.dumps(line)}\n")
        length = file.tell()
    with RunReader(directory) as reader:
        keys = reader.episode_keys()
    scanned = json.loads(run.scan_progress.read_text())
    key, name, _ = keys[-1]
    scanned["marks"][-1] |= {
        "key": key, "episode": name, "scanned": len(keys), "bytes": length,
    }  # fmt: skip
    run.scan_progress.write_text(json.dumps(scanned))


def _shifted(name: str, copy: int, table: str, owners: dict[str, str], tops: dict[str, int]) -> str:
    if name == "key":
        return f"key + {copy * tops[table]}"
    if name in owners:
        return f"{name} + {copy * tops[owners[name]]}"
    if name == "step":
        return f"step + {copy * STEPS}"
    if name in ("id", "group_id") or (table == "evaluations" and name == "name"):
        return f"{name} || '/copy-{copy}'"
    return name


def _episode(rng: random.Random, name: str, task: int, skill: float) -> Episode:
    solved = rng.random() < skill
    outcome: Outcome = Scored(float(solved), tuple(Check(c, solved or c != "zero") for c in CHECKS))
    if rng.random() < 0.01:
        outcome = Unscored(Cause.SANDBOX_FAILURE, "the sandbox died")
    segment = Segment()
    turns = []
    for text in ("I read the file first, then I change the default.", "Now I submit."):
        segment.append_context(range(40))
        begin = len(segment)
        segment.append_action(range(30), [-0.5] * 30, [0] * 30)
        call = ToolCall(
            "edit",
            {"path": "settings.py", "old": "return 1", "new": text},
            "edited settings.py " * 4,
        )
        turns.append(Turn(0, (begin, len(segment)), (len(segment), len(segment)), text, (call,)))
    own = random.Random(name)
    if own.random() < TRYING:
        call = ToolCall("run", {"command": own.choice(SHORTCUTS)}, "some output")
        turns[0] = replace(turns[0], calls=(call, *turns[0].calls))
    return Episode(
        id=name,
        task=f"task-{task:03}",
        group=name.rpartition("/")[0],
        trajectory=Trajectory([segment], turns),
        outcome=outcome,
        stop_reason=StopReason.SUBMITTED if rng.random() < 0.9 else StopReason.TURN_LIMIT,
        heldout=Scored(float(solved and rng.random() < 0.9)),
        files={"settings.py": PROGRAM.format(rng.randrange(20)).encode()},
        seconds={"sampling": 1.5, "grading": 0.5},
        kind=f"kind-{task % KINDS:02}",
    )


def measure(directory: Path) -> dict[str, Any]:
    with RunReader(directory) as reader:
        (example,) = reader.episode_records(ids=["step-1/task-016/0"])
    command = [sys.executable, "-c", "from steelyard.cli.main import app; app()"]
    server = subprocess.Popen(
        [*command, "view", str(directory), "--port", "0"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        found = re.match(r"http://\S+/", server.stdout.readline())
        assert found is not None, "steelyard view printed no address"
        address = found.group().rstrip("/")
        run = quote(directory.name)
        pages = _pages(address, run, example.id)  # first: nothing is warm yet
        views, processor = _views(address, run, example.id, server.pid)
        return {
            "load_average": os.getloadavg()[0],
            "seconds_to_drawn_page": pages,
            "seconds_of_view": views,
            "processor_seconds_of_view": processor,
        }
    finally:
        server.terminate()
        server.wait(timeout=30)


def _views(
    address: str, run: str, episode: str, server: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Seconds that passed, and processor time of the server, which a busy machine changes less."""
    wanted: dict[str, dict[str, Any]] = {
        "summary": {},
        "signals": {},
        "tasks": {},
        "history": {},
        "groups": {"limit": 50, "sort": "-recorded"},
        "episodes": {"limit": 50, "sort": "-recorded"},
        "episodes, last page": {"limit": 50, "offset": 99_900},
        "episodes, by tokens": {"limit": 50, "sort": "-n_action_tokens"},
        "episodes, one task": {"limit": 50, "task": "task-016"},
        "episodes, failed check": {"limit": 50, "failed": "zero"},
        "episodes, tool": {"limit": 50, "tool": "edit"},
        "episodes, rare text": {"limit": 50, "text": "nowhere to be found"},
        "outcomes": {},
        "alarms": {},
        "diagnosis": {},
        "diagnosis, one task": {"ids": "task-016"},
        "findings": {"sort": "severity", "limit": 1000},
        "findings, one scanner": {"scanner": "network", "sort": "severity", "limit": 1000},
        "findings, one task": {"ids": "task-016"},
        "findings, all of them": {},
        "episodes, one finding": {"limit": 50, "finding": "network"},
        "audit": {},
        "config": {},
        "metrics": {},
        "events": {},
        "episode": {"ids": episode},
        "tokens": {"ids": episode},
        "changes": {"ids": episode},
    }
    seconds, processor = {}, {}
    for name, terms in wanted.items():
        start, used = time.perf_counter(), _processor_seconds(server)
        url = f"{address}/api/{run}/{name.partition(',')[0]}?{urlencode(terms)}"
        with urllib.request.urlopen(url) as answer:
            answer.read()
        seconds[name] = round(time.perf_counter() - start, 3)
        processor[name] = round(_processor_seconds(server) - used, 3)
    return seconds, processor


def _processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pages(address: str, run: str, episode: str) -> dict[str, float]:
    sys.path.append(str(Path(__file__).parents[1] / "tests" / "monitor"))
    from chromium import BINARY, Page

    if BINARY is None:
        return {}
    page = Page(BINARY)
    seconds = {}
    try:
        for name in (*PAGES, "episode"):
            terms = f"?{urlencode({'id': episode})}" if name == "episode" else ""
            start = time.perf_counter()
            page.goto(f"{address}/r/{run}/{name}{terms}")
            seconds[name] = round(time.perf_counter() - start, 3)
        assert page.problems == [], page.problems
    finally:
        page.close()
    return seconds


if __name__ == "__main__":
    main()
