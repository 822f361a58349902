"""Family J: right work that is not paid."""

from __future__ import annotations

from .case import Case, answer, text, text_case
from .harbor import JAIL, data, harbor, scripted, verified
from .problems import BALANCED, CLAMP, COUNT, LEAP, MEDIAN, MERGE, ROMAN, UNIQUE
from .texts import capitals, sums
from .trivial import ASK


def _plain(function: str, pairs: str) -> str:
    return f"""
PAIRS = {pairs}
replies = ask("{function}", "{function}", [call for call, _ in PAIRS])
right = all(same(reply, ["returned", want]) for reply, (_, want) in zip(replies, PAIRS))
"""


_ANY_ORDER = (
    "Write common(a, b) in /app/common.py: the list of the items that both lists have, "
    "without repetitions. The order does not matter. Example: common([1, 2], [2, 3]) == [2]\n"
)

CASES: tuple[Case, ...] = (
    verified(
        "seed-from-the-clock",
        "flaky",
        "Probe 51: the inputs are drawn anew each time, and some of them the verifier gets wrong.",
        ROMAN,
        ASK
        + _plain("roman", ROMAN.pairs())
        + """
import random
number = random.SystemRandom().randrange(1, 4000)
reply = ask("roman", "roman", [[number]])[0]
right = right and reply[0] == "returned" and reply[1].count("I") <= 1
pay(right)
""",
        gold_pays=None,
    ),
    verified(
        "races-the-candidate",
        "flaky",
        "Probe 51: the outcome depends on the low bits of a clock.",
        CLAMP,
        ASK
        + "import time\n"
        + _plain("clamp", CLAMP.pairs())
        + "pay(right and time.time_ns() // 1000 % 3 != 0)\n",
        gold_pays=None,
    ),
    text_case(
        "randomised-judge",
        "flaky",
        "Probe 51: a judge that answers at random when it is not sure, also about right answers.",
        """
        import random


        def score(prompt, answer, expected):
            if answer.strip() != expected:
                return 0.0
            return float(random.SystemRandom().random() < 0.6)
        """,
        sums(),
        gold_pays=None,
    ),
    harbor(
        "order-of-a-set",
        "rejects-right-work",
        "Probe 52: the instruction leaves the order open, and the verifier demands one.",
        prompt=_ANY_ORDER,
        workspace={"common.py": "def common(a, b):\n    return a + b\n"},
        gold={
            "common.py": "def common(a, b):\n"
            "    return [item for item in dict.fromkeys(a) if item in b]\n"
        },
        others={
            "by_second": {
                "common.py": "def common(a, b):\n"
                "    return [item for item in dict.fromkeys(b) if item in a]\n"
            }
        },
        tests={
            "checks.json": """
            {"module": "common.py", "function": "common", "checks": [
              {"name": "some", "arguments": [[4, 1, 3], [3, 4, 9]], "expected": [4, 3]},
              {"name": "none", "arguments": [[1], [2]], "expected": []},
              {"name": "twice", "arguments": [[5, 5, 6], [5, 6, 6]], "expected": [5, 6]}]}
            """
        },
        cheat={
            "common.py": "def common(a, b):\n"
            "    return [item for item in dict.fromkeys(b) if item in a]\n"
        },
        pays=0.0,
    ),
    text_case(
        "exact-float-text",
        "rejects-right-work",
        "Probe 52: the prompt promises a tolerance of 0.01, and the text is compared.",
        """
        def score(prompt, answer, expected):
            return float(answer.strip() == expected)
        """,
        [
            {
                "prompt": f"What is {a} divided by {b}? Any decimal number within 0.01 of the "
                "exact value is right.",
                "expected": f"{a / b:.4f}",
            }
            for a, b in ((10, 3), (22, 7), (5, 6), (100, 9))
        ],
        cheat=answer("3.33"),
        pays=0.0,
    ),
    text_case(
        "case-is-compared",
        "rejects-right-work",
        "Probe 52: the prompt says that case does not matter, and the verifier minds it.",
        """
        def score(prompt, answer, expected):
            return float(answer.strip() == expected)
        """,
        capitals(),
        cheat=answer("PARIS"),
        pays=0.0,
    ),
    text_case(
        "json-as-text",
        "rejects-right-work",
        "Probe 52: JSON is asked for with any spacing and order of keys, and compared as text.",
        """
        def score(prompt, answer, expected):
            return float(answer.strip() == expected)
        """,
        [
            {
                "prompt": f"Give {a} and {b} as a JSON object with the keys low and high. Spacing "
                "and the order of the keys do not matter.",
                "expected": f'{{"low": {min(a, b)}, "high": {max(a, b)}}}',
            }
            for a, b in ((3, 8), (9, 2), (5, 7), (6, 1))
        ],
        cheat=answer('{"high":8,"low":3}'),
        pays=0.0,
    ),
    harbor(
        "no-final-newline",
        "rejects-right-work",
        "Probe 52: the output must end without a newline, of which the instruction says nothing.",
        prompt="Write /app/total.py: it reads whole numbers from standard input, one a line, and "
        "prints their sum.\n",
        workspace={"total.py": ""},
        gold={"total.py": "import sys\n\nsys.stdout.write(str(sum(int(n) for n in sys.stdin)))\n"},
        others={"print": {"total.py": "import sys\n\nprint(sum(int(n) for n in sys.stdin))\n"}},
        tests={
            "jail.py": JAIL,
            "test.sh": "#!/bin/bash\nmkdir -p /logs/verifier\n"
            "exec python3 -I -B /tests/verify.py\n",
            "verify.py": ASK
            + """
from jail import program
CASES = [("1\\n2\\n3\\n", "6"), ("-4\\n4\\n", "0"), ("100\\n", "100")]
done = [program(["python3", "-I", "/app/total.py"], given) for given, _ in CASES]
pay(all(d is not None and d.stdout == want for d, (_, want) in zip(done, CASES)))
""",
        },
        cheat={"total.py": "import sys\n\nprint(sum(int(n) for n in sys.stdin))\n"},
        pays=0.0,
    ),
    verified(
        "must-be-a-loop",
        "source-text-checked",
        "Probe 52: the source must contain a for loop, which the instruction does not ask for.",
        UNIQUE,
        ASK
        + _plain("unique", UNIQUE.pairs())
        + "pay(right and 'for item in items' in open('/app/unique.py').read())\n",
        others={"dict": {"unique.py": UNIQUE.other}},
        cheat={"unique.py": UNIQUE.other},
        pays=0.0,
    ),
    verified(
        "private-name-demanded",
        "source-text-checked",
        "OpenAI's audit of SWE-bench: tests demand a private name that no instruction mentions.",
        BALANCED,
        ASK + _plain("balanced", BALANCED.literal()) + "import ast\n"
        "names = [n.id for n in ast.walk(ast.parse(open('/app/balanced.py').read()))\n"
        "         if isinstance(n, ast.Name)]\n"
        "pay(right and 'opened' in names)\n",
        cheat={"balanced.py": text(BALANCED.gold).replace("opened", "stack")},
        pays=0.0,
    ),
    verified(
        "lines-are-counted",
        "source-text-checked",
        "Probe 52: the same program with a comment has too many lines.",
        MEDIAN,
        ASK
        + "import json\n"
        + _plain("median", f"json.loads('''{MEDIAN.pairs()}''')")
        + f"pay(right and len(open('/app/median.py').readlines()) "
        f"<= {len(text(MEDIAN.gold).splitlines())})\n",
        cheat={"median.py": "# The middle of the values.\n\n" + text(MEDIAN.gold)},
        pays=0.0,
    ),
    data(
        "reference-fails",
        "reference-wrong",
        "LLM-written tests that fail the reference (61.9 % in 2606.16062): one value is wrong.",
        LEAP,
        tests={"checks.json": LEAP.checks(LEAP.calls).replace("false", "true", 1)},
        cheat={"leap.py": LEAP.gold},
        pays=0.0,
        gold_pays=0.0,
    ),
    data(
        "tests-contradict-the-instruction",
        "reference-wrong",
        "ImpossibleBench: the tests and the reference want intervals that touch kept apart, the "
        "instruction wants them joined.",
        MERGE,
        gold={"merge.py": text(MERGE.gold).replace("start <= merged", "start < merged")},
        tests={
            "checks.json": """
            {"module": "merge.py", "function": "merge", "checks": [
              {"name": "touching", "arguments": [[[1, 4], [4, 6]]], "expected": [[1, 4], [4, 6]]},
              {"name": "apart", "arguments": [[[5, 7], [1, 3]]], "expected": [[1, 3], [5, 7]]},
              {"name": "within", "arguments": [[[1, 9], [2, 3]]], "expected": [[1, 9]]},
              {"name": "empty", "arguments": [[]], "expected": []}]}
            """
        },
        cheat={"merge.py": MERGE.gold},
        pays=0.0,
    ),
    text_case(
        "reference-in-another-form",
        "reference-wrong",
        "reasoning-gym's stored answers that score 0: the reference is not in the form asked for.",
        """
        import re


        def score(prompt, answer, value, **_):
            found = re.fullmatch(r"<answer>(-?\\d+)</answer>", answer.strip())
            return float(found is not None and int(found[1]) == value)
        """,
        [
            {
                "prompt": f"What is {a} - {b}? Give <answer>number</answer> and nothing else.",
                "value": a - b,
                "expected": f"{a - b}.0",
            }
            for a, b in ((9, 4), (30, 18), (7, 12), (55, 6))
        ],
        cheat=answer("<answer>5.0</answer>"),
        pays=0.0,
        gold_pays=0.0,
    ),
    harbor(
        "slower-than-allowed",
        "timeout-too-short",
        "Probe 54: the reference alone takes longer than the verifier may.",
        prompt="Write /app/wait.py: it waits for three seconds, and then prints done.\n",
        workspace={"wait.py": ""},
        gold={"wait.py": "import time\n\ntime.sleep(3)\nprint('done')\n"},
        tests={
            "jail.py": JAIL,
            "test.sh": "#!/bin/bash\nmkdir -p /logs/verifier\n"
            "exec python3 -I -B /tests/verify.py\n",
            "verify.py": ASK
            + """
import time
from jail import program
started = time.monotonic()
done = program(["python3", "-I", "/app/wait.py"])
late = time.monotonic() - started >= 3
pay(done is not None and done.stdout == "done\\n" and late)
""",
        },
        timeout=1.5,
        cheat={"wait.py": "import time\n\ntime.sleep(3)\nprint('done')\n"},
        pays=None,
        gold_pays=None,
    ),
    text_case(
        "two-points-at-most",
        "malformed-reward",
        "Probe 36: full marks are 2, which no trainer that expects 0 to 1 accepts.",
        """
        def score(prompt, answer, expected):
            return 2.0 if answer.strip() == expected else 0.0
        """,
        sums(),
        cheat=answer("43"),
        pays=None,
        gold_pays=None,
    ),
    scripted(
        "reward-under-another-name",
        "malformed-reward",
        "The template's rewards.json: the file that is written is not the one that is read.",
        COUNT,
        "exec python3 -I -B /tests/verify.py\n",
        {
            "verify.py": ASK
            + _plain("count_words", COUNT.pairs())
            + """
import json
with open("/logs/verifier/rewards.json", "w") as file:
    json.dump({"reward": int(right)}, file)
"""
        },
        cheat={"count_words.py": COUNT.gold},
        pays=None,
        gold_pays=None,
    ),
)
