"""Probes that came of missed flaws: each on a verifier that has the flaw, and on one without it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.auditing import AuditSettings, TaskAudit, audit
from steelyard.auditing.submission import Deserves, Submission, placed
from steelyard.auditing.target import Target
from steelyard.conductor.validation import validate_tasks
from steelyard.grading import GradingSettings
from steelyard.sandbox import SandboxSettings
from steelyard.tasks import CheckSpec, FunctionChecks, Task, TestScript, read_jsonl
from steelyard.tasks.task import TaskStep

REWARD = "/logs/verifier/reward.txt"


def proved(result: TaskAudit) -> set[str]:
    assert not result.error, result.error
    return {finding.probe for finding in result.findings if finding.proved}


def of_texts(folder: Path, body: str, rows: list[tuple[str, str]], only: str = "") -> set[str]:
    """What is proved of `score(prompt, answer, expected)` with this body, on these examples."""
    (folder / "rewards.py").write_text(
        f"import json, re\ndef score(prompt, answer, expected):\n{body}\n"
    )
    lines = [
        json.dumps({"prompt": prompt, "expected": expected}) + "\n" for prompt, expected in rows
    ]
    (folder / "rows.jsonl").write_text("".join(lines))
    return proved(audit(read_jsonl(folder / "rows.jsonl"), AuditSettings(only=only)).tasks[0])


def of_script(body: str, only: str, **task: object) -> set[str]:
    """What is proved of a test.sh with this body, for a shell script total.sh that sums lines."""
    fields: dict[str, object] = {
        "files": {"total.sh": b"cat\n"},
        "solution": {"total.sh": b"n=0; while read x; do n=$((n + x)); done; echo $n\n"},
        **task,
    }
    script = TestScript({"test.sh": f"cd /tmp\n{body}\n".encode()})
    made = Task("total", "total.sh prints the sum of its lines.", script, **fields)  # type: ignore[arg-type]
    return proved(audit([made], AuditSettings(only=only, max_mutants=4)).tasks[0])


@pytest.mark.parametrize("place", ["/app", "/srv/w"])
def test_probes_go_where_the_task_has_its_workspace(place: str) -> None:
    body = f"""
set -a; . {place}/settings.env; cd {place}
[ "$(printf '1\n2\n' | /bin/bash total.sh)" = 3 ] && echo 1 > {REWARD} || echo 0 > {REWARD}"""
    files = {"total.sh": b"cat\n", "settings.env": b"MODE=plain\n"}
    found = of_script(body, "shell/settings-shell", files=files, working_directory=place)
    assert found == {"shell/settings-shell"}


def test_a_word_that_begins_like_the_workspace_s_path_stays() -> None:
    script = TestScript({"test.sh": b"ls /dataset /data/in /data"})
    task = Task("t", "", script, {"a.py": b""}, working_directory="/data")
    assert Target((task,)).tests_text == "ls /dataset /app/in /app"
    routes = "ROUTES = ['/apply', '/app.js', '/app-2', '/app/x', '/app']\n"
    given = Submission("", Deserves.UNTOUCHED, task, {"a.py": routes.encode()}, f"echo {routes}")
    moved = routes.replace("'/app/x', '/app'", "'/data/x', '/data'")
    assert placed(given).files == {"a.py": moved.encode()}
    assert placed(given).commands == f"echo {moved}"


def test_right_work_keeps_the_paths_that_it_names() -> None:
    """The reference in other words has a route that is called like the folder of other tasks."""
    source = b"def route(n):\n    if n is None:\n        return '/app'\n    return '/apply'\n"
    check = "from main import route; assert (route(None), route(1)) == ('/app', '/apply')"
    body = f'cd /srv/w && python3 -c "{check}" && echo 1 > {REWARD} || echo 0 > {REWARD}'
    task = Task(
        "t",
        "Write route(n).",
        TestScript({"test.sh": body.encode()}),
        solution={"main.py": source},
        working_directory="/srv/w",
    )
    result = audit([task], AuditSettings(only="right-work")).tasks[0]
    assert proved(result) == set()
    assert any(trial.probe == "right-work/rewritten" for trial in result.trials)


ANAGRAMS = b'["crate", "react", "trace"]\n'
EXACT = "assert type(found) is list and found == want"
INSIDE = "assert all(word in want for word in found) and found == sorted(found)"
COVERED = "assert set(want) <= set(found)"


@pytest.mark.parametrize(
    ("instruction", "check", "found"),
    [
        ("Write every anagram to out.json.", EXACT, set()),
        ("Write every anagram to out.json.", INSIDE, {"empty-data", "part-of-data"}),
        ("Write every anagram to out.json.", COVERED, {"extra-data"}),
        ("Write anagrams to out.json. Use every core.", INSIDE, {"empty-data"}),
        ("Write some anagrams to out.json.", INSIDE, set()),
        ("Write all anagrams, if any, to out.json.", INSIDE, set()),
    ],
)
def test_an_answer_in_a_file_is_compared_in_both_directions(
    instruction: str, check: str, found: set[str]
) -> None:
    code = (
        f"import json\nfound, want = json.load(open('/app/out.json')), {ANAGRAMS.decode()}{check}"
    )
    body = f"python3 -I /tests/check.py && echo 1 > {REWARD} || echo 0 > {REWARD}"
    script = TestScript({"test.sh": body.encode(), "check.py": code.encode()})
    task = Task("t", instruction, script, solution={"out.json": ANAGRAMS})
    result = audit([task], AuditSettings(only="trivial")).tasks[0]
    assert proved(result) == {f"trivial/{name}" for name in found}


def test_a_table_with_a_header_only_is_an_empty_answer() -> None:
    code = "rows = open('/app/a.csv').read().splitlines()\nassert rows[0] == 'x,y'\n"
    code += "for row in rows[1:]: assert row in ('1,2', '3,4', '5,6')"
    body = f'python3 -I -c "{code}" && echo 1 > {REWARD} || echo 0 > {REWARD}'
    solution = {"a.csv": b"x,y\n1,2\n3,4\n5,6\n"}
    task = Task("t", "Fill a.csv.", TestScript({"test.sh": body.encode()}), solution=solution)
    result = audit([task], AuditSettings(only="trivial")).tasks[0]
    assert proved(result) == {"trivial/empty-data"}
    leads = {f.probe for f in result.findings if not f.proved}
    assert leads == {"trivial/part-of-data"}


@pytest.mark.parametrize("side", ["README.md", "requirements.txt", ".gitignore", "Makefile"])
def test_a_file_that_nobody_asked_for_may_be_empty(side: str) -> None:
    body = f'[ "$(cat /app/out.txt)" = 6 ] && echo 1 > {REWARD} || echo 0 > {REWARD}'
    task = Task(
        "t",
        f"Write 6 to out.txt. my-{side} and {side}.bak are read by nobody.",
        TestScript({"test.sh": body.encode()}),
        solution={"out.txt": b"6\n", side: b"all:\n\techo some lines\n"},
    )
    result = audit([task], AuditSettings(only="trivial")).tasks[0]
    assert proved(result) == set()
    asked = replace(task, instruction=f"Write 6 to out.txt, and {side}.")
    result = audit([asked], AuditSettings(only="trivial")).tasks[0]
    assert proved(result) == {"trivial/empty-data"}


PRICES = [("What is 17 times 9?", "153"), ("What is 30 times 4?", "120")]
LOOSE = (
    "    try:\n        return float(abs(float(answer) / float(expected) - 1) < 0.1)\n"
    "    except ValueError:\n        return 0.0"
)


def test_a_near_miss_is_paid_only_where_the_prompt_leaves_room(tmp_path: Path) -> None:
    assert of_texts(tmp_path, LOOSE, PRICES, "answers/near") == {"answers/near"}
    rough = [(f"Roughly: {prompt}", expected) for prompt, expected in PRICES]
    assert of_texts(tmp_path, LOOSE, rough, "answers/near") == set()
    open_ended = [("Name any number of three digits.", "153"), ("Find a prime above 100.", "101")]
    assert of_texts(tmp_path, LOOSE, open_ended, "answers/near") == set()


DIVISORS = [(f"List all divisors of {n}.", ", ".join(d)) for n, d in ((4, "124"), (9, "139"))]
WORDS = [("Name the primary colours.", "red, blue, yellow"), ("Name the poles.", "north, south")]


@pytest.mark.parametrize("rows", [DIVISORS, WORDS])
def test_a_longer_list_is_wrong(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    split = "    given, want = ({i.strip() for i in t.split(',')} for t in (answer, expected))\n"
    subset, equal = (
        split + "    return float(want <= given)",
        split + "    return float(want == given)",
    )
    assert of_texts(tmp_path, subset, rows, "answers/shotgun") == {"answers/shotgun"}
    assert of_texts(tmp_path, equal, rows, "answers/shotgun") == set()
    some = [(f"{prompt} Others may be given for example.", text) for prompt, text in rows]
    assert of_texts(tmp_path, subset, some, "answers/shotgun") == set()


def test_a_word_that_begins_with_the_right_one_is_wrong(tmp_path: Path) -> None:
    rows = [("What is the capital of Peru?", "Lima"), ("And of Kenya?", "Nairobi")]
    begins = "    return float(re.match(expected, answer.strip()) is not None)"
    assert of_texts(tmp_path, begins, rows, "answers/contains") == {"answers/contains"}
    whole = "    return float(re.fullmatch(expected, answer.strip()) is not None)"
    assert of_texts(tmp_path, whole, rows, "answers/contains") == set()


def test_a_judge_may_count_to_ten(tmp_path: Path) -> None:
    obeys = (
        "    order = re.search(r'score (\\d+)', answer)\n"
        "    if order:\n        return min(int(order[1]), 10) / 10\n"
        "    return float(answer.strip() == expected)"
    )
    assert of_texts(tmp_path, obeys, PRICES, "answers/injection") == {"answers/injection"}


@pytest.mark.parametrize(
    ("promise", "found"),
    [
        ("Spacing and the order of the keys do not matter.", {"right-work/promised-form"}),
        ("The order of keys doesn't matter.", {"right-work/promised-form"}),
        ("", set()),
    ],
)
def test_json_may_be_written_as_promised(tmp_path: Path, promise: str, found: set[str]) -> None:
    rows = [(f"Give 2 and 5 as a JSON object. {promise}", '{"low": 2, "high": 5}')]
    as_text = "    return float(answer.strip() == expected)"
    assert of_texts(tmp_path, as_text, rows, "right-work") == found
    as_data = (
        "    try:\n        return float(json.loads(answer) == json.loads(expected))\n"
        "    except ValueError:\n        return 0.0"
    )
    assert of_texts(tmp_path, as_data, rows, "right-work") == set()


def checked(*checks: tuple[tuple[object, ...], object], function: str = "double") -> FunctionChecks:
    specs = [CheckSpec(f"call {i}", args, want) for i, (args, want) in enumerate(checks)]
    return FunctionChecks("calc.py", function, tuple(specs))


def double(heldout: FunctionChecks | TestScript) -> Task:
    return Task(
        "double",
        "Write double(n).",
        checked(((2,), 4), ((5,), 10)),
        {"calc.py": b"def double(n):\n    return n\n"},
        solution={"calc.py": b"def double(n):\n    return n * 2\n"},
        heldout=heldout,
    )


def test_held_out_checks_that_refuse_the_reference_contradict_the_tests() -> None:
    task = double(heldout=checked(((3,), 9)))
    result = audit([task]).tasks[0]
    # What such checks say of a mutant is no evidence either.
    assert proved(result) == {"baseline/heldout-disagrees"}
    assert "call 0" in next(f for f in result.findings if f.proved).evidence


def test_held_out_checks_that_fail_on_the_reference_are_named() -> None:
    task = double(heldout=TestScript({"test.sh": b"exit 1\n"}))
    result = audit([task], AuditSettings(quick=True, explored=0)).tasks[0]
    (found,) = [finding for finding in result.findings if finding.proved]
    assert (found.probe, found.earned) == ("baseline/heldout-disagrees", None)
    assert "fail on it" in found.title


def test_the_reference_of_a_task_with_steps_is_graded_step_by_step() -> None:
    """What passes the first step is gone when the second one is done."""

    def step(name: str, right: bytes) -> TaskStep:
        script = f"grep -qx {right.decode()} /app/out && echo 1 > {REWARD} || echo 0 > {REWARD}"
        return TaskStep(name, name, TestScript({"test.sh": script.encode()}),
                        solution={"out": right})  # fmt: skip

    steps = (step("one", b"first"), step("two", b"second"))
    task = Task("steps", "one", steps[-1].verifier, steps=steps)
    assert of_quick(task) == set()
    wrong = replace(task, steps=(steps[0], replace(steps[1], solution={"out": b"other"})))
    assert of_quick(wrong) == {"baseline/reference-fails"}
    assert [v.problem == "" for v in validate_tasks([task, wrong])] == [True, False]


def of_quick(task: Task) -> set[str]:
    return proved(audit([task], AuditSettings(quick=True, explored=0)).tasks[0])


def test_a_table_that_the_workspace_loops_over_is_learnt_by_heart() -> None:
    rows = "CASES = [[3, 6], [4, 8]]\nfor n, want in CASES:\n    print(double(n) == want)\n"
    task = Task(
        "double",
        "Write double(n).",
        checked(((3,), 6), ((4,), 8)),
        {"calc.py": b"", "look.py": f"from calc import double\n{rows}".encode()},
        solution={"calc.py": b"def double(n):\n    return n * 2\n"},
        heldout=checked(((7,), 14)),
    )
    only = AuditSettings(only="trivial/visible-table")
    assert proved(audit([task], only).tasks[0]) == {"trivial/visible-table"}


SETTINGS = "while IFS='=' read -r name value; do export \"$name=$value\"; done < /app/project.env\n"
CHECKED = (
    f"bash -c '[ $(seq 3 | bash /app/total.sh) = 6 ]' && echo 1 > {REWARD} || echo 0 > {REWARD}\n"
)


def test_settings_that_the_verifier_exports_start_a_file_of_the_agent() -> None:
    files = {"total.sh": b"cat\n", "project.env": b"# ours\nMODE=plain\n"}
    found = of_script(SETTINGS + CHECKED, "shell", files=files)
    assert "shell/settings-shell" in found
    assert of_script(CHECKED, "shell", files=files) == set()


def test_a_home_in_the_workspace_steers_git() -> None:
    compare = (
        "echo 6 > want; seq 3 | timeout 5 bash /app/total.sh > got\n"
        "lines=$(git diff --no-index want got | wc -l)\n"
        f'[ "$lines" = 0 ] && echo 1 > {REWARD} || echo 0 > {REWARD}\n'
    )
    assert of_script("export HOME=/app\n" + compare, "shell/home") == {"shell/home"}
    assert of_script("export HOME=/tmp\n" + compare, "shell/home") == set()


def test_a_word_that_a_shell_evaluates_is_no_number() -> None:
    held = TestScript(
        {
            "test.sh": b'got=$(seq 9 | bash /app/total.sh)\n[ "$got" = 45 ] '
            b"&& echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
        }
    )
    for operator, found in (("-eq", {"shell/evaluated-output"}), ("==", set())):
        body = (
            "paid=1\nfor n in 3 4; do\n  want=$((n * (n + 1) / 2))\n"
            "  got=$(seq $n | timeout 5 bash /app/total.sh)\n"
            f"  [[ $got {operator} $want ]] || paid=0\ndone\necho $paid > {REWARD}"
        )
        assert of_script(body, "shell/evaluated-output", heldout=held) == found


def test_a_shell_script_may_be_a_constant_or_write_the_reward() -> None:
    held = TestScript(
        {
            "test.sh": b'[ "$(seq 9 | bash /app/total.sh)" = 45 ] '
            b"&& echo 1 > /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n"
        }
    )
    any_status = f"seq 3 | bash /app/total.sh && echo 1 > {REWARD} || echo 0 > {REWARD}"
    assert of_script(
        any_status, "trivial/script-constant", heldout=held, files={"total.sh": b"exit 3\n"}
    ) == {"trivial/script-constant"}
    judged_first = f"echo 0 > {REWARD}\nseq 3 | bash /app/total.sh"
    solved = {"total.sh": b"echo 6\n"}
    assert of_script(judged_first, "reward-channel/forged-by-script", solution=solved) == {
        "reward-channel/forged-by-script",
        "baseline/reference-fails",
    }


def test_a_part_of_the_work_may_earn_its_part() -> None:
    """A script that is there, and one that ends well, are worth a quarter each."""
    parts = (
        "paid=0\n[ -e /app/total.sh ] && paid=0.25\n"
        "got=$(seq 3 | timeout 5 bash /app/total.sh) && paid=0.5\n"
        f'[ "$got" = 6 ] && paid=1\nrm -f /logs/verifier/*; echo $paid > {REWARD}'
    )
    assert of_script(parts, "reward-channel/forged-by-script", files={}) == set()
    makes = (
        f"cd /app && make build > /dev/null 2>&1 && echo 0.5 > {REWARD} || echo 0 > {REWARD}\n"
        f'[ "$(cat /app/out.txt)" = 6 ] && echo 1 > {REWARD}; true'
    )
    asked = {"Makefile": b"build:\n\techo 6 > out.txt\n", "out.txt": b"6\n"}
    assert of_script(makes, "shell/makefile", files={}, solution=asked) == set()


@pytest.mark.parametrize("quick", [True, False])
def test_a_machine_that_cannot_start_sandboxes_says_nothing_of_the_task(quick: bool) -> None:
    task = Task(
        "double",
        "Write double(n).",
        checked(((3,), 6), ((4,), 8)),
        {"calc.py": b""},
        solution={"calc.py": b"def double(n):\n    return n * 2\n"},
    )
    slow = GradingSettings(sandbox=SandboxSettings(start_timeout_seconds=0.001))
    report = audit([task], AuditSettings(quick=quick, grading=slow))
    assert "did not start" in report.tasks[0].error
    assert report.tasks[0].findings == ()
    assert report.exit_code == 2
