"""The running environment's packages in a sandbox: there when asked for, read-only, nameless."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from steelyard.sandbox import Sandbox, SandboxSettings, SandboxUnavailable, packages
from steelyard.sandbox.interpreter import SandboxPython, find_python

OrdinaryUser = Callable[[list[str]], subprocess.CompletedProcess[str]]
SITE = Path(sysconfig.get_paths()["purelib"])
INSIDE = f"/run/lib/python{sys.version_info.major}.{sys.version_info.minor}/site-packages"
IMPORT = ["python3", "-I", "-c", "import pytest; print(pytest.__file__)"]


@pytest.fixture(scope="module")
def furnished() -> Iterator[Sandbox]:
    with Sandbox(SandboxSettings(packages=True)) as made:
        try:
            made.run(["true"], timeout_seconds=5)
        except SandboxUnavailable as error:
            pytest.skip(str(error))
        yield made


def test_packages_are_absent_unless_asked_for(sandbox: Sandbox) -> None:
    if SITE.is_relative_to("/usr"):
        pytest.skip("the running environment is the system's own, which every sandbox shows")
    assert sandbox.run(IMPORT, timeout_seconds=5).exit_code == 1
    assert sandbox.run(["pytest", "--version"], timeout_seconds=5).exit_code == 127


def test_packages_and_their_commands_run_when_asked_for(furnished: Sandbox) -> None:
    imported = furnished.run(IMPORT, timeout_seconds=10)
    assert imported.stdout.decode() == f"{INSIDE}/pytest/__init__.py\n", imported.stderr
    for command in (["pytest"], ["python3", "-I", "-m", "pytest"]):
        version = furnished.run([*command, "--version"], timeout_seconds=10)
        assert version.exit_code == 0, version.stderr
        assert version.stdout.decode() == f"pytest {metadata.version('pytest')}\n"


def test_a_test_file_runs_and_its_failure_is_the_exit_code(furnished: Sandbox) -> None:
    for body, code in (("assert 1 == 1", 0), ("assert 1 == 2", 1)):
        furnished.write("test_it.py", f"def test_it():\n    {body}\n".encode())
        run = furnished.run(["pytest", "-q", "-p", "no:cacheprovider"], timeout_seconds=10)
        assert run.exit_code == code, run.stdout
    furnished.wipe()


def test_a_compiled_package_runs_within_the_limits(furnished: Sandbox) -> None:
    pytest.importorskip("numpy")
    code = "import numpy as np; print(int((np.ones((300, 300)) @ np.ones((300, 300))).sum()))"
    run = furnished.run(["python3", "-c", code], timeout_seconds=20)
    assert run.stdout == b"27000000\n", run.stderr


def test_a_program_in_a_child_has_the_packages_too(furnished: Sandbox) -> None:
    source = b"def f():\n    import sys, pytest\n    return pytest.__file__, sys.prefix, sys.path\n"
    with furnished.program({"m.py": source}, module="m.py", function="f") as program:
        program.caller.ready(5)
        file, prefix, path = program.caller.call((), timeout_seconds=10).value
    assert file == f"{INSIDE}/pytest/__init__.py"
    assert prefix == "/run"
    assert path[0] == "/work"
    assert path[-1] == INSIDE or not SITE.is_relative_to(sys.prefix)


def test_nobody_can_change_a_package(furnished: Sandbox) -> None:
    script = f"""
import os
out = []
for action in (
    lambda: open({INSIDE!r} + "/planted.py", "w"),
    lambda: open({INSIDE!r} + "/pytest/__init__.py", "a"),
    lambda: os.remove({INSIDE!r} + "/pytest/__init__.py"),
    lambda: os.chmod({INSIDE!r} + "/pytest/__init__.py", 0o777),
    lambda: os.symlink("/work", "/run/bin/planted"),
    lambda: os.chmod("/run/bin", 0o777),
    lambda: open("/run/pyvenv.cfg", "w"),
    lambda: open("/run/bin/pytest", "w"),
):
    try:
        action()
        out.append("did")
    except OSError as error:
        out.append("refused")
print(*out)
"""
    run = furnished.run(["python3", "-c", script], timeout_seconds=5)
    assert run.stdout.split() == [b"refused"] * 8, run.stderr


def test_the_interpreter_names_no_directory_of_the_environment(furnished: Sandbox) -> None:
    """It shows in one place, which says where a mount came from; that is the kernel's."""
    script = """
import json, os, sys, sysconfig, pytest, traceback
try:
    pytest.raises()
except Exception:
    trace = traceback.format_exc()
print(json.dumps({
    "path": sys.path, "prefix": [sys.prefix, sys.exec_prefix, sys.base_prefix, sys.executable],
    "paths": sysconfig.get_paths(), "env": dict(os.environ), "trace": trace,
    "cfg": open("/run/pyvenv.cfg").read(), "launch": open("/run/bin/pytest").read(),
    "links": [os.readlink("/run/bin/" + n) for n in os.listdir("/run/bin") if n != ".launch"],
}))
"""
    run = furnished.run(["python3", "-c", script], timeout_seconds=10)
    shown = json.loads(run.stdout)
    assert INSIDE in shown["path"]
    if SITE.is_relative_to("/usr"):
        pytest.skip("the running environment is the system's own")
    environment = str(Path(sys.prefix))
    assert "pytest" in shown["trace"]
    assert environment not in run.stdout.decode()
    mounts = furnished.run(["cat", "/proc/self/mountinfo"], timeout_seconds=5).stdout.decode()
    named = [line.split()[4] for line in mounts.splitlines() if environment in line]
    assert set(named) <= {INSIDE}


def test_unreadable_packages_are_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() != 0:
        pytest.skip("an ordinary user's sandbox has that user's own permissions")
    (tmp_path / "site-packages").mkdir()
    tmp_path.chmod(0o700)
    paths = {"purelib": str(tmp_path / "site-packages"), "platlib": str(tmp_path / "site-packages")}
    monkeypatch.setattr(sysconfig, "get_paths", lambda: paths)
    with pytest.raises(SandboxUnavailable, match="create the environment outside /root"):
        packages.find_packages.__wrapped__(find_python())


def test_packages_for_another_python_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho cpython-33\n")
    other.chmod(0o755)
    with pytest.raises(SandboxUnavailable, match="which is cpython-33"):
        packages.find_packages.__wrapped__(SandboxPython(str(other), None, own=False))


def test_an_ordinary_user_has_them_as_well(ordinary_user: OrdinaryUser) -> None:
    script = """
from steelyard.sandbox import Sandbox, SandboxSettings
for packages in (False, True):
    with Sandbox(SandboxSettings(packages=packages)) as sandbox:
        run = sandbox.run(["pytest", "--version"], timeout_seconds=9)
        print(run.exit_code, run.stdout.decode().strip())
"""
    done = ordinary_user(["-c", script])
    shown = ["127 ", f"0 pytest {metadata.version('pytest')}"]
    assert done.stdout.splitlines() == shown, done.stderr
