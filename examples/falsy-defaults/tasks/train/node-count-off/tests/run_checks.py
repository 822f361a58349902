"""Prints 1 if settings.py in the given folder passes every check of checks.json, or else 0.

The graded code runs in a child that sees the arguments but never the expected values.
"""

import json
import subprocess
import sys
from pathlib import Path

CHILD = """
import importlib, json, sys
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
