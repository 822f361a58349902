"""Rewrites: they look different, and nothing that can be called behaves differently."""

from __future__ import annotations

import ast
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from steelyard.auditing.rewrites import rewrites

pytestmark = pytest.mark.filterwarnings("ignore::SyntaxWarning")  # `3 is not None`, at random


def by_name(source: str, keep: tuple[str, ...] = ()) -> dict[str, str]:
    return {rewrite.name: rewrite.source for rewrite in rewrites(source, keep)}


def behaviour(source: str, function: str, arguments: tuple[Any, ...]) -> str:
    """What a call gives, as text: value and type, or the exception's type."""
    namespace: dict[str, Any] = {"__name__": "program"}
    exec(compile(source, "<program>", "exec"), namespace)
    try:
        value = namespace[function](*arguments)
        return repr(list(value) if hasattr(value, "__next__") else value)
    except Exception as error:
        return type(error).__name__


@pytest.mark.parametrize(
    ("name", "body", "expected"),
    [
        ("comparisons mirrored", "return a < b", "return b > a"),
        ("comparisons mirrored", "return 0 <= a", "return a >= 0"),
        ("comparisons negated", "return not a == b", "return a != b"),
        ("comparisons negated", "return a not in b", "return not a in b"),
        ("None compared first", "return a is None", "return None is a"),
        ("conditional expressions", "if a:\n  return 1\n else:\n  return 2",
         "return 1 if a else 2"),
        ("conditional expressions", "if a:\n  x = 1\n else:\n  x = 2\n return x",
         "x = 1 if a else 2\n return x"),
        ("if statements", "return 1 if a else 2", "if a:\n     return 1\n else:\n     return 2"),
        ("else after return", "if a:\n  return 1\n b += 1\n return b",
         "if a:\n     return 1\n else:\n     b += 1\n     return b"),
        ("no else after return", "if a:\n  return 1\n elif b:\n  return 2\n else:\n  return 3",
         "if a:\n     return 1\n if b:\n     return 2\n else:\n     return 3"),
        ("single return", "if a:\n  return 1\n return 2",
         "if a:\n     answer = 1\n else:\n     answer = 2\n return answer"),
        ("format calls", "return f'{{{a!r:>3}}} of {b}'",
         "return '{{{!r:>3}}} of {}'.format(a, b)"),
        ("f-strings", "return '{:>3} of {}'.format(a, b)", "return f'{a:>3} of {b}'"),
        ("loops", "return [x + b for x in a if x]",
         "collected = []\n for x in a:\n     if x:\n         collected.append(x + b)\n"
         " return collected"),
        ("comprehensions", "r = []\n for x in a:\n  if x:\n   r.append(x + b)\n return r",
         "r = [x + b for x in a if x]\n return r"),
        ("locals renamed", "x = a\n return [y for y in x] + [f'{x}']",
         "x_value = a\n return [y_value for y_value in x_value] + [f'{x_value}']"),
        ("other quotes", "return 'a' + \"b\" + 'it\\'s'", "return \"a\" + 'b' + 'it\\'s'"),
        ("docstrings removed", "'''Say.'''\n return a", "return a"),
        ("docstrings added", "return a", "'Does what its name says.'\n return a"),
    ],
)  # fmt: skip
def test_each_idea_is_applied(name: str, body: str, expected: str) -> None:
    made = by_name(f"def f(a, b):\n {body}\n")[name]
    wanted = f"def f(a, b):\n {expected}\n"
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(wanted))
    if name not in ("docstrings added", "other quotes"):
        assert "\n".join(line.rstrip() for line in made.split("\n")).count("#") == 0


def test_only_what_is_rewritten_changes() -> None:
    source = "def f(a, b):  # kept\n    if a < b:   # here\n        return 'x'\n    return  'y'\n"
    made = by_name(source)
    assert made["comparisons mirrored"] == source.replace("a < b", "b > a")
    assert made["other quotes"] == source.replace("'", '"')
    assert made["other indentation"] == source.replace("    ", " " * 8)
    assert made["reformatted"] == ast.unparse(ast.parse(source)) + "\n"


PRIVATE = "def _help(x):\n    return x + 1\n\n\ndef f(a):\n    return _help(_help(a))\n"


def test_private_helpers_are_renamed_unless_kept_or_mentioned() -> None:
    made = by_name(PRIVATE)["private helpers renamed"]
    assert "_help(" not in made
    assert made.count("_help_inner(") == 3
    assert "private helpers renamed" not in by_name(PRIVATE, ("_help",))
    for line in ("NAME = '_help'", "class C:\n    _help = 1", "def g(_help):\n    pass"):
        assert "private helpers renamed" not in by_name(f"{PRIVATE}\n\n{line}\n")


@pytest.mark.parametrize(
    "line",
    [
        "import inspect",
        "from inspect import getsource",
        "def g(a):\n    return locals()",
        "def g(a):\n    return eval('a')",
        "def g(a):\n    return g.__code__",
        "def g(a):\n    return getattr(g, '__doc__')",
        "def g(a):\n    return open(__file__).read()",
    ],
)
def test_a_program_that_looks_at_itself_is_left_alone(line: str) -> None:
    assert rewrites(f"{line}\n\n\ndef f(a, b):\n    x = a < b\n    return x\n") == []


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("comparisons mirrored", "import numpy\ndef f(a, b):\n    return a < b\n"),
        ("comparisons mirrored", "def f(a, b):\n    return g() < b\n"),
        ("comparisons mirrored", "def f(a, b):\n    return a < b\nclass C:\n"
         "    def __lt__(self, o):\n        return 1\n"),
        ("comparisons mirrored", "def f(a, b):\n    try:\n        return a < b\n"
         "    except TypeError as e:\n        return str(e)\n"),
        ("locals renamed", "def f(a):\n    global x\n    x = a\n    return x\n"),
        ("locals renamed", "def f(a):\n    a = a + 1\n    return a\n"),
        ("locals renamed", "def f(a):\n    import os as x\n    x = a\n    return x\n"),
        ("locals renamed", "max_ = max\ndef f(a):\n    return [max for max in a] + [max(a)]\n"),
        ("locals renamed", "def f(a):\n    x = a\n    class C:\n        x = x\n    return C.x\n"),
        ("locals renamed", "def f(a):\n    try:\n        x = y = a\n        return x\n"
         "    except NameError as y:\n        return str(y)\n"),
        ("loops", "def f(a):\n    g = [lambda: x for x in a]\n    return [h() for h in g]\n"),
        ("loops", "x = 1\ndef f(a):\n    return [x for x in a] + [x]\n"),
        ("loops", "def f(a, x):\n    b = [x for x in a]\n    return b, x\n"),
        ("comprehensions", "def f(a):\n    r = []\n    for x in a:\n        r.append(x)\n"
         "    return r, x\n"),
        ("comprehensions", "def f(a):\n    r = []\n    for x in a:\n        r.append(len(r))\n"
         "    return r\n"),
        ("comprehensions", "def f(a):\n    r = []\n    try:\n        r = []\n        for x in a:\n"
         "            r.append(1 // x)\n    except ZeroDivisionError:\n        pass\n"
         "    return r\n"),
        ("format calls", "def f(a):\n    return f'{a.pop()} {len(a)}'\n"),
        ("format calls", "def f(a, b):\n    return f'{a:{b}}'\n"),
        ("f-strings", "def f(a, b):\n    return '{1} {0}'.format(a, b)\n"),
        ("f-strings", "def f(a, b):\n    return '{}'.format(a, b)\n"),
    ],
)  # fmt: skip
def test_what_could_change_the_meaning_is_declined(name: str, source: str) -> None:
    assert name not in by_name(source)


# Functions that are easy to rewrite wrongly, each with the arguments it takes.
TRICKY = {
    "def f(a, n):\n    x = n\n    def g(y):\n        nonlocal x\n        x += y\n        return x\n"
    "    return [g(v) for v in a], x\n",
    "def f(a, n):\n    x = [i for i in a]\n    g = lambda i: i + len(x)\n"
    "    return [g(i) for i in x if (m := i) > n], x\n",
    "def f(a, n):\n    for i, v in enumerate(a):\n        if v < n: return i\n"
    "        elif v == n: continue\n        else:\n            w = v\n"
    "    return None if not a else w\n",
    "def f(a, n):\n    r = []\n    for x in a:\n        if x is not None and not x in r:\n"
    "            r.append(x)\n    return f'{r} {n:>4} {{}}' if n > 2 else '{}|{!r}'.format(r, n)\n",
    "def f(a, n):\n    while a:\n        x = a.pop()\n        if x > n:\n            return x\n"
    "        yield x\n    yield -1\n",
    "def f(a, n=0):\n    if n > 3: raise ValueError(n)\n    try:\n        y = a[n]\n"
    "    except IndexError:\n        y = None\n    if y is None:\n        return 'none'\n"
    "    else:\n        return 'it\"s' 'x'\n",
    "k = 3\ndef f(a, n, x=k):\n    k = x\n"
    "    return sorted([k * v for v in a], key=lambda v: -v)[:n]\n",
    "def _h(v): return [v, v]\ndef f(a, n):\n    t = 0\n    for v in a:\n        u = _h(v)\n"
    "        t = t + u[0] if v < n else t - u[1]\n    del v\n    return t\n",
}


@pytest.mark.parametrize("source", sorted(TRICKY))
@given(a=st.lists(st.integers(-5, 5), max_size=5), n=st.integers(-5, 5))
@settings(max_examples=25, deadline=None)
def test_tricky_functions_behave_the_same(source: str, a: list[int], n: int) -> None:
    made = rewrites(source)
    assert len(made) >= 5
    expected = behaviour(source, "f", (list(a), n))
    for rewrite in made:
        assert behaviour(rewrite.source, "f", (list(a), n)) == expected, rewrite.name


class Programs:
    """Random small functions over a list `a` and a number `n`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names = ["n"]

    def source(self) -> str:
        body = [*self.block(1, 4), f"    return {self.value()}"]
        return "def _help(v):\n    return v % 7\n\n\ndef f(a, n):\n" + "\n".join(body) + "\n"

    def block(self, depth: int, size: int) -> list[str]:
        return [line for _ in range(size) for line in self.statement(depth)]

    def statement(self, depth: int) -> list[str]:
        rng, tab = self.rng, "    " * depth
        kind = rng.randrange(9 if depth < 4 else 3)
        if kind <= 1:
            name = rng.choice("uvwxyz")
            line = f"{tab}{name} = {self.value()}"
            self.names.append(name)
            return [line]
        if kind == 2:
            name = rng.choice([name for name in self.names if name.isidentifier()])
            return [f"{tab}{name} {rng.choice('+-')}= 1"]
        if kind == 3:
            item, name = rng.choice("ijk"), rng.choice("rs")
            test = f"if {item} < {self.atom()}" if rng.random() < 0.5 else "if True"
            self.names += [f"len({name})", f"sum({name})"]
            return [f"{tab}{name} = []", f"{tab}for {item} in a:", f"{tab}    {test}:",
                    f"{tab}        {name}.append({item} + {self.atom()})"]  # fmt: skip
        if kind == 4:
            name = rng.choice("rs")
            line = f"{tab}{name} = [i * {self.atom()} for i in a if {self.test('i')}]"
            self.names += [f"len({name})"]
            return [line]
        if kind == 5:
            return [f"{tab}for {rng.choice('pq')} in range(3):", *self.block(depth + 1, 2)]
        lines = [f"{tab}if {self.test(self.atom())}:", *self.block(depth + 1, 1)]
        if rng.random() < 0.4:
            lines.append(f"{tab}    return {self.value()}")
        if rng.random() < 0.5:
            lines += [f"{tab}else:", *self.block(depth + 1, 1)]
            if rng.random() < 0.4:
                lines.append(f"{tab}    return {self.value()}")
        return lines

    def test(self, item: str) -> str:
        kinds = (f"{item} < {self.atom()}", f"not {item} == {self.atom()}", f"{item} in a",
                 f"{item} is not None", f"{item} >= 2 and {item} != n")  # fmt: skip
        return self.rng.choice(kinds)

    def atom(self) -> str:
        return self.rng.choice([*self.names, "n", str(self.rng.randrange(4))])

    def value(self) -> str:
        one, two = self.atom(), self.atom()
        return self.rng.choice(
            (one, f"{one} - {two}", f"_help({one}) * {two}",
             f"{one} if {self.test(two)} else {two}",
             "len(f'{n} {{ {n!r:>3}')", "len('{}-{}'.format(n, n))",
             f"sum([i + {one} for i in a])")
        )  # fmt: skip


@given(
    seed=st.integers(0, 10**9),
    calls=st.lists(
        st.tuples(st.lists(st.integers(-3, 3), max_size=4), st.integers(-3, 3)),
        min_size=3,
        max_size=6,
    ),
)
@settings(max_examples=150, deadline=None)
def test_random_functions_behave_the_same(seed: int, calls: list[tuple[list[int], int]]) -> None:
    source = Programs(random.Random(seed)).source()
    made = rewrites(source)
    assert len(made) >= 4
    for a, n in calls:
        expected = behaviour(source, "f", (list(a), n))
        for rewrite in made:
            got = behaviour(rewrite.source, "f", (list(a), n))
            assert got == expected, f"{rewrite.name}\n{source}\n{rewrite.source}"


def test_every_idea_occurs_among_the_random_functions() -> None:
    names = {
        rewrite.name for seed in range(60)
        for rewrite in rewrites(Programs(random.Random(seed)).source())
    }  # fmt: skip
    assert len(names) >= 17, names


def test_text_that_is_not_python_is_refused() -> None:
    with pytest.raises(ValueError, match="not Python"):
        rewrites("def f(:")
