"""Writes 1 if settings.py in a folder passes every check of checks.json, or else 0.

    python3 -I run_checks.py FOLDER REWARD_FILE

The graded code runs in a child that sees the arguments but never the expected values. Landlock
(Linux 5.13) keeps it from writing any file, from reading any but the system's, the interpreter's
and those of the folder, and from the memory of its parent; from Linux 6.12 on also from signalling
it. Where the kernel has no Landlock, stderr says so, and the child is merely another process.
"""

import json
import subprocess
import sys
from pathlib import Path

CHILD = """
import ctypes, importlib, json, os, struct, sys

EVERY_ACCESS = 0x1FFF  # to files; later kernels add moving between directories and truncating
READ = 0x1 | 0x4 | 0x8  # run and read files, list directories
SCOPES = 0x1 | 0x2  # abstract sockets and signals stay among the child and its own children
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc")
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446


def confine(folder):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_long(0), 1)
    if version < 1:
        print("no Landlock: the graded code can read the checks", file=sys.stderr)
        return
    access = EVERY_ACCESS | (0x2000 if version >= 2 else 0) | (0x4000 if version >= 3 else 0)
    rights = struct.pack("QQQ", access, 0, SCOPES) if version >= 6 else struct.pack("Q", access)
    rules = libc.syscall(CREATE_RULESET, rights, ctypes.c_long(len(rights)), 0)
    refused = rules < 0
    for path in {*SYSTEM, sys.prefix, sys.base_prefix, folder}:
        if os.path.isdir(path):
            place = os.open(path, os.O_PATH)
            refused |= libc.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", READ, place), 0) != 0
            os.close(place)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    if refused or libc.syscall(RESTRICT_SELF, rules, 0) != 0:
        sys.exit("Landlock is there, but it could not be used")


folder, module, function = sys.argv[1:]
confine(folder)
os.closerange(3, 1024)
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
    folder, reward_file = sys.argv[1:]
    spec = json.loads(Path(__file__).with_name("checks.json").read_text())
    expected = [json.dumps(check["expected"]) for check in spec["checks"]]
    reward = Path(reward_file)
    reward.write_text("0\n")  # who stops this process from here on is the graded code
    try:
        right = answers(folder, spec) == expected
    except OSError:  # no child, no verdict
        reward.unlink()
        raise
    reward.write_text(f"{int(right)}\n")


main()
