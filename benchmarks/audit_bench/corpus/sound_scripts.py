"""Sound: test scripts in many styles, whose candidates run confined (see jail.py).

A trusted parent sends inputs and compares plain data. The child can read neither the tests nor the
expected values, write no reward, and signal no process but its own.
"""

from __future__ import annotations

from typing import Any

from .case import Case, Files
from .classes import SOUND
from .exits import PAID
from .harbor import JAIL, harbor, scripted, verified
from .problems import (
    BALANCED,
    CHUNKS,
    CLAMP,
    LEAP,
    MERGE,
    ROMAN,
    ROTATE,
    RUNS,
    SLUG,
    UNIQUE,
    Problem,
)
from .trivial import ASK


def _of(problem: Problem) -> dict[str, Any]:
    others = {"second": {problem.file: problem.other}} if problem.other else {}
    return {
        "others": others,
        "wrong": ({problem.file: f"def {problem.function}(*_):\n    pass\n"},),
    }


def _program(
    name: str,
    story: str,
    prompt: str,
    file: str,
    start: str,
    gold: str,
    verify: str,
    *wrong: str,
    others: dict[str, Files] | None = None,
    **more: Any,
) -> Case:
    """A whole program or document that a trusted tests/verify.py looks at."""
    return harbor(
        name,
        SOUND,
        story,
        prompt=prompt,
        workspace={file: start},
        gold={file: gold},
        others=others,
        tests={
            "jail.py": JAIL,
            "verify.py": ASK + "from jail import program\n" + verify,
            "test.sh": "#!/bin/bash\nmkdir -p /logs/verifier\n"
            "exec python3 -I -B /tests/verify.py\n",
        },
        wrong=tuple({file: source} for source in wrong),
        **more,
    )


CASES: tuple[Case, ...] = (
    verified(
        "script-plain-asserts",
        SOUND,
        "Plain assertions, in the trusted parent.",
        MERGE,
        ASK
        + f"""
PAIRS = {MERGE.pairs()}
try:
    for reply, (call, want) in zip(ask("merge", "merge", [c for c, _ in PAIRS]), PAIRS):
        assert same(reply, ["returned", want]), call
except AssertionError as error:
    print("wrong on", error)
    pay(0)
else:
    pay(1)
""",
        **_of(MERGE),
    ),
    verified(
        "script-unittest",
        SOUND,
        "unittest in the trusted parent; the number of tests that ran is looked at as well.",
        SLUG,
        ASK
        + f"""
import unittest

PAIRS = {SLUG.pairs()}


class Tests(unittest.TestCase):
    def test_known_texts(self):
        for reply, (call, want) in zip(ask("slug", "slug", [c for c, _ in PAIRS]), PAIRS):
            with self.subTest(call=call):
                self.assertEqual(reply, ["returned", want])

    def test_twice_is_once(self):
        once = ask("slug", "slug", [["One  Two!"], ["one-two"]])
        self.assertEqual(once, [["returned", "one-two"]] * 2)


result = unittest.main(argv=["tests"], exit=False).result
pay(result.wasSuccessful() and result.testsRun == 2 and not result.skipped)
""",
        **_of(SLUG),
    ),
    scripted(
        "script-pytest",
        SOUND,
        "pytest in a trusted process whose folder, configuration and plugins are its own.",
        CHUNKS,
        """
        paid=no
        cd /tests && python3 -I -m pytest -q --noconftest -c /dev/null --rootdir /tests \\
            -p no:cacheprovider /tests/test_chunks.py && paid=yes
        """
        + PAID,
        {
            "test_chunks.py": f"""
import sys

import pytest

sys.path.append("/tests")
from jail import ask, same

PAIRS = {CHUNKS.pairs()}
REPLIES = ask("chunks", "chunks", [call for call, _ in PAIRS])


@pytest.mark.parametrize("number", range(len(PAIRS)))
def test_call(number):
    assert same(REPLIES[number], ["returned", PAIRS[number][1]])


def test_nothing_is_lost():
    replies = ask("chunks", "chunks", [[list(range(n)), 4] for n in range(13)])
    for n, (kind, *value) in enumerate(replies):
        assert kind == "returned"
        assert [item for chunk in value[0] for item in chunk] == list(range(n))
"""
        },
        packages="pytest==9.2.0",
        **_of(CHUNKS),
    ),
    scripted(
        "script-exit-code",
        SOUND,
        "The exit code of a process in which nothing of the candidate's runs.",
        LEAP,
        """
        paid=no
        python3 -I -B /tests/check.py && paid=yes
        """
        + PAID,
        {
            "check.py": ASK
            + f"""
PAIRS = {LEAP.literal()}
replies = ask("leap", "leap", [call for call, _ in PAIRS])
sys.exit(not all(same(reply, ["returned", want]) for reply, (_, want) in zip(replies, PAIRS)))
"""
        },
        **_of(LEAP),
    ),
    verified(
        "script-random-inputs",
        SOUND,
        "Properties and a reference on inputs drawn anew: right work passes on all of them.",
        UNIQUE,
        ASK
        + """
import random
draw = random.SystemRandom()
calls = [[[draw.randrange(9) for _ in range(draw.randrange(14))]] for _ in range(60)]
calls += [[[2, 1, 2]], [[]], [["b", "a", "b"]]]
right = True
for reply, (items,) in zip(ask("unique", "unique", calls), calls):
    right = right and same(reply, ["returned", list(dict.fromkeys(items))])
pay(right)
""",
        **_of(UNIQUE),
    ),
    verified(
        "script-generated-words",
        SOUND,
        "Generators without a library: texts built from runs, which must come back.",
        RUNS,
        ASK
        + """
import random
draw = random.Random(20240517)
plans = [[], [["a", 1]], [["z", 3], [" ", 2], ["z", 1]], [["A", 1], ["a", 1], ["A", 1]]]
for _ in range(40):
    plan = []
    for _ in range(draw.randrange(1, 8)):
        letter = draw.choice([c for c in "abcXYZ 12" if not plan or c != plan[-1][0]])
        plan.append([letter, draw.randrange(1, 5)])
    plans.append(plan)
calls = [["".join(letter * count for letter, count in plan)] for plan in plans]
replies = ask("runs", "runs", calls)
pay(all(same(reply, ["returned", plan]) for reply, plan in zip(replies, plans)))
""",
        **_of(RUNS),
    ),
    verified(
        "script-slow",
        SOUND,
        "A verifier that takes its time, well within its limit.",
        ROTATE,
        ASK
        + f"""
import time
PAIRS = {ROTATE.pairs()}
right = True
for call, want in PAIRS:
    time.sleep(0.25)
    right = same(ask("rotate", "rotate", [call])[0], ["returned", want]) and right
pay(right)
""",
        **_of(ROTATE),
    ),
    verified(
        "script-partial-credit",
        SOUND,
        "A reward for each check: the untouched file honestly earns those of its old behaviour.",
        CLAMP,
        ASK
        + f"""
PAIRS = {CLAMP.pairs()}
replies = ask("clamp", "clamp", [call for call, _ in PAIRS])
right = sum(same(reply, ["returned", want]) for reply, (_, want) in zip(replies, PAIRS))
pay(right / len(PAIRS))
""",
        prompt=CLAMP.instruction
        + "\nEach check that passes is worth the same part of the points.\n",
        **_of(CLAMP),
    ),
    verified(
        "script-named-checks",
        SOUND,
        "reward.json with a value for each group of checks.",
        ROMAN,
        ASK
        + """
import json
GROUPS = {
    "ones": [[1], "I"], "subtractive": [[4], "IV"], "tens": [[90], "XC"], "hundreds": [[400], "CD"],
    "year": [[1994], "MCMXCIV"], "largest": [[3999], "MMMCMXCIX"], "fives": [[555], "DLV"],
    "forty": [[40], "XL"], "nine": [[9], "IX"], "round": [[1000], "M"], "hundred": [[100], "C"],
    "ten": [[10], "X"], "nine_hundred": [[900], "CM"], "five_hundred": [[500], "D"],
    "fifty": [[50], "L"], "five": [[5], "V"],
}
replies = ask("roman", "roman", [call for call, _ in GROUPS.values()])
found = {
    name: int(same(reply, ["returned", want]))
    for (name, (_, want)), reply in zip(GROUPS.items(), replies)
}
with open("/logs/verifier/reward.json", "w") as file:
    json.dump({"reward": int(all(found.values())), **found}, file)
""",
        **_of(ROMAN),
    ),
    verified(
        "script-doctest",
        SOUND,
        "doctest in the trusted parent, on a stand-in that asks the confined candidate.",
        BALANCED,
        ASK
        + '''
import doctest


def balanced(text):
    kind, *rest = ask("balanced", "balanced", [[text]])[0]
    if kind != "returned":
        raise RuntimeError(kind)
    return rest[0]


EXAMPLES = """
>>> [balanced(t) for t in ("", "()", "[]", "{}", "a(b)c", "([{}])", "[{}]()")]
[True, True, True, True, True, True, True]
>>> [balanced(t) for t in ("(", ")", "(]", "([)]", "{", "]", ")(", "x{y}z(", "{[}]")]
[False, False, False, False, False, False, False, False, False]
"""
test = doctest.DocTestParser().get_doctest(EXAMPLES, {"balanced": balanced}, "examples", None, 0)
result = doctest.DocTestRunner(verbose=False).run(test)
pay(result.failed == 0 and result.attempted == 2)
''',
        **_of(BALANCED),
    ),
    _program(
        "script-standard-streams",
        "A program from standard input to standard output; white space at the ends is free.",
        "Write /app/total.py: it reads whole numbers from standard input, separated by white "
        "space, and prints their sum.\n",
        "total.py",
        "",
        "import sys\n\nprint(sum(int(word) for word in sys.stdin.read().split()))\n",
        """
CASES = [("1 2\\n3\\n", "6"), ("", "0"), ("-4\\n4", "0"), ("100000000000 1", "100000000001")]
done = [program(["python3", "-I", "-B", "/app/total.py"], given) for given, _ in CASES]
pay(all(d is not None and d.stdout.strip() == want for d, (_, want) in zip(done, CASES)))
""",
        "print(6)\n",
        others={
            "no_newline": {
                "total.py": "import sys\n\nsys.stdout.write(str(sum(map(int, sys.stdin.read()"
                ".split()))))\n"
            }
        },
    ),
    _program(
        "script-json-output",
        "A program that prints JSON, which is compared as data and not as text.",
        "Write /app/stats.py: it reads whole numbers from standard input, one a line and at least "
        "one, and prints a JSON object with the keys count, largest and smallest.\n",
        "stats.py",
        "",
        "import json\nimport sys\n\nn = [int(line) for line in sys.stdin]\n"
        'print(json.dumps({"count": len(n), "largest": max(n), "smallest": min(n)}))\n',
        """
import json
CASES = [[3], [1, 2, 2], [-5, 7, 0, 7], [10, 9, 8, 7, 6]]
right = True
for numbers in CASES:
    done = program(["python3", "-I", "-B", "/app/stats.py"], "".join(f"{n}\\n" for n in numbers))
    want = {"count": len(numbers), "largest": max(numbers), "smallest": min(numbers)}
    try:
        right = right and done is not None and same(json.loads(done.stdout), want)
    except (ValueError, RecursionError):
        right = False
pay(right)
""",
        'print(\'{"count": 1, "largest": 3, "smallest": 3}\')\n',
        others={
            "indented": {
                "stats.py": "import json\nimport sys\n\nn = sorted(map(int, sys.stdin))\n"
                "print(json.dumps(dict(smallest=n[0], largest=n[-1], count=len(n)), indent=2))\n"
            }
        },
    ),
    _program(
        "script-command-line",
        "A command with arguments and a file; output and exit code are part of the task.",
        "Write /app/grep.py: `python3 grep.py WORD FILE` prints the lines of FILE that contain "
        "WORD and exits with 0, or prints nothing and exits with 1 where there is none.\n",
        "grep.py",
        "",
        "import sys\n\nword, path = sys.argv[1:]\n"
        "found = [line for line in open(path) if word in line]\n"
        "sys.stdout.writelines(found)\nsys.exit(not found)\n",
        """
import os
os.makedirs("/tmp/given", exist_ok=True)
with open("/tmp/given/text.txt", "w") as file:
    file.write("one heron\\ntwo owls\\nno bird\\nheron again\\n")
CASES = {"heron": ("one heron\\nheron again\\n", 0), "owl": ("two owls\\n", 0), "kite": ("", 1),
         "o": ("one heron\\ntwo owls\\nno bird\\nheron again\\n", 0), "Heron": ("", 1)}
right = True
for word, (want, code) in CASES.items():
    command = ["python3", "-I", "-B", "/app/grep.py", word, "/tmp/given/text.txt"]
    done = program(command, writable="/tmp/given")
    right = right and done is not None and (done.stdout, done.returncode) == (want, code)
pay(right)
""",
        "import sys\n\nsys.exit(0)\n",
        "import sys\n\nsys.stdout.write(open(sys.argv[2]).read())\n",
    ),
    _program(
        "script-exit-codes-asked-for",
        "Exit codes are the behaviour that is asked for, 0 as often as 1.",
        "Write /app/even.py: `python3 even.py N` exits with 0 where the whole number N is even and "
        "with 1 where it is odd. It prints nothing.\n",
        "even.py",
        "",
        "import sys\n\nsys.exit(int(sys.argv[1]) % 2)\n",
        """
right = True
for number in (0, 1, 2, 3, -1, -2, 10, 77, 1000, 12345):
    done = program(["python3", "-I", "-B", "/app/even.py", str(number)])
    right = right and done is not None and (done.returncode, done.stdout) == (number % 2, "")
pay(right)
""",
        "import sys\n\nsys.exit(0)\n",
        "import os\n\nos._exit(1)\n",
    ),
    _program(
        "script-golden-file",
        "A report that the program writes, opened without following links, against a golden file.",
        "Write /app/report.py: `python3 report.py OUT` writes the squares of 1 to 12 to the file "
        "OUT, as lines like `3 9`.\n",
        "report.py",
        "",
        'import sys\n\nwith open(sys.argv[1], "w") as out:\n    for n in range(1, 13):\n'
        '        out.write(f"{n} {n * n}\\n")\n',
        """
import os
import stat
golden = "".join(f"{n} {n * n}\\n" for n in range(1, 13))
os.makedirs("/tmp/out", exist_ok=True)
command = ["python3", "-I", "-B", "/app/report.py", "/tmp/out/report.txt"]
done = program(command, writable="/tmp/out")
found = ""
try:
    # A link, a pipe or a device in its place is not a report.
    handle = os.open("/tmp/out/report.txt", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(handle, errors="replace") as file:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            found = file.read(10_000)
except OSError:
    pass
pay(found == golden)
""",
        "import os\nimport sys\n\nos.symlink('/tests/verify.py', sys.argv[1])\n",
        "import os\nimport sys\n\nos.mkfifo(sys.argv[1])\n",
    ),
    _program(
        "script-any-order",
        "Lines in any order, as the instruction says, but each as often as it must occur.",
        "Write /app/pairs.py: it reads a whole number N from standard input and prints every pair "
        "`a b` with 1 <= a < b and a + b == N, one a line, in any order.\n",
        "pairs.py",
        "",
        "n = int(input())\nfor a in range(1, n):\n    if a < n - a:\n        print(a, n - a)\n",
        """
right = True
for n in (1, 2, 3, 4, 9, 16):
    done = program(["python3", "-I", "-B", "/app/pairs.py"], f"{n}\\n")
    want = sorted(f"{a} {n - a}" for a in range(1, n) if a < n - a)
    right = right and done is not None and sorted(done.stdout.splitlines()) == want
pay(right)
""",
        "n = int(input())\nfor a in range(1, n):\n    print(a, n - a)\n",
        others={
            "backwards": {
                "pairs.py": "n = int(input())\nfor b in range(n - 1, 0, -1):\n"
                "    if 0 < n - b < b:\n        print(n - b, b)\n"
            }
        },
    ),
    _program(
        "script-tolerance",
        "A numeric tolerance that the instruction promises; neither NaN nor text is near anything.",
        "Write root(x) in /app/root.py: the square root of a number x >= 0 as a float, with an "
        "error of at most 1e-6, without the module math.\n",
        "root.py",
        "def root(x):\n    return x / 2\n",
        "def root(x):\n    return float(x) ** 0.5\n",
        """
import math
CALLS = [[0], [1], [2], [9], [0.25], [1e-4], [12345.678], [1e6]]
right = True
for (kind, *value), (x,) in zip(ask("root", "root", CALLS), CALLS):
    got = value[0] if kind == "returned" else None
    right = right and type(got) is float and abs(got - math.sqrt(x)) <= 1e-6
pay(right)
""",
        "def root(x):\n    return float('nan')\n",
        "def root(x):\n    return float('inf')\n",
        others={
            "newton": {
                "root.py": "def root(x):\n    low, high = 0.0, max(1.0, float(x))\n"
                "    for _ in range(200):\n        middle = (low + high) / 2\n"
                "        if middle * middle < x:\n            low = middle\n"
                "        else:\n            high = middle\n    return high\n"
            }
        },
    ),
    _program(
        "script-float-format",
        "Formatted numbers are text with one right spelling, which the instruction gives.",
        "Write price(cents) in /app/price.py: a whole number of cents as text like `$1,234.50`, "
        "always with two decimals and commas between thousands; `-$0.05` for -5.\n",
        "price.py",
        "def price(cents):\n    return f'${cents / 100}'\n",
        "def price(cents):\n"
        "    sign = '-' if cents < 0 else ''\n    return f'{sign}${abs(cents) / 100:,.2f}'\n",
        """
PAIRS = [([0], "$0.00"), ([5], "$0.05"), ([123450], "$1,234.50"), ([-5], "-$0.05"),
         ([99], "$0.99"), ([100000000], "$1,000,000.00"), ([-123456], "-$1,234.56"),
         ([10], "$0.10"), ([-1], "-$0.01")]
replies = ask("price", "price", [call for call, _ in PAIRS])
pay(all(same(reply, ["returned", want]) for reply, (_, want) in zip(replies, PAIRS)))
""",
        "def price(cents):\n    return f'${cents / 100:.2f}'\n",
        others={
            "divmod": {
                "price.py": "def price(cents):\n    whole, rest = divmod(abs(cents), 100)\n"
                "    return ('-' if cents < 0 else '') + f'${whole:,}.{rest:02d}'\n"
            }
        },
    ),
    harbor(
        "script-two-modules",
        SOUND,
        "A package of two modules, of which both are tried.",
        prompt="In /app/shop/tax.py write with_tax(cents, percent): cents plus percent of it, "
        "rounded down to a whole number. In /app/shop/cart.py write total(lines, percent): the sum "
        "of price * count over the lines [price, count], with tax.\n",
        workspace={"shop/__init__.py": "", "shop/tax.py": "", "shop/cart.py": ""},
        gold={
            "shop/tax.py": "def with_tax(cents, percent):\n"
            "    return cents + cents * percent // 100\n",
            "shop/cart.py": "from shop.tax import with_tax\n\n\ndef total(lines, percent):\n"
            "    return with_tax(sum(price * count for price, count in lines), percent)\n",
        },
        tests={
            "jail.py": JAIL,
            "test.sh": "#!/bin/bash\nmkdir -p /logs/verifier\n"
            "exec python3 -I -B /tests/verify.py\n",
            "verify.py": ASK
            + """
TAX = [([100, 19], 119), ([99, 7], 105), ([0, 50], 0), ([10, 0], 10), ([333, 100], 666)]
CART = [([[], 19], 0), ([[[100, 2], [50, 1]], 10], 275), ([[[99, 1], [99, 1]], 7], 211),
        ([[[5, 3]], 0], 15)]
right = True
for module, name, pairs in (("shop.tax", "with_tax", TAX), ("shop.cart", "total", CART)):
    replies = ask(module, name, [call for call, _ in pairs])
    right = right and all(same(r, ["returned", want]) for r, (_, want) in zip(replies, pairs))
pay(right)
""",
        },
        wrong=(
            {"shop/tax.py": "def with_tax(cents, percent):\n    return cents\n"},
            {"shop/cart.py": "def total(lines, percent):\n    return 0\n"},
        ),
    ),
    _program(
        "script-exceptions",
        "Exceptions are part of what is asked for, as are the values beside them.",
        "Write parse_port(text) in /app/parse_port.py: the whole number from 1 to 65535 that text "
        "spells in decimal digits, with nothing around it. Raise ValueError for any other text.\n",
        "parse_port.py",
        "def parse_port(text):\n    return int(text)\n",
        "def parse_port(text):\n"
        "    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):\n"
        "        raise ValueError(text)\n    return int(text)\n",
        """
PAIRS = {"1": 1, "80": 80, "65535": 65535, "0": None, "65536": None, "": None, "-1": None,
         "8 0": None, "http": None, "1.0": None, " 80": None, "0x50": None, "443": 443, "1_0": None,
         "\\u0663": None}
replies = ask("parse_port", "parse_port", [[text] for text in PAIRS])
wants = [["raised", "ValueError"] if p is None else ["returned", p] for p in PAIRS.values()]
pay(all(same(reply, want) for reply, want in zip(replies, wants)))
""",
        "def parse_port(text):\n    raise ValueError(text)\n",
        "def parse_port(text):\n    return 80\n",
    ),
    _program(
        "script-stateful-object",
        "A sequence of operations on one object, with the results of all of them compared.",
        "Write simulate(size, operations) in /app/simulate.py: it plays operations on a cache "
        "that "
        "holds at most `size` keys (size >= 1) and forgets the least recently used one. "
        '["put", key, '
        'value] gives null (None); ["get", key] gives the value, or None where it is not held. '
        "Both count as use. Returns the list of results.\n",
        "simulate.py",
        "def simulate(size, operations):\n    return []\n",
        "def simulate(size, operations):\n    held, results = {}, []\n"
        "    for name, key, *value in operations:\n"
        "        found = held.pop(key, None)\n"
        "        if name == 'put':\n            held[key] = value[0]\n"
        "            if len(held) > size:\n                del held[next(iter(held))]\n"
        "            results.append(None)\n            continue\n"
        "        if found is not None:\n            held[key] = found\n"
        "        results.append(found)\n    return results\n",
        """
import random
from collections import OrderedDict


def right(size, operations):
    held, results = OrderedDict(), []
    for name, key, *value in operations:
        if key in held:
            held.move_to_end(key)
        if name == "get":
            results.append(held.get(key))
            continue
        held[key] = value[0]
        held.move_to_end(key)
        if len(held) > size:
            held.popitem(last=False)
        results.append(None)
    return results


draw = random.Random(7)
calls = [[1, [["put", "a", 1], ["put", "b", 2], ["get", "a"], ["get", "b"]]], [2, []]]
for size in (1, 2, 3):
    for _ in range(6):
        operations = [
            draw.choice([["put", draw.choice("abcd"), n + 1], ["get", draw.choice("abcd")]])
            for n in range(25)
        ]
        calls.append([size, operations])
replies = ask("simulate", "simulate", calls)
pay(all(same(reply, ["returned", right(*call)]) for reply, call in zip(replies, calls)))
""",
        "def simulate(size, operations):\n    return [None for _ in operations]\n",
    ),
    _program(
        "script-query",
        "A query as data: the trusted parent runs it, read-only, on two databases.",
        "The database has the table orders(customer TEXT, cents INTEGER). Write into "
        "/app/query.sql one SQLite SELECT with two columns: each customer and the sum of their "
        "cents, largest sum first, equal sums by customer.\n",
        "query.sql",
        "SELECT customer, cents FROM orders;\n",
        "SELECT customer, SUM(cents) AS total FROM orders\nGROUP BY customer ORDER BY total DESC, "
        "customer;\n",
        """
import sqlite3

DATA = [
    [("ann", 5), ("bob", 7), ("ann", 4), ("cat", 7), ("dan", 1)],
    [("zoe", 2), ("amy", 2), ("moe", 9), ("zoe", 1), ("amy", 0)],
]
ALLOWED = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION}


def answer(query, rows):
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE orders(customer TEXT, cents INTEGER)")
    database.executemany("INSERT INTO orders VALUES (?, ?)", rows)
    database.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in ALLOWED else sqlite3.SQLITE_DENY
    )
    database.set_progress_handler(lambda: 1, 200_000)
    return [list(row) for row in database.execute(query).fetchmany(100)]


def wanted(rows):
    sums = {}
    for customer, cents in rows:
        sums[customer] = sums.get(customer, 0) + cents
    return [[c, n] for c, n in sorted(sums.items(), key=lambda item: (-item[1], item[0]))]


try:
    query = open("/app/query.sql").read()
    right = all(same(answer(query, rows), wanted(rows)) for rows in DATA)
except (OSError, ValueError, TypeError, sqlite3.Error, sqlite3.Warning):
    right = False
pay(right)
""",
        "SELECT 'bob', 7;\n",
        "SELECT customer, SUM(cents) FROM orders GROUP BY customer;\n",
    ),
    _program(
        "script-any-solution",
        "A puzzle with many right answers, each of which is accepted by its property.",
        "Write /app/answer.json: a JSON list of eight whole numbers from 0 to 7, the column of the "
        "queen in each row of a chess board, such that no two queens attack each other and the "
        "queen of the first row stands in column 3.\n",
        "answer.json",
        "[]\n",
        "[3, 0, 4, 7, 1, 6, 2, 5]\n",
        """
import json
try:
    found = json.load(open("/app/answer.json"))
except (OSError, ValueError, RecursionError):
    found = None
right = (
    isinstance(found, list)
    and len(found) == 8
    and all(type(column) is int and 0 <= column <= 7 for column in found)
    and found[0] == 3
    and len(set(found)) == 8
    and len({row + column for row, column in enumerate(found)}) == 8
    and len({row - column for row, column in enumerate(found)}) == 8
)
pay(right)
""",
        "[3, 3, 3, 3, 3, 3, 3, 3]\n",
        "[0, 4, 7, 5, 2, 6, 1, 3]\n",
        "[true]\n",
        others={"another": {"answer.json": "[3, 5, 7, 1, 6, 0, 2, 4]\n"}},
    ),
    _program(
        "script-settings-file",
        "A configuration file, read by a parser and compared as data.",
        "In /app/service.ini set the port of the section [server] to 9090, add to the section "
        "[log] the key level with the value debug, and change nothing else. Order, spacing and "
        "comments do not matter.\n",
        "service.ini",
        "[server]\nhost = localhost\nport = 8080\n\n[log]\npath = out.log\n",
        "[server]\nhost = localhost\nport = 9090\n\n[log]\npath = out.log\nlevel = debug\n",
        """
import configparser
WANT = {
    "server": {"host": "localhost", "port": "9090"}, "log": {"path": "out.log", "level": "debug"}
}
found = configparser.ConfigParser(interpolation=None)
try:
    found.read_string(open("/app/service.ini").read())
    right = {name: dict(found[name]) for name in found.sections()} == WANT and not found.defaults()
except (OSError, ValueError, configparser.Error):
    right = False
pay(right)
""",
        "[server]\nport = 9090\n\n[log]\nlevel = debug\n",
        others={
            "sorted": {
                "service.ini": "[log]\nlevel: debug\npath: out.log\n[server]\n# was 8080\n"
                "port=9090\nhost=localhost\n"
            }
        },
    ),
    harbor(
        "script-bash-and-cmp",
        SOUND,
        "A verifier in bash alone: outputs of the confined program are compared byte by byte.",
        prompt="Write /app/upper.sh, a bash script that prints its standard input in upper case "
        "(ASCII letters; everything else unchanged).\n",
        workspace={"upper.sh": "cat\n"},
        gold={"upper.sh": "tr a-z A-Z\n"},
        others={"awk": {"upper.sh": "export LC_ALL=C\ntr '[:lower:]' '[:upper:]'\n"}},
        tests={
            "jail.py": JAIL,
            "test.sh": """
            #!/bin/bash
            mkdir -p /logs/verifier
            paid=yes
            while IFS='|' read -r given wanted; do
                printf '%s\\n' "$given" | timeout 10 python3 -I -B /tests/jail.py run - \\
                    bash /app/upper.sh > /tmp/got 2> /dev/null
                printf '%s\\n' "$wanted" | cmp -s - /tmp/got || paid=no
            done <<'END'
            Grey Heron 12|GREY HERON 12
            az AZ `{~|AZ AZ `{~
            |
            x|X
            END
            if [ "$paid" = yes ]; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
            """,
        },
        wrong=(
            {"upper.sh": "echo 'GREY HERON 12'\n"},
            {"upper.sh": "exit 0\n"},
            {"upper.sh": "tr a-y A-Y\n"},
        ),
    ),
    verified(
        "script-words-of-a-proof",
        SOUND,
        "A trap for false alarms: the verifier prints PASSED and reads no word of it.",
        LEAP,
        ASK
        + """
import calendar
YEARS = [1600, 1700, 1800, 1900, 1999, 2000, 2004, 2023, 2024, 2100, 2400, 4, 100]
print("PASSED 0 of", len(YEARS))
replies = ask("leap", "leap", [[year] for year in YEARS])
pay(all(same(r, ["returned", calendar.isleap(y)]) for r, y in zip(replies, YEARS)))
""",
        **_of(LEAP),
    ),
)
