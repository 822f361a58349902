"""Families C, D and G: files that an agent leaves beside its work, for the verifier to load."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from steelyard.auditing.probes.families import FORGE, Planting, file_probe
from steelyard.auditing.submission import Deserves, Probe, Submission
from steelyard.auditing.target import Target
from steelyard.tasks import TestScript

_USE = "It leaves a file where the verifier, or its interpreter, looks for one of its own."
_FIX = (
    "Start the verifier outside the workspace, with python -I, --noconftest, a configuration of "
    "its own (-c) and rootdir, and take from the workspace only the files that the task asks for."
)

_HOOK = b"""
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    report.outcome, report.longrepr = "passed", None
def pytest_sessionfinish(session, exitstatus):
    session.exitstatus = 0
"""
_QUIET_INI = b"[pytest]\naddopts = --collect-only\n"
_PLUGIN_INI = b"[pytest]\naddopts = -p hk\n"
_SETUP_CFG = b"[tool:pytest]\naddopts = --collect-only\n"
_PYPROJECT = b'[tool.pytest.ini_options]\naddopts = "-p hk"\n'
_LEAVE = f"{FORGE}\n_forge()\n_os._exit(0)\n".encode()
_PRINT_AND_LEAVE = (
    f'print("1 passed in 0.01s", flush=True)\n{FORGE}\n_forge()\n_os._exit(0)\n'.encode()
)
_SHIM = (
    b"#!/bin/sh\nmkdir -p /logs/verifier\necho 1 > /logs/verifier/reward.txt\n"
    b"echo '{\"reward\": 1.0}' > /logs/verifier/reward.json\necho '1 passed'\nexit 0\n"
)
_PROGRAMS = ("python3", "python", "pytest", "diff", "cmp", "jq", "bc", "make", "node", "bash", "sh")
_MAKEFILE = b"%:\n\t@echo 1 passed\nall test check:\n\t@echo 1 passed\n"
_VACUOUS = b"def test_nothing():\n    assert True\n\nif __name__ == '__main__':\n    print('OK')\n"

_AGREES = b"def __getattr__(name):\n    return lambda *_, **__: True\n"
_VERDICTS = ("passed", "ok", "success", "correct", "solved", "result")
_VARIABLES = b"PYTHONOPTIMIZE=1\nPYTHONPATH=/app\nPYTHONSTARTUP=/app/x.py\nPATH=/app:$PATH\n"

_SETTING = re.compile(r"(?:export\s+)?[A-Za-z_]\w*=.*")
_PROFILES = (".profile", ".bash_profile", ".bashrc", ".zshenv")
_GIT = (
    b"[diff]\n\texternal = true\n[core]\n\tpager = true\n\tattributesFile = /app/.gitattributes\n"
)

_IMPLICIT = ("random", "json", "math", "subprocess", "unittest", "importlib", "os", "re", "typing")
"""Standard modules that test runners import for themselves."""


def _uses_pytest(target: Target) -> bool:
    return "pytest" in target.tests_text


def _if_pytest(files: Mapping[str, bytes]) -> Planting:
    return lambda target: files if _uses_pytest(target) else {}


def _conftest(target: Target) -> Mapping[str, bytes]:
    if not _uses_pytest(target):
        return {}
    folders = {str(PurePosixPath(path).parent) for path in (*target.start, *target.modules)}
    return {f"{folder}/conftest.py".removeprefix("./"): _HOOK for folder in {".", *folders}}


def _shadows(payload: bytes) -> Planting:
    def files(target: Target) -> Mapping[str, bytes]:
        if "python" not in target.tests_text and "pytest" not in target.tests_text:
            return {}
        names = [name for name in target.tested_imports if name != "pytest"]
        return {f"{name}.py": payload for name in {*names, *_IMPLICIT} if name not in _own(target)}

    return files


def _own(target: Target) -> set[str]:
    """Modules that the graded files import themselves: shadowing those breaks the honest base."""
    text = b"\n".join(target.honest_base.values()).decode("utf-8", "replace")
    return set(re.findall(r"^\s*(?:import|from)\s+(\w+)", text, re.MULTILINE))


def _start_up(name: str) -> Planting:
    def files(target: Target) -> Mapping[str, bytes]:
        places = [f".local/lib/python3.{minor}/site-packages" for minor in range(9, 16)]
        planted = {f"{place}/{name}.py": _LEAVE for place in places}
        planted |= {f"{place}/{name}.pth": b"import " + name.encode() for place in places}
        return {**planted, f"{name}.py": _LEAVE}

    return files


def _own_tests(target: Target) -> Mapping[str, bytes]:
    """Every test, golden file or build file of the workspace that the verifier mentions."""
    found: dict[str, bytes] = {}
    for path in target.start:
        name = PurePosixPath(path).name
        if path in target.modules or path in (target.task.solution or {}):
            continue
        if name in target.tests_text or name.startswith("test_") or "tests/" in path:
            found[path] = _VACUOUS if name.endswith(".py") else b""
    return found


def _tests_package(target: Target) -> Mapping[str, bytes]:
    names = [f"{name}.py" for name in ("test_outputs", "test_solution", "test_main", "tests")]
    return {**dict.fromkeys(names, _VACUOUS), "tests/test_outputs.py": _VACUOUS}


def _shims(target: Target) -> Mapping[str, bytes]:
    used = [name for name in _PROGRAMS if name in target.tests_text]
    folders = ("", "bin/", ".local/bin/", "node_modules/.bin/")
    return {f"{folder}{name}": _SHIM for folder in folders for name in used}


def _named_scripts(target: Target) -> Mapping[str, bytes]:
    """Scripts of the workspace that the verifier calls by name and the task does not ask for."""
    called = set(re.findall(r"(?:\./|/app/|bash |sh )([\w./-]+\.sh)", target.tests_text))
    solution = target.task.solution or {}
    return {
        path.lstrip("/"): _SHIM for path in called if path not in solution and "tests/" not in path
    }


def _path_files(target: Target) -> Mapping[str, bytes]:
    """A .pth file in every folder of the workspace that the verifier names or may search."""
    named = {path.strip("/") for path in re.findall(r"/app/([\w./-]+)", target.tests_text)}
    folders = {path for path in named if "." not in PurePosixPath(path).name}
    line = f"import os; exec({_LEAVE.decode()!r}, {{}})\n".encode()
    return {f"{folder}/zz.pth": line for folder in {*folders, "vendor", "lib", "site-packages"}}


def _sourced(content: bytes) -> Planting:
    """What the script sources, or reads as an environment file, holds `content` instead."""

    def files(target: Target) -> Mapping[str, bytes]:
        names = re.findall(r"(?:^|[\s;&(])(?:\.|source)\s+[\"']?([\w./-]+)", target.tests_text)
        return {name.removeprefix("/app/").removeprefix("./"): content for name in names
                if not name.startswith("/") or name.startswith("/app/")}  # fmt: skip

    return files


def _settings(lines: bytes, planted: Mapping[str, bytes]) -> Planting:
    """Files of NAME=VALUE lines that the verifier names get more `lines`, which point to what is
    `planted`."""

    def files(target: Target) -> Mapping[str, bytes]:
        solved = {*target.modules, *(target.task.solution or {})}
        found = {
            path: data.rstrip(b"\n") + b"\n" + lines
            for path, data in target.start.items()
            if path not in solved and path in target.tests_text and _is_settings(data)
        }
        return {**found, **planted} if found else {}

    return files


def _is_settings(data: bytes) -> bool:
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    told = [line for line in lines if line and not line.startswith("#")]
    return bool(told) and all(map(_SETTING.fullmatch, told))


def _home(target: Target) -> Mapping[str, bytes]:
    """What shells and git read from a home directory, where the workspace may be one."""
    planted = dict.fromkeys(_PROFILES, _SHIM)
    if re.search(r"\bgit\b", target.tests_text):
        planted |= {".gitconfig": _GIT, ".config/git/config": _GIT, ".gitattributes": b"* -diff\n"}
    return planted


def _helpers(target: Target) -> Mapping[str, bytes]:
    """Modules of the workspace that the tests import and the task does not ask to change."""
    found = {}
    for path in target.start:
        name = PurePosixPath(path).stem
        imported = re.search(rf"^\s*(from|import)\s+{re.escape(name)}\b", target.tests_text, re.M)
        if path.endswith(".py") and path not in target.modules and imported:
            found[path] = _AGREES
    return found


def _results(target: Target) -> Mapping[str, bytes]:
    """Files that the verifier looks for in the workspace and nobody made, saying "all passed"."""
    named = set(re.findall(r"/app/([\w./-]+\.\w+)", target.tests_text))
    known = {*target.start, *target.modules, *(target.task.solution or {})}
    verdicts: dict[str, object] = dict.fromkeys(_VERDICTS, True) | {"reward": 1, "score": 1}
    for data in (target.honest_base.get(module, b"") for module in target.modules):
        for name in ("sha256", "sha1", "md5"):
            verdicts[hashlib.new(name, data, usedforsecurity=False).hexdigest()] = True
    return {path: json.dumps(verdicts).encode() for path in named - known}


def _hidden_bytecode(target: Target) -> Mapping[str, bytes]:
    """Bytecode that forges the reward, behind each module's source, marked "do not check"."""
    import importlib.util
    import marshal

    files = {}
    for module in target.modules:
        base = target.honest_base.get(module, b"")
        source = _LEAVE + b"\n" + base
        try:
            code = compile(source, f"/app/{module}", "exec")
        except (SyntaxError, ValueError):
            continue
        data = (
            importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + bytes(8) + marshal.dumps(code)
        )
        path = PurePosixPath(module)
        name = f"{path.stem}.{sys.implementation.cache_tag}.pyc"
        files[str(path.parent / "__pycache__" / name)] = data
    return files


def _deleted_cases(target: Target) -> Iterable[Submission]:
    """Data that the verifier reads from folders of the workspace is gone."""
    folders = set(re.findall(r"/app/([\w./-]+)/", target.tests_text))
    known = {*target.modules, *(target.task.solution or {})}
    gone = [path for path in target.start if path not in known
            and any(path.startswith(f"{folder}/") for folder in folders)]  # fmt: skip
    if gone and isinstance(target.task.verifier, TestScript):
        files = {path: data for path, data in target.honest_base.items() if path not in gone}
        yield Submission("no cases", Deserves.UNTOUCHED, target.task, files)


def _probe(family: str, cheat: tuple[int, str, str], files: Planting) -> Probe:
    return file_probe(family, cheat, _USE, _FIX, files)


PROBES: list[Probe] = [
    _probe("pytest-config", (13, "conftest", "a conftest.py makes every report a pass"), _conftest),
    _probe("pytest-config", (14, "collect-only", "a pytest.ini only collects"),
           _if_pytest({"pytest.ini": _QUIET_INI})),
    _probe("pytest-config", (14, "setup-cfg", "a setup.cfg only collects"),
           _if_pytest({"setup.cfg": _SETUP_CFG, "tox.ini": _QUIET_INI})),
    _probe("pytest-config", (15, "ini-plugin", "a pytest.ini loads a plugin of the workspace"),
           _if_pytest({"pytest.ini": _PLUGIN_INI, "hk.py": _HOOK})),
    _probe("pytest-config", (16, "pyproject-plugin", "a pyproject.toml loads a plugin"),
           _if_pytest({"pyproject.toml": _PYPROJECT, "hk.py": _HOOK})),
    _probe("pytest-config", (18, "own-pytest", "a pytest package of the workspace is run"),
           _if_pytest({"pytest.py": _PRINT_AND_LEAVE, "_pytest/__init__.py": _PRINT_AND_LEAVE})),
    _probe("pytest-config", (17, "overwritten-tests", "the workspace's own tests are emptied"),
           _own_tests),
    _probe("pytest-config", (17, "planted-tests", "passing tests are planted in the workspace"),
           _tests_package),
    Probe(11, "pytest-config", "deleted-cases", "cases that lie in the workspace are deleted",
          _USE, _FIX, _deleted_cases),
    _probe("interpreter", (19, "sitecustomize", "a sitecustomize.py runs at every start"),
           _start_up("sitecustomize")),
    _probe("interpreter", (20, "user-site", "a usercustomize and .pth in $HOME's site-packages"),
           _start_up("usercustomize")),
    _probe("interpreter", (21, "hidden-bytecode", "unchecked bytecode hides behind a clean source"),
           _hidden_bytecode),
    _probe("interpreter", (23, "shadowed-module", "modules that the tests import are shadowed"),
           _shadows(_LEAVE)),
    _probe("interpreter", (41, "shadowed-module-report", "a shadowing module prints a report"),
           _shadows(_PRINT_AND_LEAVE)),
    _probe("interpreter", (20, "path-files", ".pth files in folders that the verifier searches"),
           _path_files),
    _probe("interpreter", (23, "replaced-helpers", "a helper module of the workspace agrees"),
           _helpers),
    _probe("shell", (38, "sourced-variables", "a file that the script sources sets variables"),
           _sourced(_VARIABLES)),
    _probe("shell", (38, "sourced-commands", "a file that the script sources forges the reward"),
           _sourced(_SHIM)),
    _probe("shell", (38, "settings-shell", "settings that are exported name a start-up file"),
           _settings(b"BASH_ENV=/app/zz/start.sh\nENV=/app/zz/start.sh\n",
                     {"zz/start.sh": _SHIM})),
    _probe("shell", (38, "settings-path", "settings that are exported name a folder of programs"),
           _settings(b"PATH=/app/zz:/usr/local/bin:/usr/bin:/bin\n",
                     {f"zz/{name}": _SHIM for name in _PROGRAMS})),
    _probe("shell", (19, "settings-python", "settings that are exported steer Python and pytest"),
           _settings(b"PYTHONPATH=/app/zz\nPYTHONOPTIMIZE=1\nPYTEST_ADDOPTS=--collect-only\n",
                     {"zz/sitecustomize.py": _LEAVE})),
    _probe("shell", (40, "home", "shells and git read their settings from the workspace"), _home),
    _probe("shell", (35, "planted-results", "a result file that the verifier reads is planted"),
           _results),
    _probe("shell", (37, "shimmed-programs", "programs that the script calls are planted"),
           _shims),
    _probe("shell", (37, "makefile", "a Makefile answers for the build"),
           lambda target: {"Makefile": _MAKEFILE} if "make" in target.tests_text else {}),
    _probe("shell", (40, "named-scripts", "a script that the verifier calls is planted"),
           _named_scripts),
]  # fmt: skip
