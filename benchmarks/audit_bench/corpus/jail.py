"""Runs a candidate where it can do no harm to its verifier.

Laid in tests/ of the cases that need it. The child may read the system and /app, write below the
directories that it is given, and signal nobody outside; then the candidate runs in it. Without
Landlock nothing runs at all. Standard library only.
"""

import builtins
import ctypes
import importlib
import json
import os
import struct
import subprocess
import sys
import types

READABLE = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/run", "/dev", "/app")
READ, WRITE_FILE = 0b1101, 0b10
HERE = os.path.abspath(__file__)


def confine(writable=()):
    """Gives up all other access to files, the network and foreign processes, for good."""
    libc = ctypes.CDLL(None, use_errno=True)
    abi = libc.syscall(444, None, 0, 1)
    if abi < 3:
        sys.exit("this kernel has no Landlock that can guard files from truncation")
    everything = (1 << 15) - 1 | (abi >= 5) << 15
    sets = (everything, 3 * (abi >= 4), 3 * (abi >= 6))
    attributes = struct.pack("=QQQ", *sets)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = checked(libc.syscall(444, attributes, size, 0))
    for path in {*READABLE, sys.base_prefix, sys.prefix}:
        allow(libc, rules, path, READ)
    for path in writable:
        allow(libc, rules, path, everything)
    allow(libc, rules, "/dev/null", WRITE_FILE)
    checked(libc.prctl(38, 1, 0, 0, 0))
    checked(libc.syscall(446, rules, 0))
    os.close(rules)


def allow(libc, rules, path, access):
    if os.path.exists(path):
        handle = os.open(path, os.O_PATH)
        checked(libc.syscall(445, rules, 1, struct.pack("=Qi", access, handle), 0))
        os.close(handle)


def checked(result):
    if result < 0:
        sys.exit("this process could not be confined")
    return result


# --- the trusted parent's side -----------------------------------------------------------------


def ask(module, function, calls, timeout=10, folder="/app"):
    """A reply for each list of arguments: ["returned", value], ["raised", name] or ["died"]."""
    lines = "".join(json.dumps(arguments) + "\n" for arguments in calls)
    done = run(["call", folder, module, function], lines, timeout)
    replies = []
    for line in (done.stdout if done else "").splitlines()[: len(calls)]:
        try:
            replies.append(json.loads(line))
        except ValueError:
            replies.append(["died"])
    return replies + [["died"]] * (len(calls) - len(replies))


def program(argv, stdin="", timeout=10, writable="-"):
    """The finished process of a command of the candidate's, or None if it took too long."""
    return run(["run", writable, *argv], stdin, timeout)


def pay(reward):
    """Writes the reward: the last thing that a verifier does."""
    with open("/logs/verifier/reward.txt", "w") as file:
        file.write(f"{float(reward)}\n")


def run(arguments, stdin, timeout):
    command = [sys.executable, "-I", "-B", HERE, *arguments]
    try:
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=timeout, cwd="/app"
        )
    except (subprocess.TimeoutExpired, UnicodeDecodeError):
        return None


def same(left, right):
    """Equal values of equal types: 1 is neither True nor 1.0."""
    return json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


# --- the child's side --------------------------------------------------------------------------


def answer_calls(folder, module, function):
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    lines = sys.stdin.readlines()
    confine()
    sys.path.insert(0, folder)
    called = getattr(importlib.import_module(module), function)
    for line in lines:
        try:
            reply = ["returned", called(*json.loads(line))]
            words = json.dumps(reply)
        except Exception as error:
            names = [kind.__name__ for kind in type(error).__mro__]
            known = [name for name in names if hasattr(builtins, name)]
            words = json.dumps(["raised", known[0]])
        print(words, file=results, flush=True)


def main():
    mode, *rest = sys.argv[1:]
    if mode == "call":
        answer_calls(*rest)
    elif mode == "run":
        writable, *command = rest
        confine([] if writable == "-" else [writable])
        os.execvp(command[0], command)
    elif mode == "script":  # a test program from stdin, beside the candidate in one process
        source = sys.stdin.read()
        confine()
        sys.argv = ["-"]
        sys.path.insert(0, "/app")
        # unittest.main and pickle look the program up by this name.
        tests = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(source, "<tests>", "exec"), vars(tests))


if __name__ == "__main__":
    main()
