"""Two programs in a real sandbox: differences are found, repeatable, and never invented."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from steelyard.auditing.inputs import neighbours
from steelyard.auditing.separate import CannotCompare, Separation, separate
from steelyard.sandbox import Sandbox, SandboxError, SandboxSettings
from steelyard.sandbox.wire import UnsupportedValue

NUMBERS = [(n,) for n in range(40)]
LIMITS = SandboxSettings(memory_mb=256, processes=16, cpu_seconds=10, workspace_mb=8)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(LIMITS) as made:
        yield made


def compare(
    sandbox: Sandbox, left: str, right: str, inputs: Any = NUMBERS, **options: Any
) -> Separation | None:
    options = {"call_timeout_seconds": 0.5, **options}
    files = [{"m.py": text.encode()} for text in (left, right)]
    return separate(sandbox, files[0], files[1], "m.py", "f", inputs, **options)


def test_the_first_input_that_differs_is_given_with_both_behaviours(sandbox: Sandbox) -> None:
    found = compare(sandbox, "def f(x): return x < 20", "def f(x): return x <= 20")
    assert found == Separation((20,), "returned False", "returned True")


def test_equal_programs_are_not_separated(sandbox: Sandbox) -> None:
    assert compare(sandbox, "def f(x): return x + x", "def f(x): return 2 * x") is None
    assert compare(sandbox, "def f(x): return float('nan')", "f = lambda x: float('nan')") is None
    same_error = "def f(x): raise ValueError(%s)"
    assert compare(sandbox, same_error % 1, same_error % 2) is None


@pytest.mark.parametrize(
    ("left", "right", "shown"),
    [
        ("return x", "return float(x)", ("returned 0", "returned 0.0")),
        ("return [x]", "return (x,)", ("returned [0]", "returned (0,)")),
        ("return 1", "return True", ("returned 1", "returned True")),
        ("return 1.0", "return float('nan')", ("returned 1.0", "returned nan")),
        ("return 1", "raise KeyError('k')", ("returned 1", "raised KeyError: 'k'")),
        ("raise ValueError", "raise TypeError", ("raised ValueError", "raised TypeError")),
        ("return 1", "return object()", ("returned 1", "returned an object of type object")),
        (
            "return 1",
            "import os; os._exit(3)",
            ("returned 1", "the program ended during the call (exit code 3)"),
        ),
    ],
)
def test_what_counts_as_a_difference(
    sandbox: Sandbox, left: str, right: str, shown: tuple[str, str]
) -> None:
    found = compare(sandbox, f"def f(x): {left}", f"def f(x): {right}")
    assert found == Separation((0,), *shown)


def test_a_hang_is_a_difference_and_costs_bounded_time(sandbox: Sandbox) -> None:
    started = time.monotonic()
    found = compare(
        sandbox,
        "def f(x): return x",
        "def f(x):\n  while x == 30: pass\n  return x",
        call_timeout_seconds=0.3,
    )
    assert found == Separation((30,), "returned 30", "no answer in time")
    forever = "def f(x):\n  while True: pass"
    assert compare(sandbox, forever, forever, call_timeout_seconds=0.3) is None
    assert time.monotonic() - started < 8


def test_a_program_that_contradicts_itself_is_not_separated(sandbox: Sandbox) -> None:
    left = "import os\ndef f(x): return os.urandom(8)"
    assert compare(sandbox, left, "def f(x): return 1", NUMBERS[:3]) is None
    stateful = "seen = []\ndef f(x):\n  seen.append(x)\n  return len(seen) > 5"
    assert compare(sandbox, stateful, "def f(x): return False") is None


def test_a_program_that_cannot_be_imported(sandbox: Sandbox) -> None:
    found = compare(sandbox, "def f(x): return x", "def f(x) return x")
    assert found is not None
    assert "could not be imported: raised SyntaxError" in found.right
    with pytest.raises(CannotCompare, match=r"m\.py could not be imported: raised AttributeError"):
        compare(sandbox, "def g(x): return x", "def f(x): return x")


def test_inputs_that_the_reference_refuses_can_be_left_out(sandbox: Sandbox) -> None:
    left, right = "def f(x): return 6 // x", "def f(x): return 6 // x if x else 0"
    assert compare(sandbox, left, right) == Separation(
        (0,), "raised ZeroDivisionError: integer division or modulo by zero", "returned 0"
    )
    assert compare(sandbox, left, right, left_returns=True) is None


def test_our_own_failures_are_raised() -> None:
    with Sandbox(LIMITS) as one:
        with pytest.raises(CannotCompare, match="no input"):
            compare(one, "def f(x): return x", "def f(x): return x", [])
        with pytest.raises(UnsupportedValue):
            compare(one, "def f(x): return x", "def f(x): return x", [(object(),)])
        with pytest.raises(OSError, match="No space"):
            separate(one, {"m.py": b"", "big": bytes(12 << 20)}, {}, "m.py", "f", NUMBERS)
    with pytest.raises(SandboxError):
        compare(one, "def f(x): return x", "def f(x): return x")


def test_time_is_bounded_and_its_end_says_nothing(sandbox: Sandbox) -> None:
    slow = "import time\ndef f(x):\n  time.sleep(0.1)\n  return %s"
    started = time.monotonic()
    assert compare(sandbox, slow % "x", slow % "x if x < 30 else 0", timeout_seconds=1.0) is None
    assert time.monotonic() - started < 3


def test_neighbours_tell_a_falsy_default_from_a_missing_one(sandbox: Sandbox) -> None:
    left = "def f(d, k): return d[k] if d.get(k) is not None else 10"
    right = "def f(d, k): return d.get(k) or 10"
    inputs = neighbours(({"retries": 3}, "retries"), random.Random(0))
    found = compare(sandbox, left, right, inputs)
    assert found == Separation(({"retries": 0}, "retries"), "returned 0", "returned 10")
