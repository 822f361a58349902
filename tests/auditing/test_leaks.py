"""What an agent can reach: each leak planted and found, and its harmless twin left alone."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from steelyard.auditing import leak_isolation, leak_judges
from steelyard.auditing.findings import Finding, Kind, Strength
from steelyard.auditing.hidden import hidden_files
from steelyard.auditing.leaks import EXPLORER, explore, leaks, questions
from steelyard.auditing.secret_patterns import entropy_bits, find_secrets
from steelyard.sandbox import SandboxSettings
from steelyard.sandbox.bubblewrap import find_python
from steelyard.tasks import CheckSpec, FunctionChecks, Task, TestScript, load_tasks

EXAMPLES = Path(__file__).parents[2] / "examples"
GIVEN = b"def price(rows, rate):\n    return 0\n"
SOLUTION = (
    b"def price(rows, rate):\n"
    b"    taxable = [row.amount for row in rows if not row.exempt]\n"
    b"    return round(sum(taxable) * (1 + rate) + shipping_of(rows), 2)\n"
)
CHECKS = FunctionChecks(
    "shop.py",
    "price",
    (
        CheckSpec("none", ([], 0.19), 0),
        CheckSpec("one", ([100], 0.19), 119.0),
        CheckSpec("two", ([100, 50], 0.07), 160.5),
    ),
)
TEST = b"#!/bin/sh\npython3 -m pytest /tests/test_shop.py && echo 1 > /logs/verifier/reward.txt\n"
TASK = Task(
    "shop",
    "Let price in shop.py work.",
    CHECKS,
    files={"shop.py": GIVEN, "README.md": b"A small shop.\n"},
    solution={"shop.py": SOLUTION},
)


def with_files(task: Task = TASK, **files: bytes) -> Task:
    named = {name.replace("__", "/").replace("_dot_", "."): data for name, data in files.items()}
    return replace(task, files={**task.files, **named})


def found(task: Task) -> dict[str, Strength]:
    """Probe and strength of each finding, the strongest of a probe."""
    findings = leaks(task, SandboxSettings())
    assert all(f.kind is Kind.LEAK and f.evidence and f.use and f.fix for f in findings)
    return {f.probe.removeprefix("leaks/"): f.strength for f in reversed(findings)}


def test_a_clean_task_leaks_nothing() -> None:
    assert leaks(TASK, SandboxSettings()) == []


def test_the_example_tasks_leak_nothing() -> None:
    tasks = [
        *load_tasks(EXAMPLES / "falsy-defaults/tasks")[::40],
        *load_tasks(EXAMPLES / "arithmetic/prompts.jsonl")[:2],
        *load_tasks("humaneval")[32:164:60],
    ]
    assert len(tasks) > 8
    for task in tasks:
        assert leaks(task, SandboxSettings()) == [], task.name


def test_the_explorer_looks_into_everything_in_the_real_sandbox() -> None:
    """No finding must mean that nothing was there, not that nothing was looked at."""
    task = with_files(secret_dot_txt=b"x")
    answers = explore(task, SandboxSettings(), hidden_files(task)).answers
    assert answers["errors"] == {}
    assert answers["network"] == []
    assert answers["outside"]["marked"] == []
    assert answers["channels"] == {}
    assert answers["environment"]["HOME"] == "/app"
    assert answers["processes"] == []


# --- hidden content ----------------------------------------------------------------------------


def test_the_solution_under_another_name() -> None:
    assert found(with_files(old__backup_dot_txt=SOLUTION)) == {"hidden-files": Strength.PROVED}


def test_the_tests_in_the_workspace() -> None:
    script = replace(
        TASK, verifier=TestScript({"test.sh": TEST, "rows.csv": b"a,b\n" * 20, "small": b"x"})
    )
    assert found(with_files(script, run__it_dot_sh=TEST)) == {"hidden-files": Strength.PROVED}
    data_only = with_files(script, rows_dot_csv=b"a,b\n" * 20, small=b"x")
    assert found(data_only) == {"hidden-files": Strength.OBSERVATION}


def test_held_out_checks_in_the_workspace(tmp_path: Path) -> None:
    from steelyard.tasks import read_task, write_task

    write_task(replace(TASK, heldout=CHECKS), tmp_path / "shop")
    text = (tmp_path / "shop/heldout/checks.json").read_bytes()
    (tmp_path / "shop/environment/workspace/notes.json").write_bytes(text)
    probes = found(read_task(tmp_path / "shop"))
    assert probes["hidden-files"] is Strength.PROVED
    assert probes["expected-values"] is Strength.PROVED


def test_lines_of_the_solution_in_another_file_or_the_instruction() -> None:
    lines = b"# todo: someone wrote\n" + b"".join(SOLUTION.splitlines(keepends=True)[1:])
    assert found(with_files(notes_dot_txt=lines)) == {"solution-lines": Strength.PROVED}
    told = replace(TASK, instruction=f"Let price work:\n{lines.decode()}")
    assert found(told) == {"solution-lines": Strength.PROVED}
    ordinary = b"import os\ntaxable = []\nreturn round(total, 2)\n" + GIVEN
    assert found(with_files(other_dot_py=ordinary)) == {}


def test_lines_that_the_agent_is_given_anyway_do_not_count() -> None:
    given = GIVEN + b"def other(rows):\n    return sorted(rows, key=lambda row: (row.a, row.b))\n"
    task = replace(
        TASK,
        files={"shop.py": given, "copy.py": given},
        solution={"shop.py": given.replace(b"return 0", b"return 1")},
    )
    assert found(task) == {}


@pytest.mark.parametrize(
    "table",
    [
        "assert price([], 0.19) == 0\nassert price([100], 0.19) == 119.0\n"
        "assert price([100, 50], 0.07) == 160.5\n",
        json.dumps([{"in": c.arguments, "out": c.expected} for c in CHECKS.checks], indent=2),
        "CASES = [\n    (([], 0.19), 0),\n    (([100], 0.19), 119.0),\n"
        "    (([100, 50], 0.07), 160.5),\n]\n",
    ],
)
def test_a_table_of_the_expected_values(table: str) -> None:
    task = with_files(cases_dot_txt=table.encode())
    assert found(task) == {"expected-values": Strength.PROVED}
    some = "\n".join(table.replace("119.0", "118.0").splitlines())
    assert found(with_files(cases_dot_txt=some.encode())) == {}
    assert found(replace(TASK, instruction=table)) == {"expected-values": Strength.LEAD}


def test_the_solution_compiled(tmp_path: Path) -> None:
    def compiled(source: bytes) -> bytes:
        (tmp_path / "shop.py").write_bytes(source)
        names = (str(tmp_path / "shop.py"), str(tmp_path / "out.pyc"))
        command = f"import py_compile; py_compile.compile(*{names})"
        subprocess.run([find_python().executable, "-c", command], check=True)
        return (tmp_path / "out.pyc").read_bytes()

    place = "__pycache__/shop.cpython.pyc"
    task = replace(TASK, files={**TASK.files, place: compiled(SOLUTION)})
    assert found(task) == {"compiled-solution": Strength.PROVED}
    task = replace(TASK, files={**TASK.files, place: compiled(GIVEN)})
    assert found(task) == {}
    task = replace(TASK, files={**TASK.files, place: b"\0\0\r\n" + compiled(SOLUTION)[4:]})
    assert found(task) == {"compiled-solution": Strength.LEAD}


# --- git -----------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str, day: int = 1) -> str:
    date = f"2024-03-{day:02d}T00:00:00Z"
    roles = ("AUTHOR", "COMMITTER")
    who = {f"GIT_{a}_{b}": "a@example.com" for a in roles for b in ("NAME", "EMAIL")}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date, "GIT_CONFIG_GLOBAL": "/dev/null"}
    return subprocess.run(
        ["git", "-C", folder, *arguments],
        env={**os.environ, **who, **dates}, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "shop.py").write_bytes(GIVEN)
    git(folder, "add", "shop.py")
    git(folder, "commit", "-qm", "the shop", day=5)
    return folder


def task_of(folder: Path) -> Task:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return replace(TASK, files=files)


def test_a_repository_with_its_own_history_only(repository: Path) -> None:
    (repository / ".git/hooks").mkdir(exist_ok=True)
    assert found(task_of(repository)) == {}


def commit_fix(folder: Path, day: int) -> None:
    (folder / "shop.py").write_bytes(SOLUTION)
    git(folder, "commit", "-qam", "price is right", day=day)


@pytest.mark.parametrize("how", ["branch", "tag", "reflog", "packed", "remote"])
def test_a_future_commit(repository: Path, how: str) -> None:
    commit_fix(repository, 6)
    if how == "branch":
        git(repository, "branch", "later")
    if how == "tag":
        git(repository, "tag", "v2")
    if how == "remote":
        git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    git(repository, "reset", "-q", "--hard", "HEAD~1")
    if how == "packed":
        git(repository, "branch", "later", "ORIG_HEAD")
        git(repository, "gc", "-q")
    findings = leaks(task_of(repository), SandboxSettings())
    [finding] = [f for f in findings if f.probe == "leaks/git-history"]
    assert finding.proved
    assert "price is right" in finding.evidence
    assert "the reference solution's shop.py is one of them" in finding.evidence
    named = {"branch": "refs/heads/later", "tag": "refs/tags/v2", "remote": "refs/remotes/origin",
             "packed": "refs/heads/later", "reflog": "logs"}  # fmt: skip
    assert named[how] in finding.evidence


def test_a_future_beyond_the_tasks_base_commit(repository: Path) -> None:
    base = git(repository, "rev-parse", "HEAD")
    commit_fix(repository, 6)
    git(repository, "checkout", "-q", base, "--", ".")
    task = task_of(repository)
    assert "git-history" not in found(task)  # HEAD is the base where nothing else is said
    task = replace(task, metadata={"base_commit": base})
    assert found(task)["git-history"] is Strength.PROVED


def test_an_older_side_branch_is_a_lead(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "side")
    (repository / "side.txt").write_text("an idea\n")
    git(repository, "add", "side.txt")
    git(repository, "commit", "-qm", "side", day=2)
    git(repository, "checkout", "-q", "main")
    assert found(task_of(repository)) == {"git-history": Strength.LEAD}


def test_a_damaged_repository_is_not_passed_over(repository: Path) -> None:
    for path in repository.glob(".git/objects/*/*"):
        path.chmod(0o644)
        path.write_bytes(b"damaged")
    assert found(task_of(repository))["git-history"] is Strength.LEAD


def test_a_hostile_repository_runs_nothing_outside(repository: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "alias.log"):
        git(repository, "config", key, f"!touch {mark}")
    found(task_of(repository))
    assert not mark.exists()


# --- secrets --------------------------------------------------------------------------------------

TOKEN = "gh" + "p_" + "k3Jx9QmVt2LrWz8bNc4HsYd7FgAe1RpUo5iT"
SECRETS = {
    "an AWS access key id": "AKI" + "AQ7ZN3XWVB5K2MTRD",
    "a GitHub token": TOKEN,
    "a Slack token": "xo" + "xb-283947561029-8374650192837-aB3dE5fG7hJ9kL1mN3pQ5rS7",
    "an Anthropic key": "sk-" + "ant-api03-Zx8Qw2Er5Ty7Ui9Op1As3Df4Gh6Jk8Lz0Xc2Vb4Nm6",
    "an OpenAI key": "sk-" + "proj-Zx8Qw2Er5Ty7Ui9Op1As3Df4Gh6Jk8Lz0Xc2Vb4Nm6",
    "a Hugging Face token": "h" + "f_QwErTyUiOpAsDfGhJkLzXcVbNmqWeRtYuI",
    "a private key": "-----BEGIN RSA PRIVATE " + "KEY-----\nMIIEpAIBAAKCAQEA7bq9" +
    "Zk3vXw8LtR5nYc2HsJd4FgUe6PoIi1AmQz0BxVyC\nWk9TrNfLhGjSdEaOpMuKiXbYvQcZ3w5R7t2n4H8g\n" * 3,
}  # fmt: skip


@pytest.mark.parametrize(("what", "value"), SECRETS.items())
def test_a_key_in_a_file(what: str, value: str) -> None:
    text = f'client = connect("{value}")\n'
    [secret] = find_secrets(text, "client.py")
    assert (secret.what, secret.line, secret.certain) == (what, 1, True)
    assert value not in secret.shown
    task = with_files(client_dot_py=text.encode())
    assert found(task) == {"secret": Strength.PROVED}
    [finding] = leaks(task, SandboxSettings())
    assert value[8:] not in repr(finding)


def test_a_key_that_is_part_of_the_task_or_of_fixtures() -> None:
    text = f"token: {TOKEN}\n".encode()
    asked = replace(TASK, instruction=f"Remove {TOKEN} from the files.")
    assert found(with_files(asked, config_dot_yaml=text)) == {"secret": Strength.OBSERVATION}
    assert found(with_files(tests__fixtures__a_dot_yaml=text)) == {"secret": Strength.LEAD}


def test_a_key_in_a_variable_of_the_task() -> None:
    task = replace(TASK, environment_variables={"GITHUB_TOKEN": TOKEN, "MODE": "fast"})
    assert found(task)["secret"] in (Strength.PROVED, Strength.LEAD)
    assert found(replace(TASK, environment_variables={"MODE": "fast"})) == {}


@pytest.mark.parametrize(
    "text",
    [
        'DB_PASSWORD = "t7#kLq9!zWx2"',
        'api_key: "9f8Kd2LmQ7xVbT4nRz6WyP1s"',
        '{"client_secret": "Vq8mZ2xLp5KtR9wNc3HsYd7F"}',
    ],
)
def test_a_named_password_is_a_lead(text: str) -> None:
    assert [s.certain for s in find_secrets(text, "settings.py")] == [False]
    assert found(with_files(settings_dot_py=text.encode())) == {"secret": Strength.LEAD}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", 'password = "password"'),
        ("a.py", 'PASSWORD = "changeme123"'),
        ("a.py", 'api_key = os.environ["API_KEY"]'),
        ("a.py", 'token = get_token(request.headers["Authorization"])'),
        ("a.py", 'TOKEN_PATTERN = "[A-Za-z0-9]{20,40}x7"'),
        ("a.py", 'password_hash = "5f4dcc3b5aa765d61d8327deb882cf99"'),
        ("a.py", 'assert digest == "da39a3ee5e6b4b0d3255bfef95601890afd80709"'),
        ("a.py", 'uid = "123e4567-e89b-12d3-a456-426614174000"'),
        ("a.py", 'DATA = "aGVsbG8gd29ybGQsIHRoaXMgaXMgYSB0ZXN0IG9mIGJhc2U2NA=="'),
        ("a.py", 'key = "AKIAIOSFODNN7EXAMPLE"'),
        ("a.py", "max_new_tokens = 1234567890"),
        ("a.py", 'eos_token = "<|endoftext|>"'),
        ("a.py", 'next_token: "str | None" = None'),
        ("a.css", ".sk-folding-cube-with-a-very-long-name-indeed { color: red }"),
        ("a.md", "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----"),
        ("poetry.lock", 'token = "9f8Kd2LmQ7xVbT4nRz6WyP1s"'),
        ("package-lock.json", '"api_key": "9f8Kd2LmQ7xVbT4nRz6WyP1s"'),
        ("settings.yaml", "password: ${DB_PASSWORD}"),
        ("settings.yaml", "secret_path: /run/keys/db7/value"),
        ("a.py", "token = 9f8Kd2LmQ7xVbT4nRz6WyP1s"),
    ],
)
def test_what_is_no_secret(path: str, text: str) -> None:
    assert list(find_secrets(text, path)) == []


def test_entropy_is_shannons() -> None:
    assert entropy_bits("") == 0.0
    assert entropy_bits("aaaa") == 0.0
    assert entropy_bits("abcd") == 2.0


# --- a leaky sandbox: bubblewrap with the host's network, processes and places -------------------


def explore_leaky(
    task: Task, tmp_path: Path, targets: list[list[object]], *binds: str
) -> list[Finding]:
    asked = questions(task, hidden_files(task), "the-mark-of-another-episode", ())
    asked["targets"] = targets
    workspace = tmp_path / "workspace"
    for path, data in task.files.items():
        (workspace / path).parent.mkdir(parents=True, exist_ok=True)
        (workspace / path).write_bytes(data)
    python = find_python()
    system = ["/usr", "/bin", "/lib", "/lib64", *([python.prefix] if python.prefix else [])]
    done = subprocess.run(
        [
            *("bwrap", "--dev", "/dev", "--proc", "/proc", "--bind", workspace, "/work"),
            *(part for path in system for part in ("--ro-bind-try", path, path)),
            *binds, "--remount-ro", "/", "--chdir", "/work", "--", python.executable, "-I", "-c",
            EXPLORER.read_text(), json.dumps(asked),
        ],
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    answers = json.loads(done.stdout)
    assert answers["errors"] == {}
    return [
        *leak_isolation.isolation(answers, ()),
        *leak_judges.hidden_content(task, hidden_files(task), answers),
        *leak_judges.installed_fix(task, answers),
        *leak_judges.secrets(task, hidden_files(task), answers),
    ]


def strengths(findings: list[Finding]) -> dict[str, Strength]:
    return {finding.probe.removeprefix("leaks/"): finding.strength for finding in findings}


def test_a_reachable_network_is_proved(tmp_path: Path) -> None:
    udp = socket.socket(type=socket.SOCK_DGRAM)
    with socket.create_server(("127.0.0.1", 0)) as tcp, udp:
        udp.bind(("127.0.0.1", 0))

        def answer() -> None:
            data, sender = udp.recvfrom(512)
            udp.sendto(data[:2] + b"\x81\x80" + data[4:], sender)

        threading.Thread(target=answer, daemon=True).start()
        reachable: list[list[object]] = [
            ["tcp", "127.0.0.1", tcp.getsockname()[1]],
            ["udp", "127.0.0.1", udp.getsockname()[1]],
            ["metadata", "127.0.0.1", tcp.getsockname()[1]],
        ]
        findings = explore_leaky(TASK, tmp_path, reachable, "--unshare-pid")
        assert strengths(findings)["network"] is Strength.PROVED
        assert strengths(findings)["metadata"] is Strength.PROVED
        evidence = {f.probe: f.evidence for f in findings}["leaks/network"]
        assert "tcp 127.0.0.1" in evidence
        assert "udp 127.0.0.1" in evidence
        closed = explore_leaky(TASK, tmp_path, reachable, "--unshare-pid", "--unshare-net")
        assert strengths(closed) == {}


def test_places_of_the_verifier_and_of_other_episodes(tmp_path: Path) -> None:
    task = replace(TASK, verifier=TestScript({"test.sh": TEST}))
    for name in ("logs/verifier", "tests", "other", "run"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "tests/test.sh").write_bytes(TEST)
    (tmp_path / "other/notes").write_text("the-mark-of-another-episode")
    (tmp_path / "other/key").write_text(TOKEN)
    (tmp_path / "other/shop-2.0-py3-none-any.whl").write_bytes(b"PK\0")
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "run/docker.sock"))
        engine.listen()
        findings = explore_leaky(
            task, tmp_path, [], "--unshare-pid", "--unshare-net",
            "--bind", str(tmp_path / "logs"), "/logs",
            "--ro-bind", str(tmp_path / "tests"), "/tests",
            "--ro-bind", str(tmp_path / "other"), "/tmp",
            "--bind", str(tmp_path / "run"), "/run",
        )  # fmt: skip
    assert strengths(findings) == {
        "reward-channel": Strength.LEAD,  # the later of two: /tests is there
        "container-engine": Strength.PROVED,
        "other-episodes": Strength.PROVED,
        "hidden-files": Strength.PROVED,
        "package-cache": Strength.LEAD,
        "secret": Strength.PROVED,
    }
    [writable] = [f for f in findings if f.probe == "leaks/reward-channel" and f.proved]
    assert "/logs: writable" in writable.evidence
    assert "/tests" not in writable.evidence


def test_processes_of_others(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as other:
        time.sleep(0.1)
        findings = explore_leaky(TASK, tmp_path, [], "--unshare-net", "--bind", "/proc", "/proc")
        other.kill()
    assert strengths(findings)["processes"] in (Strength.PROVED, Strength.LEAD)


@pytest.mark.parametrize(("source", "strength"), [(SOLUTION, "proved"), (GIVEN, "lead")])
def test_the_fixed_release_installed_beside_its_source(
    tmp_path: Path, source: bytes, strength: str
) -> None:
    task = with_files(pyproject_dot_toml=b'[project]\nname = "my.shop"\nversion = "1"\n')
    site = tmp_path / "site"
    (site / "my_shop-2.0.dist-info").mkdir(parents=True)
    (site / "shop.py").write_bytes(source)
    (site / "my_shop-2.0.dist-info/METADATA").write_text(
        "Metadata-Version: 2.1\nName: my-shop\nVersion: 2.0\n"
    )
    (site / "my_shop-2.0.dist-info/RECORD").write_text("shop.py,,\n")
    python = find_python()
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    place = subprocess.run(
        [python.executable, "-I", "-c", asked], capture_output=True, text=True, check=True
    ).stdout.strip()
    findings = explore_leaky(
        task, tmp_path, [], "--unshare-pid", "--unshare-net", "--ro-bind", str(site), place
    )
    assert {k: v.value for k, v in strengths(findings).items()} == {"installed-fix": strength}
    other = replace(TASK, files={"pyproject.toml": b'[project]\nname = "another"\n'})
    findings = explore_leaky(
        other, tmp_path, [], "--unshare-pid", "--unshare-net", "--ro-bind", str(site), place
    )
    assert strengths(findings) == {}


def test_the_inventory_needs_no_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['transformers'] = None\n"
        "from steelyard.auditing.leaks import leaks\n"
        "from steelyard.auditing.fix_git import prune_git\n"
        "from steelyard.sandbox import SandboxSettings\n"
        "from steelyard.tasks import RewardFunction, Task\n"
        "task = Task('t', 'say hello', RewardFunction(__import__('pathlib').Path('x'), 'f', {}))\n"
        "assert leaks(task, SandboxSettings()) == []"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
