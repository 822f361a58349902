"""Our tasks under Harbor itself, and our grading of what its agents left.

    python benchmarks/harbor_compat.py --harbor-python PATH        two minutes on one core

PATH is a Python 3.12 with `pip install harbor==0.26.0`; bubblewrap takes the place of Docker (see
harbor_bwrap.py). Harbor's agents `oracle` and `nop` play every dev task and ten train tasks of
falsy-defaults, and three tasks that are written here: one whose reward.json has several keys, and
two of two steps. The artifacts that Harbor collected are then graded by our Grader, through
checks.json and through tests/test.sh. Exit 1 where a reward is not the expected one or ours is not
Harbor's; 2 where it cannot run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from steelyard.episodes import Outcome, Scored
from steelyard.grading import Grader
from steelyard.sandbox.bubblewrap import find_python
from steelyard.tasks import Task, TestScript, read_task

HERE = Path(__file__).parent
TASKS = HERE.parent / "examples" / "falsy-defaults" / "tasks"
TRAIN_TASKS = 10
AGENTS = ("oracle", "nop")


@dataclass(frozen=True)
class Case:
    """A task, where it comes from, and the reward that each agent must get."""

    source: str
    path: Path
    expected: Mapping[str, float] = field(default_factory=lambda: {"oracle": 1.0, "nop": 0.0})


@dataclass(frozen=True)
class Row:
    """One trial: Harbor's reward and seconds, our outcomes and seconds, and what differs."""

    source: str
    name: str
    agent: str
    reward: float | None
    seconds: float
    ours: Mapping[str, tuple[Outcome, float]]
    problems: Sequence[str]


def example_cases() -> list[Case]:
    train = sorted(path.parent for path in (TASKS / "train").glob("*/task.toml"))
    chosen = train[:: len(train) // TRAIN_TASKS][:TRAIN_TASKS]
    dev = sorted(path.parent for path in (TASKS / "dev").glob("*/task.toml"))
    return [Case("dev", path) for path in dev] + [Case("train", path) for path in chosen]


# --- the tasks written here ----------------------------------------------------------------------

TASK_TOML = """\
schema_version = "1.4"
artifacts = ["/app/list.txt"]
[task]
name = "steelyard/{name}"
[agent]
timeout_sec = 60.0
[verifier]
timeout_sec = 20.0
environment_mode = "{mode}"
[environment]
network_mode = "no-network"
"""
STEPS_TOML = """\
[[steps]]
name = "first"
min_reward = 1.0
[[steps]]
name = "second"
"""
DOCKERFILE = "FROM python:3.12-slim\nWORKDIR /app\nCOPY list.txt /app/\n"
PARTS_SH = """\
#!/bin/sh
# reward.json must win over reward.txt, and the exit code must not matter.
present=$(grep -c . /app/list.txt)
reward=0; share=0.25
[ "$present" -eq 4 ] && reward=1 share=1
echo 0.5 > /logs/verifier/reward.txt
printf '{"share": %s, "reward": %s, "file": 1}' "$share" "$reward" > /logs/verifier/reward.json
exit 3
"""
STEP_SH = """\
#!/bin/sh
grep -qx {word} /app/list.txt && echo 1 > /logs/verifier/reward.txt && exit
echo 0 > /logs/verifier/reward.txt
"""


def written_cases(root: Path) -> list[Case]:
    """Writes the three tasks below `root`."""
    parts = {
        "tests/test.sh": PARTS_SH,
        "solution/solve.sh": "#!/bin/sh\ncp -R /solution/files/. /app/\n",
        "solution/files/list.txt": "a\nb\nc\nd\n",
    }
    return [
        Case("several keys", _write(root, "several-keys", "separate", parts)),
        Case("two steps", _write(root, "two-steps", "shared", _steps("b", "c"))),
        Case(
            "two steps, one missed",
            _write(root, "one-step-missed", "separate", _steps("b", "x")),
            {"oracle": 0.5, "nop": 0.0},
        ),
    ]


def _steps(*words: str) -> dict[str, str]:
    """Two steps that ask for the lines b and c; the solutions write `words`."""
    files = {}
    for step, asked, word in zip(("first", "second"), ("b", "c"), words, strict=True):
        files[f"steps/{step}/instruction.md"] = f"Add the line {asked} to list.txt.\n"
        files[f"steps/{step}/tests/test.sh"] = STEP_SH.format(word=asked)
        files[f"steps/{step}/solution/solve.sh"] = f"#!/bin/sh\necho {word} >> /app/list.txt\n"
    return files


def _write(root: Path, name: str, mode: str, files: Mapping[str, str]) -> Path:
    stepped = any(path.startswith("steps/") for path in files)
    content = {
        "task.toml": TASK_TOML.format(name=name, mode=mode) + (STEPS_TOML if stepped else ""),
        "environment/Dockerfile": DOCKERFILE,
        "environment/list.txt": "a\n",
        **({} if stepped else {"instruction.md": "Add the lines b, c and d to list.txt.\n"}),
        **files,
    }
    for path, text in content.items():
        (root / name / path).parent.mkdir(parents=True, exist_ok=True)
        (root / name / path).write_text(text)
    return root / name


# --- Harbor's side -------------------------------------------------------------------------------


def run_harbor(python: str, cases: Sequence[Case], folder: Path) -> dict[str, Any]:
    """What harbor_trials.py says of every case with every agent, in order."""
    inside = find_python()  # both sides run the tests with the same interpreter
    order = {
        "trials_dir": str(folder / "trials"),
        "kwargs": {"python": inside.executable, "python_prefix": inside.prefix},
        "trials": [{"task": str(c.path), "agent": agent} for c in cases for agent in AGENTS],
    }
    (folder / "order.json").write_text(json.dumps(order))
    results = folder / "results.json"
    done = subprocess.run(
        [python, str(HERE / "harbor_trials.py"), str(folder / "order.json"), str(results)],
        env={**os.environ, "PYTHONPATH": str(HERE), "HARBOR_TELEMETRY": "off"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        _refuse(f"the Harbor side failed:\n{done.stderr[-2000:]}")
    said: dict[str, Any] = json.loads(results.read_text())
    return said


def require_harbor(python: str) -> None:
    try:
        tried = subprocess.run([python, "-c", "import harbor"], capture_output=True, text=True)
        missing = tried.stderr.strip().rpartition("\n")[2] if tried.returncode else ""
    except OSError as error:
        missing = str(error)
    if missing:
        _refuse(
            f"--harbor-python {python}: Harbor cannot be imported there ({missing}); give the "
            "interpreter of a Python 3.12 environment with `pip install harbor==0.26.0`"
        )


def _refuse(sentence: str) -> None:
    print(sentence, file=sys.stderr)
    raise SystemExit(2)


# --- our side ------------------------------------------------------------------------------------


def compare(grader: Grader, case: Case, agent: str, trial: Mapping[str, Any]) -> Row:
    """Grades what Harbor collected in the trial, and names every difference."""
    problems = [f"Harbor: {trial['error']}"] if trial["error"] else []
    reward = (trial["rewards"] or {}).get("reward")
    if reward != case.expected[agent]:
        problems.append(f"Harbor gave {reward}, expected {case.expected[agent]:g}")
    task = read_task(case.path)
    if task.steps:
        ours, expected = (
            {"steps": grade_steps(grader, task, trial)},
            {"steps": reward_by_step(trial)},
        )
    else:
        left = collected(Path(trial["folder"]))
        ours = {door: grade(grader, by, left) for door, by in doors(task, case.path).items()}
        expected = {"checks.json": {"reward": reward}, "test.sh": trial["rewards"]}
    for door, (outcome, _) in ours.items():
        problems += differences(door, expected[door], outcome)
    return Row(case.source, case.path.name, agent, reward, trial["seconds"], ours, problems)


def doors(task: Task, path: Path) -> dict[str, Task]:
    """The task with its verifier as we read it, and with its test.sh as the verifier."""
    script = replace(task, verifier=TestScript(files_below(path / "tests")))
    if isinstance(task.verifier, TestScript):
        return {"test.sh": script}
    return {"checks.json": task, "test.sh": script}


def collected(folder: Path) -> dict[str, bytes]:
    """The artifacts of /app that Harbor took from the agent's environment."""
    return files_below(folder / "artifacts" / "app")


def files_below(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def grade(grader: Grader, task: Task, left: Mapping[str, bytes]) -> tuple[Outcome, float]:
    """Our outcome and its seconds; a task whose artifacts are missing would compare nothing."""
    if not left:
        raise RuntimeError(f"{task.name}: Harbor collected no artifact")
    began = time.perf_counter()
    outcome = grader.grade(task, {**task.files, **left})
    return outcome, time.perf_counter() - began


def grade_steps(grader: Grader, task: Task, trial: Mapping[str, Any]) -> tuple[Outcome, float]:
    """Our outcome of the steps that Harbor played, and its seconds."""
    folders = [Path(trial["folder"]) / "steps" / step["name"] for step in trial["steps"]]
    began = time.perf_counter()
    outcome = grader.grade_steps(task, [{**task.files, **collected(f)} for f in folders])
    return outcome, time.perf_counter() - began


def reward_by_step(trial: Mapping[str, Any]) -> dict[str, float]:
    """Harbor's reward of the trial, and of each step by its name, as our checks name them."""
    steps = {step["name"]: step["rewards"]["reward"] for step in trial["steps"] if step["rewards"]}
    return {**steps, **(trial["rewards"] or {})}


def differences(door: str, rewards: Mapping[str, float] | None, outcome: Outcome) -> list[str]:
    """Where our outcome is not Harbor's rewards, key by key."""
    if not isinstance(outcome, Scored):
        return [
            f"{door}: we did not score it ({outcome.cause}: {outcome.detail}), Harbor {rewards}"
        ]
    ours = {"reward": outcome.reward}
    if rewards is not None and len(rewards) > 1:
        ours |= {check.name: float(check.detail) for check in outcome.checks}
    return [] if ours == rewards else [f"{door}: ours is {ours}, Harbor's {rewards}"]


# --- what is printed -----------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    lines = [
        "| tasks | agent | trials | Harbor's reward | ours equal | Harbor, s a trial "
        "| ours, s a grading |",
        "|---|---|---|---|---|---|---|",
    ]
    for source, agent in dict.fromkeys((row.source, row.agent) for row in rows):
        chosen = [row for row in rows if (row.source, row.agent) == (source, agent)]
        rewards = ", ".join(sorted({f"{row.reward}" for row in chosen}))
        graded: dict[str, list[float]] = {}
        for row in chosen:
            for door, (_, seconds) in row.ours.items():
                graded.setdefault(door, []).append(seconds)
        ours = ", ".join(f"{door} {statistics.median(s):.3f}" for door, s in graded.items())
        equal = sum(not row.problems for row in chosen)
        harbor = statistics.median(row.seconds for row in chosen)
        lines.append(
            f"| {source} | {agent} | {len(chosen)} | {rewards} | {equal} of {len(chosen)} "
            f"| {harbor:.2f} | {ours} |"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Our tasks under Harbor, and our grading beside.")
    parser.add_argument("--harbor-python", required=True, help="a Python 3.12 that has Harbor")
    python = parser.parse_args().harbor_python
    require_harbor(python)
    with tempfile.TemporaryDirectory() as folder:
        cases = [*example_cases(), *written_cases(Path(folder) / "tasks")]
        said = run_harbor(python, cases, Path(folder))
        played = [(case, agent) for case in cases for agent in AGENTS]
        with Grader() as grader:
            rows = [
                compare(grader, case, agent, trial)
                for (case, agent), trial in zip(played, said["trials"], strict=True)
            ]
    print(f"Harbor {said['harbor']}, {len(rows)} trials\n\n{table(rows)}")
    wrong = [row for row in rows if row.problems]
    for row in wrong:
        print(f"DISAGREES: {row.name}, {row.agent}: {'; '.join(row.problems)}", file=sys.stderr)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
