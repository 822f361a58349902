"""Prints 1 if settings.py in the given folder passes every check of checks.json, or else 0.

The graded code runs in a child that sees the arguments but never the expected values, and that has
given up writing any file, where the kernel can hold it to that (Landlock, Linux 5.13).
"""

import json
import subprocess
import sys
from pathlib import Path

CHILD = """
import ctypes, importlib, json, os, struct, sys

WRITES = 0x1FF2  # write, remove and make files of every kind; later kernels add truncate


def give_up_writing():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    version = libc.syscall(444, None, ctypes.c_long(0), 1)  # landlock_create_ruleset
    if version < 1:
        return
    later = (0x2000 if version >= 2 else 0) | (0x4000 if version >= 3 else 0)
    rights = struct.pack("Q", WRITES | later)
    rules = libc.syscall(444, rights, ctypes.c_long(len(rights)), 0)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    if rules < 0 or libc.syscall(446, rules, 0) != 0:  # landlock_restrict_self
        sys.exit("Landlock is there, but it could not be used")
    os.close(rules)


give_up_writing()
os.closerange(3, 1024)
folder, module, function = sys.argv[1:]
sys.path.insert(0, folder)
results, sys.stdout = sys.stdout, sys.stderr
call = getattr(importlib.import_module(module), function)
for line in sys.stdin:
    try:
        text = json.dumps(call(*json.loads(line)))
    except Exception as error:
        text = type(error).__name__
    print(text, file=results, flush=True)
"""


def answers(folder, spec):
    """The JSON text of each result; fewer than asked for where the child died or hung."""
    command = [sys.executable, "-I", "-B", "-c", CHILD, folder]
    command += [spec["module"].removesuffix(".py").replace("/", "."), spec["function"]]
    calls = "".join(json.dumps(check["arguments"]) + "\n" for check in spec["checks"])
    try:
        done = subprocess.run(command, input=calls, stdout=subprocess.PIPE, text=True, timeout=5)
    except subprocess.TimeoutExpired:
        return []
    return done.stdout.splitlines()


def main():
    spec = json.loads(Path(__file__).with_name("checks.json").read_text())
    expected = [json.dumps(check["expected"]) for check in spec["checks"]]
    print(int(answers(sys.argv[1], spec) == expected))


main()
