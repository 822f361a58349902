"""Runs the peers from PyPI on the cases that they take, and counts what they say.

    python benchmarks/audit_bench/peers.py --peer falsepass=VENV/bin/python --peer rlgate=...
    python benchmarks/audit_bench/peers.py --ours ours.json         the table of what is recorded

Each peer runs in an interpreter of its own, one child for each case. `--ours` takes what
`run.py --json` printed. Results are kept in peers.json and the table in peers.md; a peer that is
not named keeps its recorded results.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from corpus import CASES, Case, write_case
from peer_table import PEERS, markdown

from steelyard.episodes import Scored
from steelyard.grading import Grader
from steelyard.tasks import Task, TaskWarning, load_tasks

_HERE = Path(__file__).parent
_RESULTS = _HERE / "peers.json"
_TIMEOUT = 60.0
"""Seconds for one case."""


class GradingDoor(socketserver.UnixStreamServer):
    """Grades workspaces of `task` for the peers that want a command: see grade_client.py."""

    task: Task | None = None

    def __init__(self, address: Path, grader: Grader) -> None:
        super().__init__(str(address), _Request)
        self.grader = grader

    def reward(self, workspace: Path) -> str:
        """The reward of the files below `workspace`, or the word unscored."""
        assert self.task is not None
        files = {
            str(path.relative_to(workspace)): path.read_bytes()
            for path in workspace.rglob("*")
            if path.is_file() and not path.is_symlink()
        }
        try:
            outcome = self.grader.grade(self.task, files)
        except ValueError:
            return "unscored"
        return str(float(outcome.reward)) if isinstance(outcome, Scored) else "unscored"


class _Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, GradingDoor)
        workspace = Path(self.rfile.readline().decode().strip())
        self.wfile.write(self.server.reward(workspace).encode() + b"\n")


@contextmanager
def grading_door(folder: Path) -> Iterator[GradingDoor]:
    """A door that is open while the block runs."""
    with Grader() as grader, GradingDoor(folder / "grader", grader) as door:
        threading.Thread(target=door.serve_forever, daemon=True).start()
        yield door
        door.shutdown()


def ask(peer: str, python: str, case: Path, door: Path) -> dict[str, Any]:
    """What the peer says of one case: findings, refused or error, and the seconds that it took."""
    started = time.monotonic()
    adapter = _HERE / "peer_adapters" / f"for_{peer.replace('-', '_')}.py"
    environment = {**os.environ, "PEERS_GRADER": str(door), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("PYTHONPATH", None)
    try:
        done = subprocess.run(
            [python, str(adapter), str(case)],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            env=environment,
        )
        said = _last_document(done.stdout) or {"error": _end(done.stderr)}
    except subprocess.TimeoutExpired:
        said = {"error": f"it took more than {_TIMEOUT:.0f} s"}
    return {**said, "seconds": round(time.monotonic() - started, 2)}


def _last_document(output: str) -> dict[str, Any] | None:
    for line in reversed(output.splitlines()):
        if line.startswith(('{"findings"', '{"refused"')):
            return dict(json.loads(line))
    return None


def _end(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"


def version_of(peer: str, python: str) -> str | None:
    """The version of the peer's package in that interpreter, or None without one."""
    package = PEERS[peer].package
    code = f"from importlib.metadata import version; print(version({package!r}))"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return done.stdout.strip() or None


def run_peer(peer: str, python: str, cases: list[Case]) -> dict[str, Any] | None:
    """The peer's results on the cases, or None where it is not installed."""
    version = version_of(peer, python)
    if version is None:
        print(f"{peer}: {python} has no package {PEERS[peer].package}; install it there")
        return None
    answers: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name, grading_door(Path(name)) as door:
        for case in cases:
            spec = write_case(case, Path(name))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TaskWarning)
                door.task = load_tasks(spec)[case.row]
            folder = Path(name, case.name)
            answers[case.name] = ask(peer, python, folder, Path(name, "grader"))
            print(peer, case.name, json.dumps(answers[case.name])[:200], file=sys.stderr)
    return {
        "package": PEERS[peer].package,
        "version": version,
        "date": datetime.date.today().isoformat(),
        "cases": answers,
    }


def main() -> None:
    """Runs what is asked for, and writes results and table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only cases with one of these in their names")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--ours", type=Path, help="what run.py --json printed")
    arguments = parser.parse_args()
    chosen = [
        case
        for case in CASES
        if not arguments.words or any(word in case.name for word in arguments.words)
    ]
    results = json.loads(_RESULTS.read_text()) if _RESULTS.exists() else {}
    for name, _, python in (item.partition("=") for item in arguments.peer):
        if name not in PEERS or not python:
            parser.error(f"--peer {name}: give NAME=PYTHON with a NAME of {', '.join(PEERS)}")
        result = run_peer(name, python, chosen)
        if result is not None and arguments.words:
            print(json.dumps({name: result}, indent=1))
        elif result is not None:
            results[name] = result
            _RESULTS.write_text(json.dumps(results, indent=1) + "\n")
    if not arguments.words:
        ours = json.loads(arguments.ours.read_text()) if arguments.ours else results.get("ours")
        if arguments.ours:
            results["ours"] = {"date": datetime.date.today().isoformat(), **ours}
            _RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        text = markdown(results)
        (_HERE / "peers.md").write_text(text)
        print(text)


if __name__ == "__main__":
    main()
