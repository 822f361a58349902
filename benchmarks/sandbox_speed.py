"""What isolation costs: a sandbox against bare bubblewrap, grading against bare Python children.

Each round measures both sides one after the other, so that a slow moment of the machine hits both;
the numbers are medians over the rounds. Prints the table of README.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from steelyard.episodes import Scored
from steelyard.grading import Grader, GradingSettings
from steelyard.sandbox import Sandbox, SandboxSettings
from steelyard.sandbox.bubblewrap import command_line
from steelyard.sandbox.interpreter import find_python
from steelyard.sandbox.launching import Launch
from steelyard.tasks import FunctionChecks, Task, load_tasks

TASKS = Path(__file__).parents[1] / "examples" / "falsy-defaults" / "tasks" / "test"
UID = 1_900_004_000
CHILD = """
import importlib, json, sys
folder, module, function = sys.argv[1:]
sys.path.insert(0, folder)
call = getattr(importlib.import_module(module), function)
for line in sys.stdin:
    try:
        text = json.dumps(call(*json.loads(line)))
    except Exception as error:
        text = type(error).__name__
    print(text, flush=True)
"""


TRUE = ["true"]
PYTHON = ["python3", "-I", "-S", "-c", ""]


def start_a_sandbox(command: list[str]) -> None:
    with Sandbox() as sandbox:
        assert sandbox.run(command, timeout_seconds=10).exit_code == 0


def start_bare_bubblewrap(trivial: list[str]) -> None:
    """The same flags, files and uid, with the trivial command in the supervisor's place."""
    launch = Launch(SandboxSettings(), "/work", ("/tmp", "/dev/shm"))
    descriptors: list[int] = []
    uid = UID if os.geteuid() == 0 else None
    command = command_line(launch, trivial, uid, descriptors)
    subprocess.run(command, pass_fds=descriptors, env={}, check=True)
    for descriptor in descriptors:
        os.close(descriptor)


def start_bare_python() -> None:
    """What the sandbox's supervisor is before it does anything: an interpreter."""
    subprocess.run([find_python().executable, "-s", "-S", "-c", ""], env={}, check=True)


def grade_all(grader: Grader, tasks: list[Task]) -> None:
    for task in tasks:
        outcome = grader.grade(task, {**task.files, **(task.solution or {})})
        assert isinstance(outcome, Scored)
        assert outcome.reward == 1.0, (task.name, outcome)


def start_all_children(folders: list[tuple[Task, str]]) -> None:
    """One interpreter per program, which imports the file and answers the checks; no isolation."""
    for task, folder in folders:
        verifier = task.verifier
        assert isinstance(verifier, FunctionChecks)
        module = verifier.module.removesuffix(".py").replace("/", ".")
        calls = "".join(json.dumps(check.arguments) + "\n" for check in verifier.checks)
        where = (folder, module, verifier.function)
        command = [find_python().executable, "-I", "-S", "-B", "-c", CHILD, *where]
        done = subprocess.run(command, input=calls, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [json.dumps(c.expected) for c in verifier.checks]


def lay(task: Task, root: str) -> str:
    folder = Path(root, task.name)
    for name, data in {**task.files, **(task.solution or {})}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return str(folder)


def medians(rounds: int, *actions: Callable[[], None]) -> list[float]:
    seconds: list[list[float]] = [[] for _ in actions]
    for action in actions:
        action()  # a first time, for the caches
    for _ in range(rounds):
        for taken, action in zip(seconds, actions, strict=True):
            started = time.perf_counter()
            action()
            taken.append(time.perf_counter() - started)
    return [statistics.median(taken) for taken in seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    rounds = parser.parse_args().rounds
    ours, bare, ours_python, bare_python, python = medians(
        rounds,
        lambda: start_a_sandbox(TRUE),
        lambda: start_bare_bubblewrap(TRUE),
        lambda: start_a_sandbox(PYTHON),
        lambda: start_bare_bubblewrap(PYTHON),
        start_bare_python,
    )
    tasks = [task for task in load_tasks(TASKS) if isinstance(task.verifier, FunctionChecks)]
    with TemporaryDirectory() as root, Grader(GradingSettings(workers=1)) as grader:
        folders = [(task, lay(task, root)) for task in tasks]
        graded, children = medians(
            max(3, rounds // 8),
            lambda: grade_all(grader, tasks),
            lambda: start_all_children(folders),
        )
    print("| | ms | bare, ms | ratio | goal |\n|---|---|---|---|---|")
    print(
        f"| sandbox: start, `true`, teardown (bare: `bwrap` with the same flags, `true`) "
        f"| {ours * 1e3:.1f} | {bare * 1e3:.1f} | {ours / bare:.2f} | 3 |"
    )
    print(
        f"| the same with `python3 -I -S -c ''` for `true` "
        f"| {ours_python * 1e3:.1f} | {bare_python * 1e3:.1f} | {ours_python / bare_python:.2f} | |"
    )
    print(
        f"| grading one of {len(tasks)} programs (bare: one Python child that answers the checks) "
        f"| {graded / len(tasks) * 1e3:.1f} | {children / len(tasks) * 1e3:.1f} "
        f"| {graded / children:.2f} | 2 |"
    )
    print(f"\nAn interpreter that does nothing (`python3 -s -S`) takes {python * 1e3:.1f} ms.")


if __name__ == "__main__":
    main()
