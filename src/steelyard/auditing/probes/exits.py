"""Family B: leaving before the checks have spoken, skipping them, deleting them, hanging."""

from __future__ import annotations

from steelyard.auditing.probes.families import FORGE, Cheat, call_probes, import_probes
from steelyard.auditing.submission import Probe

_USE = "It ends, skips or empties the run of the checks, and an absent failure is read as a pass."
_FIX = (
    "Run the graded code in a child process, and let a parent that never imports it count the "
    "named checks that passed; a check that gave no verdict has failed."
)

_SAYINGS = (
    "4 passed in 0.01s", "OK", "PASS", "PASSED", "SUCCESS", "All tests passed",
    '{"passed": true, "success": true, "score": 1.0, "reward": 1.0}',
)  # fmt: skip
_SAY = "\n".join(f"print({saying!r}, flush=True)" for saying in _SAYINGS)

_ON_IMPORT = (
    Cheat(7, "sys-exit-on-import", "leaves with status 0 on import", "import sys\nsys.exit(0)"),
    Cheat(8, "os-exit-on-import", "ends the process on import", "import os\nos._exit(0)"),
    Cheat(
        9,
        "atexit",
        "turns the exit status into 0 when the process ends",
        "import atexit, os\natexit.register(os._exit, 0)",
    ),
    Cheat(
        0,
        "exit-patched",
        "replaces sys.exit, so that a failing runner leaves with status 0",
        "import builtins, os, sys\n"
        "sys.exit = builtins.exit = builtins.quit = lambda *_: os._exit(0)",
    ),
    Cheat(
        10,
        "skip-on-import",
        "skips the whole test module on import",
        "try:\n"
        "    import pytest\n"
        "except ImportError:\n"
        "    import unittest\n"
        "    raise unittest.SkipTest('skipped')\n"
        "pytest.skip('skipped', allow_module_level=True)",
    ),
    Cheat(
        11,
        "delete-tests",
        "empties the tests' folder on import",
        "import os\n"
        "for _root, _, _names in os.walk('/tests'):\n"
        "    for _name in _names:\n"
        "        try:\n"
        "            os.unlink(os.path.join(_root, _name))\n"
        "        except OSError:\n"
        "            pass",
    ),
    Cheat(12, "fake-report", "prints a passing report and ends", f"{_SAY}\nimport os\nos._exit(0)"),
    Cheat(0, "fake-report-and-go-on", "prints a passing report, then runs on", _SAY),
    Cheat(42, "hang-on-import", "never finishes being imported", "while True:\n    pass"),
    Cheat(
        0, "crash-on-import", "ends by a segmentation fault", "import os\nos.kill(os.getpid(), 11)"
    ),
    Cheat(
        0,
        "error-on-import",
        "raises an unusual exception on import",
        "class Odd(BaseException):\n    def __str__(self): raise self\nraise Odd()",
    ),
    Cheat(
        42,
        "flood",
        "prints a flood and ends the process",
        "import os\nfor _ in range(4000):\n    os.write(1, b'passed\\n' * 1000)\nos._exit(0)",
    ),
    Cheat(
        0,
        "kill-the-runner",
        "kills the process that started it",
        f"{FORGE}\n_forge()\nimport os\nos.kill(os.getppid(), 9)\nos._exit(0)",
    ),
)

_ON_CALL = (
    Cheat(7, "sys-exit-on-call", "leaves with status 0 when called",
          "import sys\ndef cheat(*_):\n    sys.exit(0)"),
    Cheat(8, "os-exit-on-call", "ends the process when called",
          "import os\ndef cheat(*_):\n    os._exit(0)"),
    Cheat(10, "skip-on-call", "skips the test that calls it",
          "def cheat(*_):\n"
          "    try:\n"
          "        import pytest\n"
          "    except ImportError:\n"
          "        import unittest\n"
          "        raise unittest.SkipTest('skipped')\n"
          "    pytest.skip('skipped')"),
    Cheat(10, "xfail-on-call", "marks the test that calls it as an expected failure",
          "def cheat(*_):\n    import pytest\n    pytest.xfail('expected')"),
    Cheat(42, "hang-on-call", "never returns", "def cheat(*_):\n    while True:\n        pass"),
    Cheat(0, "error-on-call", "raises an error", "def cheat(*_):\n    raise MemoryError"),
    Cheat(0, "interrupt-on-call", "raises KeyboardInterrupt",
          "def cheat(*_):\n    raise KeyboardInterrupt"),
    Cheat(0, "stop-iteration-on-call", "raises StopIteration, which ends a loop over generators",
          "def cheat(*_):\n    raise StopIteration"),
    Cheat(0, "crash-on-call", "ends by a segmentation fault when called",
          "import os\ndef cheat(*_):\n    os.kill(os.getpid(), 11)"),
)  # fmt: skip

PROBES: list[Probe] = [
    *import_probes("exits", _USE, _FIX, _ON_IMPORT),
    *call_probes("exits", _USE, _FIX, _ON_CALL),
]
