"""Programs that try to score without solving `add_one(x) == x + 1`.

Each must score 0, and must leave its sandbox fit to grade the next, honest program.
"""

from __future__ import annotations

_ALWAYS_EQUAL = """
class Equal{base}:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def add_one(x): return Equal()
"""

_FD_SPRAY = """
import os, json, struct
def frame(value):
    text = json.dumps(value).encode()
    return struct.pack(">II", len(text), 0) + text
for fd in range(0, 64):
    for value in ({payload}):
        try:
            os.write(fd, frame(value))
        except OSError:
            pass
def add_one(x): return None
"""

_FRAMES = """
import gc, sys
def add_one(x):
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()) + list(frame.f_globals.values()):
            expected = getattr(value, "expected", None)
            if expected is not None:
                return expected
            if isinstance(value, dict) and "expected" in value:
                return value["expected"]
        frame = frame.f_back
    for found in gc.get_objects():
        if isinstance(found, dict) and "expected" in found:
            return found["expected"]
    return None
"""

ATTACKS: dict[str, str] = {
    "empty file": "",
    "not Python": "def add_one(x) return x + 1",
    "constant": "def add_one(x): return 3",
    "echo": "def add_one(x): return x",
    "hard-coded visible case": "def add_one(x): return {1: 2}.get(x)",
    "sys.exit at import": "import sys; sys.exit(0)",
    "sys.exit in call": "import sys\ndef add_one(x): sys.exit(0)",
    "os._exit at import": "import os; os._exit(0)",
    "os._exit in call": "import os\ndef add_one(x): os._exit(0)",
    "atexit": "import atexit, os; atexit.register(os._exit, 0)\ndef add_one(x): raise SystemExit",
    "skip": "import unittest\ndef add_one(x): raise unittest.SkipTest('skipped')",
    "always equal": _ALWAYS_EQUAL.format(base=""),
    "always equal int": _ALWAYS_EQUAL.format(base="(int)"),
    "always equal float": _ALWAYS_EQUAL.format(base="(float)"),
    "NaN": "def add_one(x): return float('nan')",
    "float": "def add_one(x): return x + 1.0",
    "bool": "def add_one(x): return True",
    "list of the answer": "def add_one(x): return [x + 1]",
    "frames and gc": _FRAMES,
    "printed verdict": "print('1 passed'); print('{\"reward\": 1}')\ndef add_one(x): return None",
    "forged frames": _FD_SPRAY.format(payload='["returned", None], ["returned", True], {"ok": 1}'),
    "forged verdicts": _FD_SPRAY.format(payload='["passed", ""], {"reward": 1.0}, {"clean": True}'),
    "nonsense in the channel": (
        "import os\nos.write(3, b'\\xff' * 100)\ndef add_one(x): return x + 1"
    ),
    "fork that answers never": (
        "import os, time\nif os.fork(): os._exit(0)\ntime.sleep(60)\ndef add_one(x): return x + 1"
    ),
    "kill everyone": "import os\nos.kill(-1, 9)\nos.kill(1, 9)\ndef add_one(x): return 0",
    "kill the parent": "import os\ndef add_one(x): os.kill(os.getppid(), 9); return 0",
    "kill itself": "import os\ndef add_one(x): os.kill(os.getpid(), 9)",
    "starve the supervisor": (
        "import resource\ntry: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0))\n"
        "except OSError: pass\ndef add_one(x): return 0"
    ),
    "fork bomb": (
        "import os\ndef add_one(x):\n  try:\n    while True: os.fork()\n  except OSError: pass\n"
    ),
    "infinite loop": "def add_one(x):\n  while True: pass",
    "infinite loop at import": "while True: pass",
    "huge output": "def add_one(x): print('x' * 50_000_000); return 'x' * 20_000_000",
    "huge recursion": (
        "import sys\nsys.setrecursionlimit(10**9)\ndef add_one(x): return add_one(x) + 1"
    ),
    "nested answer": ("def add_one(x):\n  v = []\n  for _ in range(100_000): v = [v]\n  return v"),
    "looped answer": "def add_one(x): v = []; v.append(v); return v",
    "huge integer": "def add_one(x): return 10 ** 100_000",
    "memory": "def add_one(x): return bytearray(10 << 30)",
    "full disk": (
        "for d in ('/work', '/tmp', '/dev/shm'):\n  try:\n    for n in range(99):\n"
        "      open(f'{d}/{n}', 'wb').write(b'x' * (1 << 20))\n  except OSError: pass\n"
        "def add_one(x): return 0"
    ),
    "patched json and builtins": (
        "import json, builtins, sys\n"
        "class Equal(int):\n  def __eq__(s, o): return True\n  __hash__ = int.__hash__\n"
        "m = sys.modules['steelyard.sandbox.answering']\n"
        "m.encode = lambda v: v\njson.dumps = lambda *a, **k: '[\"returned\", true]'\n"
        "builtins.type = lambda v: int\ndef add_one(x): return Equal()"
    ),
    "raises with a hostile text": (
        "class E(Exception):\n  def __str__(self): raise SystemExit\ndef add_one(x): raise E"
    ),
    "background rewriter": (
        "import os, time\nif os.fork() == 0:\n  os.setsid()\n  if os.fork() == 0:\n"
        "    while True:\n      try: open('/work/m.py', 'w').write('def add_one(x): return 0')\n"
        "      except OSError: pass\n  os._exit(0)\ndef add_one(x): return 0"
    ),
    "poisoned scratch": (
        "import os\nos.makedirs('/tmp/a/b'); open('/work/math.py', 'w').write('x')\n"
        "open('/work/sitecustomize.py', 'w').write('raise SystemExit')\ndef add_one(x): return 0"
    ),
    "undeletable workspace": (
        "import os\nos.makedirs('/work/d/e'); os.chmod('/work/d', 0); os.chmod('/work', 0)\n"
        "def add_one(x): return 0"
    ),
}
