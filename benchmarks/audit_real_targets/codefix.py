"""The 21 bug-fix tasks of codefix-env (Apache-2.0), read from its files without importing it.

Each is graded twice: its assertions as checks (as data where they are literal, else as a check
program, else, for classes, by its own grader alone), and by the package's own `run_code`, whose
file is laid among the tests.
"""

from __future__ import annotations

import ast
import json
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from audit_real_targets.job import Job, installed
from steelyard.tasks import CheckSpec, FunctionChecks, Task, TestScript
from steelyard.tasks.task import CheckProgram

_VERSION = "0.2.3"
_MODULE = "solution.py"
_OWN = """#!/bin/bash
mkdir -p /logs/verifier
cd /tests
python3 own_grade.py /app/solution.py > /logs/verifier/reward.json
"""
_OWN_GRADE = """
import json, os, sys
from sandbox import run_code

code = open(sys.argv[1]).read() if os.path.isfile(sys.argv[1]) else ""
cases = json.load(open("/tests/cases.json"))
passed = {name: float(run_code(code, test).passed) for name, test in cases.items()}
print(json.dumps({**passed, "reward": float(all(passed.values()))}))
"""


@dataclass(frozen=True)
class _Source:
    """One task as the package's files say it; `cases` maps a test's name to its code."""

    id: str
    title: str
    description: str
    buggy_code: str
    solution_code: str
    cases: dict[str, str]


def codefix_jobs() -> Iterator[Job]:
    """A full audit of every task under our checks, and under the package's own grader."""
    package = Path(str(installed("codefix-env", _VERSION).locate_file("codefix_env")))
    runner = (package / "utils" / "sandbox.py").read_bytes()
    sources = [
        source
        for level in ("easy", "medium", "hard")
        for source in _sources((package / "tasks" / f"{level}.py").read_text(encoding="utf-8"))
    ]
    for source in sources:
        verifier = _as_checks(source)
        if verifier is not None:
            task = replace(_task(source, runner), verifier=verifier)
            kind = "data" if isinstance(verifier, FunctionChecks) else "check program"
            yield Job(f"codefix-env, {kind}", [task], name=source.id)
    for source in sources:
        yield Job("codefix-env, its own grader", [_task(source, runner)], name=source.id)


def _sources(text: str) -> Iterator[_Source]:
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "Task"
        ):
            values = {word.arg: word.value for word in node.keywords}
            cases = values["test_cases"]
            assert isinstance(cases, ast.List)
            calls = [case for case in cases.elts if isinstance(case, ast.Call)]
            words = [{word.arg: word.value for word in call.keywords} for call in calls]
            named = ("id", "title", "description", "buggy_code", "solution_code")
            yield _Source(
                **{name: ast.literal_eval(values[name]) for name in named},
                cases={
                    ast.literal_eval(word["name"]): ast.literal_eval(word["code"]) for word in words
                },
            )


def _task(source: _Source, runner: bytes) -> Task:
    cases = {name: textwrap.dedent(code) for name, code in source.cases.items()}
    files = {
        "test.sh": _OWN.encode(),
        "own_grade.py": _OWN_GRADE.encode(),
        "sandbox.py": runner,
        "cases.json": json.dumps(cases).encode(),
    }
    return Task(
        name=source.id,
        instruction=f"{source.title}. {source.description} Correct {_MODULE}.",
        verifier=TestScript(files),
        files={_MODULE: textwrap.dedent(source.buggy_code).encode()},
        solution={_MODULE: textwrap.dedent(source.solution_code).encode()},
        kind="codefix",
    )


def _as_checks(source: _Source) -> FunctionChecks | CheckProgram | None:
    """None where the tests use a class, or attributes of a function: no primitive values."""
    tree = ast.parse(textwrap.dedent(source.solution_code))
    names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    called = {
        node.func.id
        for code in source.cases.values()
        for node in ast.walk(ast.parse(textwrap.dedent(code)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    tested = [name for name in names if name in called]
    classes = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    if len(tested) != 1 or classes & called:
        return None
    function = tested[0]
    attributes = any(f"{function}.__" in code for code in source.cases.values())
    if attributes:
        return None
    checks = [_literal(name, code, function) for name, code in source.cases.items()]
    if all(check is not None for check in checks):
        return FunctionChecks(_MODULE, function, tuple(check for check in checks if check))
    body = "\n".join(textwrap.dedent(code).strip() for code in source.cases.values())
    program = f"def check({function}):\n{textwrap.indent(body, '    ')}\n"
    return CheckProgram(_MODULE, function, program)


def _literal(name: str, code: str, function: str) -> CheckSpec | None:
    """The check that one `assert function(literals) == literal` is; None for any other code."""
    body = ast.parse(textwrap.dedent(code)).body
    match body:
        case [
            ast.Assert(
                test=ast.Compare(
                    left=ast.Call(func=ast.Name(id=called), args=arguments, keywords=[]),
                    ops=[ast.Eq()],
                    comparators=[expected],
                )
            )
        ] if called == function:
            try:
                values: list[Any] = [ast.literal_eval(argument) for argument in arguments]
                return CheckSpec(name, tuple(values), ast.literal_eval(expected))
            except ValueError:
                return None
    return None
