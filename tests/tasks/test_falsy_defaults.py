"""The default example: its programs fail, its references pass, its splits share nothing."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from steelyard.tasks import (
    FunctionChecks,
    Task,
    load_tasks,
    read_task_directory,
    write_task_directory,
)

EXAMPLE = Path(__file__).parents[2] / "examples/falsy-defaults"
TASKS = load_tasks(EXAMPLE / "tasks")
SPLITS = ("demonstrations", "train", "dev", "test")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("falsy_generate", EXAMPLE / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def failures(checks: Any, source: bytes) -> list[str]:
    """Names of the checks that our own `source` fails, compared by exact type."""
    assert isinstance(checks, FunctionChecks)
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    failed = []
    for check in checks.checks:
        try:
            got = namespace[checks.function](*check.arguments)
        except Exception as error:
            got = error
        if type(got) is not type(check.expected) or got != check.expected:
            failed.append(check.name)
    return failed


def program(task: Task, *, fixed: bool) -> bytes:
    files = task.solution if fixed else task.files
    assert files is not None
    return files["settings.py"]


def test_the_committed_tasks_are_what_the_generator_writes(generator: ModuleType) -> None:
    written = {
        path.relative_to(EXAMPLE / "tasks").as_posix(): path.read_text()
        for path in (EXAMPLE / "tasks").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert written == generator.build()


def test_sizes_and_kinds() -> None:
    sizes = Counter((task.split, task.kind) for task in TASKS)
    seen = {"or", "getd", "not", "tern", "key", "off", "inv", "gt", "idx", "cast"}
    unseen = {"and", "in"}
    per_kind = {"demonstrations": 6, "train": 8, "dev": 3, "test": 6}
    assert sizes == {
        (split, kind): per_kind[split]
        for split in SPLITS
        for kind in seen | (unseen if split in ("dev", "test") else set())
    }


def test_no_name_key_or_program_is_shared_between_splits() -> None:
    words: dict[str, set[str]] = defaultdict(set)
    programs: dict[str, set[str]] = defaultdict(set)
    for task in TASKS:
        verifier, heldout = task.verifier, task.heldout
        assert isinstance(verifier, FunctionChecks)
        assert isinstance(heldout, FunctionChecks)
        words[task.split] |= {task.name, verifier.function}
        for check in (*verifier.checks, *heldout.checks):
            words[task.split] |= check.arguments[0].keys()
        for fixed in (False, True):
            tree = ast.parse(program(task, fixed=fixed))  # drops comments and layout
            defined = [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
            words[task.split] |= set(defined)
            programs[task.split].add(ast.unparse(tree))
    for one, other in combinations(SPLITS, 2):
        assert not words[one] & words[other]
        assert not programs[one] & programs[other]
    assert len({program(task, fixed=False) for task in TASKS}) == len(TASKS)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.split}/{task.name}")
def test_the_bug_fails_and_the_reference_passes(task: Task) -> None:
    assert isinstance(task.verifier, FunctionChecks)
    assert isinstance(task.heldout, FunctionChecks)
    assert [c.name for c in task.verifier.checks] == ["missing", "none", "zero", "normal"]
    assert len(task.heldout.checks) == 5
    assert failures(task.verifier, program(task, fixed=False)) != []
    assert failures(task.verifier, program(task, fixed=True)) == []
    assert failures(task.heldout, program(task, fixed=True)) == []


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"{task.split}/{task.name}")
def test_the_task_is_small_and_says_what_is_right(task: Task) -> None:
    before = program(task, fixed=False).decode().splitlines()
    after = program(task, fixed=True).decode().splitlines()
    assert len(before) <= 10
    assert len(set(before) - set(after)) == 1
    assert len(set(after) - set(before)) <= 2
    verifier = task.verifier
    assert isinstance(verifier, FunctionChecks)
    (key,) = verifier.checks[2].arguments[0]
    for part in (f"`{verifier.function}(config)`", f"'{key}'", f"{verifier.checks[0].expected}."):
        assert part in task.instruction
    assert len(task.instruction) < 200
    assert set(task.files) == {"settings.py", "visible_checks.py"}


def test_the_task_of_the_notes_is_there_as_given() -> None:
    (task,) = [t for t in TASKS if t.name == "retry-count-or"]
    assert task.split == "test"
    assert program(task, fixed=False).decode() == (
        'def retry_count(config):\n    return config.get("retries") or 3\n'
    )
    assert isinstance(task.verifier, FunctionChecks)
    assert [(c.arguments[0], c.expected) for c in task.verifier.checks] == [
        ({}, 3),
        ({"retries": None}, 3),
        ({"retries": 0}, 0),
        ({"retries": 2}, 2),
    ]


ONE_OF_EACH_KIND = list({task.kind: task for task in TASKS}.values())


@pytest.mark.parametrize("task", ONE_OF_EACH_KIND, ids=lambda task: f"{task.split}/{task.name}")
def test_the_agents_own_checks_show_the_failure(task: Task, tmp_path: Path) -> None:
    for path, data in task.files.items():
        (tmp_path / path).write_bytes(data)

    def run() -> tuple[int, list[str]]:
        done = subprocess.run(
            [sys.executable, "-B", "visible_checks.py"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""
        return done.returncode, done.stdout.splitlines()

    code, lines = run()
    names = [line.partition(":")[0] for line in lines]
    assert isinstance(task.verifier, FunctionChecks)
    assert len(names) == 2
    assert set(names) < {check.name for check in task.verifier.checks}
    assert code == 1
    assert any(": expected " in line and ", got " in line for line in lines)

    (tmp_path / "settings.py").write_bytes(program(task, fixed=True))
    assert run() == (0, [f"{name}: ok" for name in names])

    (tmp_path / "settings.py").write_text("def broken(:\n")
    code, lines = run()
    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith("settings.py: SyntaxError: ")


@pytest.mark.parametrize("task", ONE_OF_EACH_KIND, ids=lambda task: f"{task.split}/{task.name}")
def test_harbors_runner_agrees_with_the_checks(task: Task, tmp_path: Path) -> None:
    assert task.source is not None
    runner = task.source / "tests/run_checks.py"
    partial = program(task, fixed=True).replace(b"None", b"None or True")
    for text in (program(task, fixed=False), program(task, fixed=True), partial, b"exit(0)\n"):
        (tmp_path / "settings.py").write_bytes(text)
        reward = tmp_path / "reward.txt"
        subprocess.run([sys.executable, "-I", runner, tmp_path, reward], check=True)
        right = text != b"exit(0)\n" and failures(task.verifier, text) == []
        assert reward.read_text() == f"{int(right)}\n"


def test_the_directories_survive_reading_and_writing(tmp_path: Path) -> None:
    for task in ONE_OF_EACH_KIND:
        assert task.source is not None
        read = read_task_directory(task.source)
        assert read.warnings == ()
        copy = tmp_path / task.split / task.name
        write_task_directory(read, copy)
        again = read_task_directory(copy)
        assert again.files == read.files
        assert replace(again.task, source=None) == replace(task, source=None)
