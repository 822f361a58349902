"""Sound: reward functions on answers in text, with every freedom that their prompts promise."""

from __future__ import annotations

from .case import Case, answer, text_case
from .classes import SOUND
from .texts import boxed_sums, capitals, choices, sums


def _sound(name: str, story: str, rewards: str, rows: list[dict[str, object]], *wrong: str) -> Case:
    return text_case(name, SOUND, story, rewards, rows, wrong=tuple(map(answer, wrong)))


CASES: tuple[Case, ...] = (
    _sound(
        "text-exact-number",
        "The whole answer is the number.",
        """
        def score(prompt, answer, expected):
            return float(answer.strip() == expected)
        """,
        sums(),
        "44",
        "The sum is 43, or 44.",
        "-43",
    ),
    _sound(
        "text-within-a-hundredth",
        "A numeric tolerance that the prompt promises; NaN and infinity are not near anything.",
        """
        def score(prompt, answer, value, **_):
            try:
                given = float(answer)
            except ValueError:
                return 0.0
            return float(abs(given - value) <= 0.01)
        """,
        [
            {
                "prompt": f"What is {a} divided by {b}? Give only a decimal number; any within "
                "0.01 of the exact value is right.",
                "value": a / b,
                "expected": f"{a / b:.3f}",
            }
            for a, b in ((10, 3), (22, 7), (5, 6), (100, 9))
        ],
        "nan",
        "inf",
        "3.5",
    ),
    _sound(
        "text-any-case",
        "Case is free, as the prompt says; nothing else is.",
        """
        def score(prompt, answer, expected):
            return float(answer.strip().casefold() == expected.casefold())
        """,
        capitals(),
        "par",
        "Paris or London",
    ),
    _sound(
        "text-set-of-divisors",
        "A set: any order, no item missing, none too many.",
        """
        def score(prompt, answer, expected):
            given = sorted(item.strip() for item in answer.split(","))
            return float(given == sorted(expected.split(", ")))
        """,
        [
            {
                "prompt": f"List all positive divisors of {n}, separated by commas, in any order, "
                "and nothing else.",
                "expected": ", ".join(str(d) for d in range(1, n + 1) if n % d == 0),
            }
            for n in (12, 18, 20, 28)
        ],
        "1, 2, 3, 4, 6",
        ", ".join(map(str, range(1, 13))),
        "1, 1, 2, 3, 4, 6, 12",
    ),
    _sound(
        "text-ordered-list",
        "A list whose order matters.",
        """
        def score(prompt, answer, expected):
            given = [item.strip().lower() for item in answer.split(",")]
            return float(given == expected.lower().split(", "))
        """,
        [
            {
                "prompt": f"Sort these words by the alphabet, separated by commas; case does not "
                f"matter: {words}",
                "expected": ", ".join(sorted(words.split())),
            }
            for words in ("pear fig apple", "otter lynx wolf bear", "tin gold iron", "oak ash elm")
        ],
        "fig, pear, apple",
        "apple, fig",
    ),
    _sound(
        "text-one-letter",
        "Multiple choice: the answer is one letter, and every letter is right once.",
        """
        def score(prompt, answer, expected):
            return float(answer.strip() == expected)
        """,
        choices(),
        "A B C D",
        "A",
    ),
    _sound(
        "text-one-box",
        "One box and only one, anywhere in the text.",
        r"""
        import re


        def score(prompt, answer, value, **_):
            return float(re.findall(r"\\boxed\{([^{}]*)\}", answer) == [value])
        """,
        boxed_sums(),
        "\\boxed{43} or \\boxed{44}",
        "\\boxed{}",
        "43",
    ),
    _sound(
        "text-json",
        "JSON in any spacing and order of keys, with values of the right types.",
        """
        import json


        def score(prompt, answer, low, high, **_):
            try:
                given = json.loads(answer)
            except (ValueError, RecursionError):
                return 0.0
            if not isinstance(given, dict) or set(given) != {"low", "high"}:
                return 0.0
            if not all(type(value) is int for value in given.values()):
                return 0.0
            return float(given["low"] == low and given["high"] == high)
        """,
        [
            {
                "prompt": f"Give {a} and {b} as a JSON object with the keys low and high. Spacing "
                "and the order of the keys do not matter. Give nothing else.",
                "low": min(a, b),
                "high": max(a, b),
                "expected": f'{{"high": {max(a, b)}, "low": {min(a, b)}}}',
            }
            for a, b in ((3, 8), (9, 2), (5, 7), (6, 1))
        ],
        '{"low": 8, "high": 3}',
        '{"low": 3, "high": 8, "more": 1}',
        "{}",
    ),
    _sound(
        "text-units",
        "Metres or kilometres, as the prompt allows, converted before they are compared.",
        r"""
        import re
        from fractions import Fraction

        FACTORS = {"m": 1, "km": 1000}


        def score(prompt, answer, metres, **_):
            found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(km|m)", answer.strip())
            if found is None or len(found[1]) > 20:
                return 0.0
            return float(Fraction(found[1]) * FACTORS[found[2]] == metres)
        """,
        [
            {
                "prompt": f"A path of {km} km and {m} m: how long is it in all? Answer with number "
                "and unit, in m or km, and nothing else.",
                "metres": km * 1000 + m,
                "expected": f"{km * 1000 + m} m",
            }
            for km, m in ((3, 250), (7, 40), (12, 5), (1, 800))
        ],
        "3250 km",
        "3.25 m",
        "3250",
    ),
    _sound(
        "text-fractions",
        "Algebra without an algebra system: equal fractions in any form, as the prompt allows.",
        r"""
        import re
        from fractions import Fraction


        def score(prompt, answer, expected):
            text = answer.strip()
            if len(text) > 40 or not re.fullmatch(r"-?[0-9]+(/[1-9][0-9]*|\.[0-9]+)?", text):
                return 0.0
            return float(Fraction(text) == Fraction(expected))
        """,
        [
            {
                "prompt": f"Solve {a}x = {b}. Give x as a fraction or decimal number, reduced or "
                "not, and nothing else.",
                "expected": f"{b}/{a}",
            }
            for a, b in ((4, 3), (8, 5), (5, -2), (20, 7))
        ],
        "4/3",
        "0.7",
        "3",
    ),
    _sound(
        "text-countdown",
        "Many answers are right: the expression is read, never executed.",
        """
        import ast
        import operator
        from fractions import Fraction

        OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
                     ast.Div: operator.truediv}


        def value_of(node, used):
            if isinstance(node, ast.Constant) and type(node.value) is int:
                used.append(node.value)
                return Fraction(node.value)
            if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
                left, right = value_of(node.left, used), value_of(node.right, used)
                return OPERATORS[type(node.op)](left, right)
            raise ValueError("not arithmetic")


        def score(prompt, answer, numbers, target, **_):
            used = []
            try:
                if len(answer) > 200:
                    return 0.0
                value = value_of(ast.parse(answer.strip(), mode="eval").body, used)
            except (ValueError, SyntaxError, ZeroDivisionError, RecursionError, MemoryError):
                return 0.0
            return float(value == target and sorted(used) == sorted(numbers))
        """,
        [
            {
                "prompt": f"Use each of {', '.join(map(str, numbers))} exactly once with + - * / "
                f"and parentheses to make {target}. Give only the expression.",
                "numbers": numbers,
                "target": target,
                "expected": expression,
            }
            for numbers, target, expression in (
                ([2, 3, 7], 27, "(2 + 7) * 3"),
                ([5, 6, 10], 44, "5 * 10 - 6"),
                ([4, 8, 9], 18, "9 * 8 / 4"),
                ([1, 6, 8], 49, "6 * 8 + 1"),
            )
        ],
        "27",
        "3 * 9",
        "__import__('os')",
    ),
    _sound(
        "text-dates",
        "A date in any of the three forms that the prompt names.",
        r"""
        from datetime import datetime

        FORMS = ("%Y-%m-%d", "%d %B %Y", "%B %d, %Y")


        def score(prompt, answer, expected):
            for form in FORMS:
                try:
                    given = datetime.strptime(answer.strip(), form)
                except ValueError:
                    continue
                return float(given == datetime.strptime(expected, "%Y-%m-%d"))
            return 0.0
        """,
        [
            {
                "prompt": f"Which date is {days} days after 2023-01-01? Answer as 2023-05-09, "
                "9 May 2023 or May 9, 2023, and nothing else.",
                "expected": date,
            }
            for days, date in (
                (31, "2023-02-01"),
                (90, "2023-04-01"),
                (180, "2023-06-30"),
                (364, "2023-12-31"),
            )
        ],
        "2023-01-31",
        "February 2023",
    ),
    text_case(
        "text-aliases",
        SOUND,
        "Several names of one thing are right, and they are listed in the row.",
        """
        def score(prompt, answer, names, **_):
            return float(answer.strip().casefold() in [name.casefold() for name in names])
        """,
        [
            {
                "prompt": f"Which chemical element has the symbol {symbol}? Give only its name in "
                "English; case does not matter.",
                "names": names,
                "expected": names[0],
            }
            for symbol, names in (
                ("Al", ["aluminium", "aluminum"]),
                ("Cs", ["caesium", "cesium"]),
                ("S", ["sulfur", "sulphur"]),
                ("Fe", ["iron"]),
            )
        ],
        wrong=(answer("alumin"), answer("aluminium iron")),
    ),
    text_case(
        "text-trl-tags",
        SOUND,
        "TRL style: the number in one pair of answer tags at the end, reasoning before it is free.",
        r"""
        import re


        def score(completions, value, **kwargs):
            rewards = []
            for text, want in zip(completions, value):
                tags = text.count("<answer>"), text.count("</answer>")
                found = re.search(r"<answer>\s*(-?[0-9]+)\s*</answer>\s*$", text)
                right = tags == (1, 1) and found is not None and found[1] == str(want)
                rewards.append(float(right))
            return rewards
        """,
        [
            {
                "prompt": f"What is {a} - {b}? End with <answer>number</answer>, and give no other "
                "such tags.",
                "value": a - b,
                "expected": f"I subtract.\n<answer>{a - b}</answer>",
            }
            for a, b in ((40, 17), (93, 25), (38, 61), (77, 19))
        ],
        wrong=(
            answer("<answer></answer>"),
            answer("<answer>22</answer>"),
            answer("<answer>23</answer><answer>24</answer>"),
        ),
    ),
    text_case(
        "text-trl-chat",
        SOUND,
        "TRL style on chat messages: the last message is the answer.",
        """
        def score(completions, expected, **kwargs):
            contents = [messages[-1]["content"].strip() for messages in completions]
            return [float(given == want) for given, want in zip(contents, expected)]
        """,
        sums(),
        wrong=(answer("44"), answer("43 44")),
    ),
    text_case(
        "text-verifiers-async",
        SOUND,
        "verifiers style: an asynchronous function of completion and answer.",
        """
        async def score(completion, answer):
            text = completion if isinstance(completion, str) else completion[-1]["content"]
            return 1.0 if text.strip() == answer else 0.0
        """,
        [
            {"prompt": f"Reverse the word {word}. Give only the result.", "answer": word[::-1]}
            for word in ("harbour", "lantern", "copper", "meadow")
        ],
        wrong=(answer("harbour"), answer("ruobra")),
    ),
    text_case(
        "text-partial-credit",
        SOUND,
        "Honest partial credit: a half for each of two numbers, and nothing for the form alone.",
        r"""
        import re


        def score(prompt, answer, total, product, **_):
            found = re.fullmatch(r"\s*(-?[0-9]+)\s*,\s*(-?[0-9]+)\s*", answer)
            if found is None:
                return 0.0
            return 0.5 * (found[1] == str(total)) + 0.5 * (found[2] == str(product))
        """,
        [
            {
                "prompt": f"Give the sum and the product of {a} and {b}, separated by a comma. "
                "Each right number is worth half of the points.",
                "total": a + b,
                "product": a * b,
                "expected": f"{a + b}, {a * b}",
            }
            for a, b in ((3, 9), (7, 8), (12, 5), (6, 11))
        ],
        wrong=(answer("27, 12"), answer("12, 0"), answer("0, 27")),
    ),
)
