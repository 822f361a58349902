"""What a task's author wrote never runs outside a sandbox, in whichever form it comes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from steelyard.grading import Grader
from steelyard.tasks import (
    AnswerForm,
    CheckProgram,
    CollectHook,
    FunctionChecks,
    Handover,
    ReferenceChecks,
    RewardFunction,
    Task,
    TestScript,
    read_task,
)

OUT = "/logs/verifier/reward.txt"
CANDIDATE = {"m.py": b"def f(x): return x\n"}
INPUTS = "def inputs(seed): return [[1]]\n"
REFERENCE = "def f(x): return x\n"


def reaching(host: Path) -> str:
    """Python that leaves a mark on the host, and else one in its own /tmp, which proves it ran."""
    return (
        f"import os\nfor place in ({str(host)!r}, '/tmp'):\n"
        "    try:\n        open(f'{place}/{os.getpid()}', 'w').close()\n"
        "    except OSError:\n        pass\n"
        "ran_here = os.path.exists(f'/tmp/{os.getpid()}') and os.getppid() <= 1\n"
    )


def check_program(mark: str, folder: Path) -> Task:
    check = f"{mark}def check(candidate):\n    assert ran_here and candidate(1) == 1\n"
    return Task("t", "", CheckProgram("m.py", "f", check))


def reference(mark: str, folder: Path) -> Task:
    files = {"r.py": f"{mark}assert ran_here\n{REFERENCE}".encode(), "i.py": INPUTS.encode()}
    return Task("t", "", ReferenceChecks("m.py", "f", "r.py", "i.py", files))


def generator(mark: str, folder: Path) -> Task:
    files = {"r.py": REFERENCE.encode(), "i.py": f"{mark}assert ran_here\n{INPUTS}".encode()}
    return Task("t", "", ReferenceChecks("m.py", "f", "r.py", "i.py", files))


def reward_function(mark: str, folder: Path) -> Task:
    body = "def score(prompt, answer, **row):\n    return float(ran_here)\n"
    (folder / "rewards.py").write_text(f"{mark}{body}")
    verifier = RewardFunction(folder / "rewards.py", "score", {})
    return Task("t", "", verifier, answer=AnswerForm("m.py"))


def script(mark: str, folder: Path) -> Task:
    files = {"test.sh": f"python3 /tests/t.py; echo $? > {OUT}".encode()}
    files["t.py"] = f"{mark}raise SystemExit(os.path.exists(f'/tmp/{{os.getpid()}}'))\n".encode()
    return Task("t", "", TestScript(files))


def hook(mark: str, folder: Path) -> Task:
    made = f"cat > /tmp/h.py <<'E'\n{mark}print(int(os.path.exists(f'/tmp/{{os.getpid()}}')))\nE\n"
    collect = CollectHook(f"{made}python3 /tmp/h.py > made")
    test = TestScript({"test.sh": f"cat made > {OUT}".encode()})
    return Task("t", "", test, handover=Handover((), (collect,)))


@pytest.mark.parametrize(
    "make", [check_program, reference, generator, reward_function, script, hook]
)
def test_an_author_s_program_runs_and_leaves_nothing_on_the_host(
    grader: Grader, tmp_path: Path, make: object
) -> None:
    host = tmp_path / "host"
    host.mkdir(mode=0o777)
    os.chmod(host, 0o777)
    assert callable(make)
    task = make(reaching(host), tmp_path)
    outcome = grader.grade(task, CANDIDATE)
    assert getattr(outcome, "reward", None) == 1.0, outcome
    assert list(host.iterdir()) == []


def test_reading_a_task_runs_nothing_of_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    line = f"open({str(mark)!r}, 'w')\n"
    for path, text in {
        "task.toml": "",
        "instruction.md": "Write f.",
        "environment/m.py": line,
        "environment/Dockerfile": f"FROM python\nWORKDIR /app\nCOPY m.py ./\nLABEL a={mark}\n",
        "tests/checks.json": '{"module": "m.py", "function": "f", "reference": "r.py", '
        '"inputs": "i.py"}',
        "tests/r.py": line,
        "tests/i.py": line,
        "tests/conftest.py": line,
        "heldout/checks.json": '{"module": "m.py", "function": "f", "checks": ['
        '{"name": "a", "arguments": [], "expected": 1}]}',
    }.items():
        (tmp_path / "task" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / path).write_text(text)
    task = read_task(tmp_path / "task")
    assert isinstance(task.verifier, ReferenceChecks)
    assert isinstance(task.heldout, FunctionChecks)
    assert not mark.exists()
