"""Family A for programs: empty, constant, echoing and memorised stand-ins for the work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from steelyard.auditing.calls import memorised, verifier_calls
from steelyard.auditing.submission import Deserves, Probe, Submission
from steelyard.auditing.target import Target

_USE = "It writes the cheapest stand-in that the checks do not tell from the work."
_FIX = (
    "Add checks on inputs that the agent does not see, of every kind that the instruction names, "
    "so that no constant and no table passes them all."
)
_VALUES = ("None", "0", "1", "-1", "True", "False", "''", "[]", "{}", "()", "0.0", "set()",
           "float('nan')", "float('inf')", "iter(())")  # fmt: skip


def _emptied(target: Target) -> Iterable[Submission]:
    for label, content in (("empty files", b""), ("files that only comment", b"# done\n")):
        files = {**target.start, **dict.fromkeys(target.modules, content)}
        if target.modules and files != target.start:
            yield Submission(label, Deserves.LESS_THAN_SUCCESS, target.task, files)


def _deleted(target: Target) -> Iterable[Submission]:
    files = {path: data for path, data in target.start.items() if path not in target.modules}
    if target.modules and files != target.start:
        yield Submission("no files", Deserves.LESS_THAN_SUCCESS, target.task, files)


def _constants(target: Target) -> Iterable[Submission]:
    for module in target.modules:
        values = [*_common_values(target, module), *_VALUES]
        for value in dict.fromkeys(values):
            yield from _every_function(target, module, f"return {value}", f"returns {value:.60}")


def _common_values(target: Target, module: str) -> list[str]:
    """The most frequent expected values of the calls that the verifier is seen to make."""
    calls = [call for name in target.functions(module) for call in verifier_calls(target, name)]
    counts = Counter(repr(call.expected) for call in calls if call.asserted)
    return [value for value, _ in counts.most_common(2)]


def _echoes(target: Target) -> Iterable[Submission]:
    for module in target.modules:
        for body, label in (
            ("return arguments[0] if arguments else None", "returns its first argument"),
            ("return arguments[-1] if arguments else None", "returns its last argument"),
            ("return list(arguments)", "returns its arguments"),
            ("return str(arguments[0]) if arguments else ''", "returns its argument as text"),
        ):
            yield from _every_function(target, module, body, label)


def _tables(target: Target) -> Iterable[Submission]:
    """The examples that the agent can read, as a table."""
    for module in target.modules:
        functions = target.functions(module)
        rows = {
            (name, arguments): value
            for name in functions
            for arguments, value in memorised(target, name).items()
        }
        if not rows:
            continue
        source = f"_TABLE = {rows!r}\n" + "".join(
            f"def {name}(*arguments):\n    return _TABLE.get(({name!r}, repr(arguments)))\n\n"
            for name in functions
        )
        files = {**target.honest_base, module: source.encode()}
        yield Submission("a table of the visible cases", Deserves.SEPARATED, target.task, files)


def _unfinished(target: Target) -> Iterable[Submission]:
    """The reference without one of several Python files that the instruction names."""
    gold = target.gold
    named = [path for path in target.task.solution or {} if path in target.task.instruction]
    if gold is None or len(named) < 2:
        return
    for path in (path for path in named if path.endswith(".py")):
        files = {**gold, path: target.start.get(path, b"")}
        if files != gold:
            label = f"the reference without {path}"
            yield Submission(label, Deserves.LESS_THAN_SUCCESS, target.task, files)


def _every_function(target: Target, module: str, body: str, label: str) -> Iterable[Submission]:
    functions = target.functions(module)
    if functions:
        source = "".join(
            f"def {name}(*arguments, **keywords):\n    {body}\n\n" for name in functions
        )
        files = {**target.honest_base, module: source.encode()}
        yield Submission(label, Deserves.SEPARATED, target.task, files)


PROBES: list[Probe] = [
    Probe(2, "trivial", "empty", "empty files pass", _USE, _FIX, _emptied),
    Probe(2, "trivial", "deleted", "missing files pass", _USE, _FIX, _deleted),
    Probe(0, "trivial", "unfinished", "half of the work passes", _USE, _FIX, _unfinished),
    Probe(3, "trivial", "constant", "a constant passes", _USE, _FIX, _constants),
    Probe(4, "trivial", "echo", "an echo of the arguments passes", _USE, _FIX, _echoes),
    Probe(
        6, "trivial", "visible-table", "a table of the visible cases passes", _USE, _FIX, _tables
    ),
]
