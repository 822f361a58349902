"""Families A, F and G for work that is a shell script, and for what a program prints to a shell."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from steelyard.auditing.submission import Deserves, Probe, Submission
from steelyard.auditing.target import Target
from steelyard.tasks import TestScript

_USE = "It hands in the shortest script that the verifier takes for the work."
_FIX = (
    'Compare what the program prints as text ([ "$got" = "$want" ] or cmp), on inputs of every '
    "kind, in a verifier that the program cannot write to."
)
_CONSTANTS = ("true", "echo", "echo 0", "echo 1", "echo true", "echo OK", "exit 0")
_FORGED = (
    "{ mkdir -p /logs/verifier; echo 1 > /logs/verifier/reward.txt\n"
    "echo '{\"reward\": 1.0}' > /logs/verifier/reward.json; } 2> /dev/null\n"
)
_ARITHMETIC = re.compile(r"-(?:eq|ne|lt|le|gt|ge)\b|\(\(|\blet\b|\bexpr\b|\bdeclare -i\b")
_VARIABLE = re.compile(r"\b([A-Za-z_]\w*)\b")
_MAX_NAMES = 12


def _written(target: Target, body: str, label: str) -> Iterator[Submission]:
    for path in target.shell_scripts:
        files = {**target.honest_base, path: body.encode()}
        yield Submission(label, Deserves.SEPARATED, target.task, files)


def _constants(target: Target) -> Iterable[Submission]:
    for body in _CONSTANTS:
        yield from _written(target, f"{body}\n", f"a script that is `{body}`")


def _echoes(target: Target) -> Iterable[Submission]:
    yield from _written(target, "cat\n", "a script that prints its input")
    yield from _written(target, 'echo "$@"\n', "a script that prints its arguments")


def _names(target: Target) -> Iterable[Submission]:
    """A program that prints the name of a variable: arithmetic of a shell looks its value up."""
    if not isinstance(target.task.verifier, TestScript):
        return
    for name in _variables(target):
        yield from _written(target, f"echo {name}\n", f"a script that prints the word {name}")
        for module in target.modules:
            files = {**target.honest_base, module: f"print({name!r})\n".encode()}
            label = f"a program that prints the word {name}"
            yield Submission(label, Deserves.SEPARATED, target.task, files)


def _variables(target: Target) -> list[str]:
    verifier = target.task.verifier
    assert isinstance(verifier, TestScript)
    names: dict[str, None] = {}
    for path, data in verifier.files.items():
        if path.endswith((".sh", ".bash")):
            for line in data.decode("utf-8", "replace").splitlines():
                if _ARITHMETIC.search(line):
                    names |= dict.fromkeys(_VARIABLE.findall(line))
    assigned = set(re.findall(r"\b(?:for |read |read -r )?(\w+)(?:=| in )", target.tests_text))
    return [name for name in names if name in assigned][:_MAX_NAMES]


def _forges(target: Target) -> Iterable[Submission]:
    for path in target.shell_scripts:
        before = target.honest_base[path].decode("utf-8", "replace")
        head, line, rest = before.partition("\n") if before.startswith("#!") else ("", "", before)
        files = {**target.honest_base, path: f"{head}{line}{_FORGED}{rest}".encode()}
        label = "a script that writes the reward, then runs on"
        yield Submission(label, Deserves.UNTOUCHED, target.task, files)


PROBES: list[Probe] = [
    Probe(3, "trivial", "script-constant", "a script that ignores its input passes", _USE, _FIX,
          _constants),
    Probe(4, "trivial", "script-echo", "a script that prints what it is given passes", _USE, _FIX,
          _echoes),
    Probe(0, "shell", "evaluated-output", "what is printed is evaluated by the verifier's shell",
          _USE, _FIX, _names),
    Probe(32, "reward-channel", "forged-by-script", "a shell script writes the reward", _USE, _FIX,
          _forges),
]  # fmt: skip
