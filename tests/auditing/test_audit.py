"""The whole audit on verifiers whose flaw is known, and on sound ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from steelyard.auditing import (
    AuditSettings,
    Kind,
    Report,
    TaskAudit,
    Tier,
    Verdict,
    audit,
    markdown,
)
from steelyard.tasks import CheckSpec, FunctionChecks, Task, TestScript, read_jsonl

BROKEN = b"def add(a, b):\n    return a - b\n"
SOLUTION = {"calc.py": b"def add(a, b):\n    return a + b\n"}
CHECKS = FunctionChecks(
    "calc.py",
    "add",
    (
        CheckSpec("small", (1, 2), 3),
        CheckSpec("zero", (0, 0), 0),
        CheckSpec("negative", (-5, 2), -3),
        CheckSpec("large", (1000, 7), 1007),
    ),
)
REWARD = "/logs/verifier/reward.txt"


def audited(task: Task, **settings: object) -> TaskAudit:
    return audit([task], AuditSettings(**{"max_mutants": 8, **settings})).tasks[0]


def program(verifier: FunctionChecks | TestScript, **more: object) -> Task:
    fields = {"files": {"calc.py": BROKEN}, "solution": SOLUTION, **more}
    return Task("calc", "Make add(a, b) add.", verifier, **fields)  # type: ignore[arg-type]


def script(body: str, **files: str) -> TestScript:
    texts = {"test.sh": f"cd /app\n{body}\n", **{f"{n}.py": text for n, text in files.items()}}
    return TestScript({path: text.encode() for path, text in texts.items()})


def texts(folder: Path, source: str, rows: list[dict[str, object]]) -> list[Task]:
    (folder / "rewards.py").write_text(source)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_jsonl(folder / "rows.jsonl")


SUMS: list[dict[str, object]] = [
    {"prompt": f"What is {a} + {a}? Answer in \\boxed{{}}.", "expected": str(2 * a)}
    for a in (2, 21, 50)
]
STRICT = """
import re
def score(prompt, answer, expected):
    found = re.findall(r"\\\\boxed\\{([^{}]*)\\}", answer)
    return float(len(found) == 1 and found[0].strip() == expected)
"""


def proved(result: TaskAudit) -> set[str]:
    assert not result.error, result.error
    return {finding.probe for finding in result.findings if finding.proved}


# The instrument on itself: an oracle, a cheat's friend, and a judge that throws dice.


def test_an_oracle_is_sound() -> None:
    result = audited(program(CHECKS))
    assert proved(result) == set()
    assert (result.verdict, result.tier) == (Verdict.SOUND, Tier.A)
    assert result.mutants["killed"] > 0
    assert result.mutation_score == 1.0
    assert len(result.trials) > 50


def test_a_verifier_that_pays_everyone_is_broken() -> None:
    result = audited(program(script(f"echo 1 > {REWARD}")))
    assert "baseline/nothing" in proved(result)
    assert result.verdict is Verdict.BROKEN


def test_a_verifier_that_throws_dice_is_not_sound() -> None:
    dice = f"echo $(($(od -An -N1 -tu1 /dev/urandom) % 2)) > {REWARD}"
    result = audited(program(script(dice)), gold_runs=24, only="right-work")
    assert proved(result) & {"baseline/flaky", "baseline/reference-fails", "baseline/nothing"}


# What is paid


def test_an_exit_code_that_the_candidate_decides_is_found() -> None:
    verifier = script(
        f"python3 /tests/check.py && echo 1 > {REWARD} || echo 0 > {REWARD}",
        check="import sys\nsys.path.insert(0, '/app')\nfrom calc import add\n"
        "assert add(1, 2) == 3 and add(-5, 2) == -3\n",
    )
    result = audited(program(verifier))
    assert {"exits/os-exit-on-import", "in-process/always-equal"} <= proved(result)
    assert (result.verdict, result.tier) == (Verdict.BROKEN, Tier.C)
    finding = next(f for f in result.findings if f.probe == "exits/os-exit-on-import")
    assert (finding.earned, finding.deserved) == (1.0, 0.0)
    assert "os._exit(0)" in finding.artifact


def test_a_reward_file_within_reach_is_found() -> None:
    verifier = script(
        f"python3 -I -c \"import sys; sys.path.insert(0, '/app')\nimport calc\" > /dev/null\n"
        f"echo 0 > {REWARD}"
    )
    result = audited(program(verifier, solution=None), only="reward-channel")
    assert "reward-channel/forged-before" in proved(result)


def test_a_table_of_the_visible_cases_is_found_by_an_input_that_it_lacks() -> None:
    visible = b"assert add(1, 2) == 3\nassert add(0, 0) == 0\nassert add(2, 5) == 7\n"
    checks = FunctionChecks(
        "calc.py", "add", (CheckSpec("one", (1, 2), 3), CheckSpec("two", (2, 5), 7))
    )
    task = program(checks, files={"calc.py": BROKEN, "visible_checks.py": visible})
    result = audited(task, only="trivial/visible-table")
    assert proved(result) == {"trivial/visible-table"}
    assert "the reference" in result.findings[0].evidence


def test_mutants_that_pass_are_proved_by_a_separating_input() -> None:
    checks = FunctionChecks(
        "calc.py", "top", (CheckSpec("two", ([3, 9],), 9), CheckSpec("three", ([1, 2, 5],), 5))
    )
    reference = b"def top(values):\n    best = values[0]\n    for v in values:\n" \
                b"        if v > best:\n            best = v\n    return best\n"  # fmt: skip
    task = Task("top", "top(values)", checks, {"calc.py": b"def top(values):\n    return 0\n"},
                solution={"calc.py": reference})  # fmt: skip
    result = audited(task, only="mutants", max_mutants=30)
    survivor = next(f for f in result.findings if f.probe == "mutants/survivor")
    assert survivor.proved
    assert survivor.kind is Kind.WEAK
    assert "top(" in survivor.evidence
    assert survivor.artifact.startswith("--- a/calc.py")
    assert result.verdict is Verdict.WEAK


def test_partial_credit_that_was_earned_is_no_cheat() -> None:
    body = """
passed=$(python3 -I /tests/check.py)
echo "{\\"reward\\": 0.$((passed * 5)), \\"old\\": 1}" > /logs/verifier/reward.json
"""
    child = (
        "import subprocess, sys\n"
        "code = 'import sys; sys.path.insert(0, \"/app\"); import calc; print(calc.add(1, 2))'\n"
        "out = subprocess.run([sys.executable, '-I', '-c', code], capture_output=True, text=True)\n"
        "print(int(bool(out.stdout.strip())))\n"
    )
    result = audited(program(script(body, check=child), solution=None), only="trivial")
    assert proved(result) == set()  # every value honestly earns the half that any value is worth


# What is refused


def test_a_verifier_of_the_source_text_is_named() -> None:
    verifier = script(f"grep -q 'return a + b' calc.py && echo 1 > {REWARD} || echo 0 > {REWARD}")
    result = audited(program(verifier), only="right-work")
    assert proved(result) == {"right-work/rewritten"}
    assert result.verdict is Verdict.WEAK


def test_a_reference_that_fails_is_broken() -> None:
    result = audited(program(CHECKS, solution={"calc.py": BROKEN}), quick=True)
    assert proved(result) == {"baseline/reference-fails"}
    assert result.verdict is Verdict.BROKEN


def test_a_second_solution_that_fails_is_named(tmp_path: Path) -> None:
    second = tmp_path / "solutions" / "other" / "files"
    second.mkdir(parents=True)
    (second / "calc.py").write_text("def add(a, b):\n    return sum((a, b))\n")
    verifier = script(f"grep -q '+' calc.py && echo 1 > {REWARD} || echo 0 > {REWARD}")
    result = audited(program(verifier, source=tmp_path), only="right-work/second-solution")
    assert proved(result) == {"right-work/second-solution"}


def test_an_untouched_task_without_a_reward_is_weak() -> None:
    result = audited(program(script(f"grep -q 'a + b' calc.py && echo 1 > {REWARD}")), quick=True)
    assert proved(result) == {"baseline/nothing-unscored"}


# Texts


def test_a_strict_reward_function_is_sound(tmp_path: Path) -> None:
    result = audit(texts(tmp_path, STRICT, SUMS)).tasks[0]
    assert proved(result) == set()
    assert result.task == "rewards.py:score"
    assert len(result.trials) > 100


@pytest.mark.parametrize(
    ("body", "probe"),
    [
        ("return float(expected in answer)", "answers/contains"),
        ("return float(bool(answer.strip()))", "answers/garbage"),
        ("return 1.0 if answer.startswith('\\\\boxed') else 0.0", "answers/empty-format"),
        ("return float('score 1.0' in answer or expected in answer)", "answers/injection"),
        ("return float(eval(answer.strip('\\\\boxed{}')) == int(expected))", "answers/executed"),
        ("return 1.0 if '{' + expected + '}' in answer else 0.05", "answers/garbage"),
        ("return 1.0 - min(1, abs(float(answer.strip('\\\\boxed{}')) - int(expected)))",
         "answers/nothing"),
        ("return float(len(answer) > 500 or '{' + expected + '}' in answer)", "answers/padding"),
    ],
)  # fmt: skip
def test_a_flawed_reward_function_is_caught(tmp_path: Path, body: str, probe: str) -> None:
    source = f"def score(prompt, answer, expected):\n    {body}\n"
    assert probe in proved(audit(texts(tmp_path, source, SUMS)).tasks[0])


def test_garbage_is_tried_where_no_answer_is_stored(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"prompt": "Find a way out.", "expected": None}]
    pays_all = "def score(prompt, answer, expected):\n    return 1.0\n"
    assert "answers/garbage" in proved(audit(texts(tmp_path, pays_all, rows)).tasks[0])
    pays_none = "def score(prompt, answer, expected):\n    return 0.0\n"
    assert proved(audit(texts(tmp_path, pays_none, rows)).tasks[0]) == set()


def test_a_title_says_what_was_seen(tmp_path: Path) -> None:
    """Paying a text is not executing it, and failing on one is not paying it."""
    pays_all = "def score(prompt, answer, expected):\n    return 1.0\n"
    result = audit(texts(tmp_path, pays_all, SUMS), AuditSettings(only="answers/executed"))
    paid = next(f for f in result.tasks[0].findings if f.probe == "answers/executed")
    assert (paid.title, paid.earned) == ("a text that is no answer is paid", 1.0)
    fails = "def score(prompt, answer, expected):\n    return float(int(answer) == int(expected))\n"
    result = audit(texts(tmp_path, fails, SUMS), AuditSettings(only="answers/garbage"))
    failed = next(f for f in result.tasks[0].findings if f.probe == "answers/garbage")
    assert (failed.title, failed.kind) == ("an answer makes the function fail", Kind.WEAK)


def test_one_cause_of_failure_is_one_finding(tmp_path: Path) -> None:
    fails = "def score(prompt, answer, expected):\n    return float(int(answer) == int(expected))\n"
    result = audit(texts(tmp_path, fails, SUMS), AuditSettings(only="answers")).tasks[0]
    failing = [f for f in result.findings if f.probe != "baseline/nothing-unscored"]
    assert [f.probe for f in failing] == ["answers/nothing"]
    assert "answers/garbage" in failing[0].evidence


def test_a_promised_form_must_be_paid(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": "Name the capital of France. Case does not matter.", "expected": "Paris"}
    ]
    source = "def score(prompt, answer, expected):\n    return float(answer == expected)\n"
    result = audit(texts(tmp_path, source, rows)).tasks[0]
    assert proved(result) == {"right-work/promised-form"}


def test_any_order_of_groups_is_not_any_order_of_what_is_inside(tmp_path: Path) -> None:
    gold = '[["tan", "nat"], ["eat", "tea"], ["bat"]]'
    rows: list[dict[str, object]] = [{"prompt": "Group them, in any order.", "expected": gold}]
    compares = (
        "import json\ndef score(prompt, answer, expected):\n    try:\n"
        "        given = json.loads(answer)\n    except ValueError:\n        return 0.0\n"
    )
    only = AuditSettings(only="right-work")
    sound = compares + "    return float(sorted(given) == sorted(json.loads(expected)))\n"
    assert proved(audit(texts(tmp_path, sound, rows), only).tasks[0]) == set()
    strict = compares + "    return float(given == json.loads(expected))\n"
    assert proved(audit(texts(tmp_path, strict, rows), only).tasks[0]) == {
        "right-work/promised-form"
    }


@pytest.mark.parametrize(("digits", "found"), [("3", set()), ("12", {"answers/part"})])
def test_a_number_may_be_as_short_as_the_prompt_allows(
    tmp_path: Path, digits: str, found: set[str]
) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": f"Divide 1 by 7, to {digits} significant digits.", "expected": "0.142857142857"}
    ]
    source = (
        "def score(prompt, answer, expected):\n    try:\n"
        "        return float(abs(float(answer) - float(expected)) < 1e-4)\n"
        "    except ValueError:\n        return 0.0\n"
    )
    result = audit(texts(tmp_path, source, rows), AuditSettings(only="answers/part"))
    assert proved(result.tasks[0]) == found


def test_a_number_without_its_unit_is_no_partial_answer(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [{"prompt": "How long does it take?", "expected": "15 days"}]
    source = (
        "def score(prompt, answer, expected):\n"
        "    return float(answer.split()[:1] == expected.split()[:1])\n"
    )
    result = audit(texts(tmp_path, source, rows), AuditSettings(only="answers/part"))
    assert proved(result.tasks[0]) == set()


# What it says


@pytest.fixture(scope="module")
def report() -> Report:
    return audit([program(script(f"echo 1 > {REWARD}"))], AuditSettings(quick=True))


def test_the_report_is_json_and_markdown(report: Report) -> None:
    data = json.loads(json.dumps(report.as_dict()))
    assert data["exit_code"] == 1
    assert data["tasks"][0]["verdict"] == "broken"
    text = markdown(report)
    assert "| calc | broken | C |" in text
    assert "doing nothing is paid in full" in text


def test_a_probe_that_is_not_there_is_named() -> None:
    with pytest.raises(ValueError, match=r"exits/jump: there is no such probe; give a family"):
        audit([program(CHECKS)], AuditSettings(only="exits/jump"))


def test_a_whole_response_as_the_stored_answer_is_taken_apart(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"prompt": f"What is {a} + 1? End with <answer>number</answer>.",
         "value": str(a + 1), "expected": f"I add.\n<answer>{a + 1}</answer>"}
        for a in (3, 17)
    ]  # fmt: skip
    source = (
        "def score(prompt, answer, value, expected):\n"
        "    return float(answer.endswith(f'<answer>{value}</answer>'))\n"
    )
    assert "answers/contains" not in proved(audit(texts(tmp_path, source, rows)).tasks[0])
