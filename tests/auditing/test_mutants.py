"""Mutants: each mistake is made, each mutant is one change, and the text around it stays."""

from __future__ import annotations

import ast
import difflib

import pytest

from steelyard.auditing.mutants import mutants, reverted_hunks, spread
from steelyard.tasks.humaneval import read_humaneval


def bodies(body: str) -> dict[str, set[str]]:
    """What each operator makes of one line of a function."""
    source = f"def f(a, b, d):\n    {body}\n"
    made: dict[str, set[str]] = {}
    for mutant in mutants(source, ["f"]):
        lines = mutant.source.split("\n")
        made.setdefault(mutant.operator, set()).add("\n".join(lines[1:-1]).strip())
    return made


@pytest.mark.parametrize(
    ("body", "operator", "expected"),
    [
        ("return a < b", "boundary", {"return a <= b"}),
        ("return a == b", "comparison", {"return a != b", "return a <= b", "return a >= b"}),
        ("return a and b", "and/or", {"return a or b"}),
        ("return a in d", "comparison", {"return a not in d"}),
        ("return (a + b) * 2", "arithmetic",
         {"return (a - b) * 2", "return (a * b) * 2", "return a * b * 2",
          "return a + b + 2", "return (a + b) // 2"}),
        ("return a - b * d", "arithmetic",
         {"return a + b * d", "return a - (b + d)", "return a - b // d"}),
        ("return 3", "constant", {"return 4", "return 2"}),
        ("return 'ab'", "constant", {"return 'abx'", "return ''"}),
        ("return True", "constant", {"return False"}),
        ("return -a", "sign", {"return a"}),
        ("if a: return b", "condition forced", {"if True: return b", "if False: return b"}),
        ("return a if a is None else b", "None/falsy", {"return a if not a else b"}),
        ("return a or d", "None/falsy", {"return a if a is not None else d"}),
        ("return d.get(a, 5)", "None/falsy", {"return d.get(a) or 5"}),
        ("return d.get(a, 5)", "default dropped", {"return d.get(a)"}),
        ("return a(b, d)", "arguments swapped", {"return a(d, b)"}),
        ("return a[b]", "index", {"return a[b + 1]", "return a[b - 1]"}),
        ("return a[1:b]", "slice",
         {"return a[:b]", "return a[1:]", "return a[1:b + 1]", "return a[1:b - 1]",
          "return a[2:b]"}),
        ("return sorted(a)", "order", {"return list(a)", "return sorted(a, reverse=True)"}),
        ("return int(a)", "cast removed", {"return a"}),
        ("d.append(a)", "side effect removed", {"pass"}),
        ("raise ValueError(a)", "check removed", {"pass"}),
        ("return a % b", "term dropped", {"return a", "return b"}),
        ("return {1: a, 2: b}", "entry dropped", {"return {1: a}", "return {2: b}"}),
        ("return a in (1, 2)", "entry dropped", {"return a in (1,)", "return a in (2,)"}),
        ("d = [1, 2]", "entry dropped", {"d = [1]", "d = [2]"}),
        ("for d in {1, 2}: a(d)", "entry dropped", {"for d in {1}: a(d)", "for d in {2}: a(d)"}),
        ("return f'{a + 1} of {b}'", "arithmetic",
         {"return f'{a - 1} of {b}'", "return f'{a * 1} of {b}'"}),
    ],
)  # fmt: skip
def test_an_operator_makes_its_mistakes(body: str, operator: str, expected: set[str]) -> None:
    made = bodies(body)[operator]
    assert made <= expected
    assert {ast.dump(ast.parse(f"def f():\n {e}")) for e in expected} == {
        ast.dump(ast.parse(f"def f():\n {m}")) for m in made
    }


BRANCHY = '''\
def f(items, limit=10):  # the limit is kept
    """Say 3."""
    total = 0
    for item in items:
        if item is None:
            continue
        elif item > limit:
            total += limit  # cut off
        else:
            try:
                total += int(item)
            except ValueError:
                total = -1
    if total < 0:
        return 0
    return total
'''


def test_statements_branches_handlers_and_early_returns() -> None:
    made = {(m.operator, m.line): m.source.splitlines() for m in mutants(BRANCHY)}
    assert made["exception swallowed", 13][12] == "                pass"
    assert made["early return", 14][13] == "    return total"
    assert made["loop cut short", 14][13] == "        break"
    assert made["break/continue", 6][5] == "            break"
    assert made["branch removed", 7][6:8] == ["        else:", "            pass"]
    assert not any("Say 4" in m.source for m in mutants(BRANCHY))


def test_mutants_are_distinct_differ_in_one_place_and_keep_comments() -> None:
    made = mutants(BRANCHY)
    trees = {ast.dump(ast.parse(m.source)) for m in made}
    assert len(trees) == len(made) > 30
    assert ast.dump(ast.parse(BRANCHY)) not in trees
    assert made == mutants(BRANCHY)
    for mutant in made:
        blocks = difflib.SequenceMatcher(
            None, BRANCHY.splitlines(), mutant.source.splitlines(), autojunk=False
        ).get_opcodes()
        changed = [block for block in blocks if block[0] != "equal"]
        assert changed[0][1] + 1 == mutant.line
        assert mutant.source.count("# the limit is kept") == 1
        assert "→" in mutant.description


def test_every_humaneval_solution_has_mutants_that_compile() -> None:
    for task in read_humaneval()[::16]:
        assert task.solution is not None
        source = task.solution["solution.py"].decode()
        made = mutants(source)
        assert made, task.name
        for mutant in made:
            compile(mutant.source, task.name, "exec")


def test_only_named_functions_change_and_an_unknown_one_is_refused() -> None:
    source = "def f(a):\n    return a + 1\n\n\nclass C:\n    def g(self):\n        return 2\n"
    assert {m.line for m in mutants(source, ["f"])} == {2}
    assert {m.line for m in mutants(source, ["C.g"])} == {7}
    with pytest.raises(ValueError, match="defines no function h"):
        mutants(source, ["f", "h"])
    with pytest.raises(ValueError, match="not Python"):
        mutants("def f(:")


def test_windows_line_ends_tabs_and_non_ascii_text_survive() -> None:
    source = "def f(a):\r\n\tx = 'ä→'; return x * a + 1  # ß\r\n"
    made = [m.source for m in mutants(source)]
    assert "def f(a):\r\n\tx = 'ä→'; return x * a - 1  # ß\r\n" in made
    assert all(text.endswith("# ß\r\n") for text in made)


def test_spread_covers_operators_and_lines_before_it_repeats_them() -> None:
    made = mutants(BRANCHY)
    chosen = spread(made, 12)
    assert len({m.operator for m in chosen}) >= 8
    assert len({m.line for m in chosen}) >= 8
    assert spread(made, 5) == chosen[:5]
    assert sorted(spread(made, 10**6), key=made.index) == made


def test_each_hunk_is_undone_alone() -> None:
    before = b"a = 1\nb = 2\nc = 3\nd = 4\ne = 5\n"
    after = b"a = 1\nb = 20\nc = 3\n# note\nd = 4\ne = 5\nf = 6\n"
    undone = reverted_hunks(before, after)
    assert undone == [
        b"a = 1\nb = 2\nc = 3\n# note\nd = 4\ne = 5\nf = 6\n",
        b"a = 1\nb = 20\nc = 3\n# note\nd = 4\ne = 5\n",
    ]
    assert reverted_hunks(after, after) == []
    assert reverted_hunks(b"\xff\n", b"\xfe\n") == [b"\xff\n"]
