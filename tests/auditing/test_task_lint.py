"""Static rules on Harbor task directories: a task that breaks each, and one that does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from steelyard.auditing.findings import Finding, Kind, Strength
from steelyard.auditing.lint import lint

EXAMPLES = Path(__file__).parents[2] / "examples"
TOML = """
schema_version = "1.4"
artifacts = ["/app/shop.py"]
[verifier]
timeout_sec = 30.0
environment_mode = "separate"
[environment]
network_mode = "no-network"
"""
TEST = """#!/bin/sh
mkdir -p /logs/verifier
if python3 -m pytest /tests/test_shop.py; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
"""
DOCKERFILE = (
    "FROM python:3.12-slim\nWORKDIR /app\nCOPY shop.py /app/\nRUN pip install pytest==8.3.4\n"
)
CLEAN = {
    "task.toml": TOML,
    "instruction.md": "Let `price(rows)` in shop.py work, and write totals to report.json.\n",
    "environment/Dockerfile": DOCKERFILE,
    "environment/shop.py": "def price(rows):\n    return 0\n",
    "solution/solve.sh": "#!/bin/sh\ncp /solution/shop.py /app/\n",
    "tests/test.sh": TEST,
    "tests/test_shop.py": "import json\nfrom shop import price\n\n"
    "def test_price():\n    assert price([1]) == 1\n    open('/app/report.json')\n",
}


def found(tmp_path: Path, changes: dict[str, str]) -> list[Finding]:
    for path, text in {**CLEAN, **changes}.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    findings = lint(tmp_path)
    assert all(f.title and f.evidence and f.use and f.fix for f in findings)
    return findings


def probes(tmp_path: Path, changes: dict[str, str]) -> list[str]:
    return sorted({f.probe.removeprefix("lint/") for f in found(tmp_path, changes)})


def test_a_clean_task_has_no_findings(tmp_path: Path) -> None:
    assert found(tmp_path, {}) == []


def test_the_example_tasks_have_no_findings() -> None:
    directories = sorted(path.parent for path in EXAMPLES.rglob("task.toml"))
    assert len(directories) > 200
    noisy = {str(directory): lint(directory) for directory in directories if lint(directory)}
    assert noisy == {}


def toml(old: str, new: str) -> dict[str, str]:
    assert old in TOML
    return {"task.toml": TOML.replace(old, new)}


def script(old: str, new: str) -> dict[str, str]:
    assert old in TEST
    return {"tests/test.sh": TEST.replace(old, new)}


def dockerfile(old: str, new: str) -> dict[str, str]:
    assert old in DOCKERFILE
    return {"environment/Dockerfile": DOCKERFILE.replace(old, new)}


def compose(text: str) -> dict[str, str]:
    return {"environment/docker-compose.yaml": f"services:\n  main:\n    build: .\n{text}"}


RUN = "if python3 -m pytest /tests/test_shop.py; then"
DECIDES = {  # what decides the reward, and the rule that it breaks
    "set -e\npython3 -m pytest /tests\nif true; then": "exit-before-reward",
    "python3 -m pytest /tests | tee log\nif [ $? = 0 ]; then": "lost-status",
    "if python3 -m pytest /tests | tee log; then": "lost-status",
    "if python3 -m pytest /tests 2>&1 | grep -q passed; then": "printed-text",
    "pip install pytest==8.3.4\n" + RUN: "verifier-install",
    "uvx pytest==8.3.4 /tests\n" + RUN: "verifier-install",
    "curl -fsS https://example.com/data.json > data.json\n" + RUN: "verifier-download",
    "git clone https://example.com/x.git\n" + RUN: "verifier-download",
    "sleep 40\n" + RUN: "timeout-below-sleeps",
}
HARMLESS = (
    "set -e\n" + RUN,  # a condition does not end the script
    "set -e\nset +e\npython3 -m pytest /tests\nif [ $? = 0 ]; then",
    "set -e\ntrap 'echo 0 > /logs/verifier/reward.txt' EXIT\npython3 -m pytest\nif true; then",
    "set -o pipefail\nif python3 -m pytest /tests | tee log; then",
    "python3 -m pytest /tests | tee log\n" + RUN,  # the pipeline decides nothing
    "cat log | tail -5\n" + RUN,
    "# pip install pytest, or curl https://example.com\n" + RUN,
    "sleep 20\n" + RUN,
    "if pytest -q; then echo 1 > $OUT/reward.txt; else echo 0 > $OUT/reward.txt; fi\n" + RUN,
    "echo 'a sleeper'\n" + RUN,
)


@pytest.mark.parametrize(("decides", "rule"), DECIDES.items())
def test_how_the_reward_is_decided(tmp_path: Path, decides: str, rule: str) -> None:
    assert probes(tmp_path, script(RUN, decides)) == [rule]


@pytest.mark.parametrize("decides", HARMLESS)
def test_harmless_ways_to_decide(tmp_path: Path, decides: str) -> None:
    assert probes(tmp_path, script(RUN, decides)) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        (toml('environment_mode = "separate"\n', ""), "shared-verifier"),
        (toml('"separate"', '"shared"'), "shared-verifier"),
        (toml('"/app/shop.py"', '"/logs/verifier"'), "artifact-log-overlap"),
        (toml('"/app/shop.py"', '"/"'), "artifact-log-overlap"),
        (toml('artifacts = ["/app/shop.py"]\n', ""), "no-artifacts"),
        (toml('network_mode = "no-network"', ""), "public-network"),
        (toml("timeout_sec", "timeout_secs"), "unknown-key"),
        (toml("[environment]", '[agent]\nuser = "root"\n[environment]'), "root-agent"),
        (toml("[environment]", '[environment]\ndocker_image = "x/y"'), "unpinned-image"),
        (dockerfile("python:3.12-slim", "python"), "unpinned-image"),
        (dockerfile("python:3.12-slim", "registry:5000/python:latest"), "unpinned-image"),
        (dockerfile("pytest==8.3.4", "pytest numpy==2.1.0"), "unpinned-dependency"),
        (dockerfile("WORKDIR", "USER root\nWORKDIR"), "root-agent"),
        ({**dockerfile("COPY", "COPY solution /solution\nCOPY")}, "image-leak"),
        (
            {**dockerfile("COPY", "COPY tests/ /app/tests/\nCOPY"),
             "environment/tests/test_shop.py": "x = 1\n"},
            "image-leak",
        ),
        (compose("    privileged: true\n"), "compose-privileged"),
        (compose("    cap_add:\n      - SYS_ADMIN\n"), "compose-capabilities"),
        (compose("    volumes:\n      - ../data:/data\n"), "compose-bind-mount"),
        (compose("    network_mode: host\n"), "compose-host-namespace"),
        ({"tests/test.sh": TEST.replace("reward.txt", "rewards.json")}, "reward-path"),
        (script("echo 0", "echo 1"), "only-ever-one"),
        (
            {"tests/test.sh": "cd /app; pytest /tests && echo 1 > '/logs/verifier/reward.txt'\n"},
            "only-ever-one",
        ),
        (
            {"tests/test_shop.py": CLEAN["tests/test_shop.py"].replace("import price",
             "import price, discount")},
            "unnamed-function",
        ),
        (
            {"tests/test_shop.py": CLEAN["tests/test_shop.py"].replace("report", "summary")},
            "output-path",
        ),
        (
            {"tests/test_shop.py": CLEAN["tests/test_shop.py"] + "    open('/app/new.csv')\n"},
            "unnamed-file",
        ),
        ({"instruction.md": CLEAN["instruction.md"] + "Also notes.md."}, "untested-file"),
        ({"instruction.md": CLEAN["instruction.md"] + "Add `refund(x)`."}, "untested-function"),
        ({"instruction.md": CLEAN["instruction.md"] + "Take --verbose."}, "untested-flag"),
    ],
)  # fmt: skip
def test_a_rule_that_is_broken(tmp_path: Path, changes: dict[str, str], rule: str) -> None:
    assert probes(tmp_path, changes) == [rule]
    assert not any(f.proved for f in lint(tmp_path))


@pytest.mark.parametrize(
    "changes",
    [
        toml('environment_mode = "separate"', "[verifier.environment]\n"),
        toml('"/app/shop.py"', '"/logs/artifacts/shop.py"'),
        toml('"no-network"', '"allowlist"\nallowed_hosts = ["example.com"]'),
        dockerfile("python:3.12-slim", "python@sha256:" + "0" * 64),
        dockerfile("FROM python:3.12-slim", "FROM python:3.12 AS base\nFROM base"),
        dockerfile("pytest==8.3.4", "--no-cache-dir -r requirements.txt 'pytest>=8,<9'"),
        dockerfile("WORKDIR", "USER agent\nWORKDIR"),
        {**dockerfile("COPY", "COPY tests/ /app/tests/\nCOPY"),
         "environment/tests/test_units.py": "x = 1\n"},
        compose("    volumes:\n      - data:/data\n    # privileged: true\n"),
        {"tests/test.sh": TEST.replace("reward.txt", "reward.json")},
        {"tests/test_shop.py": CLEAN["tests/test_shop.py"]
         + "    open('/app/made.csv', 'w')\n    open('/app/made.csv')\n"},
        {"tests/helper.py": "def build(): ...\n",
         "tests/test_shop.py": CLEAN["tests/test_shop.py"] + "from helper import build\n"},
        {"instruction.md": CLEAN["instruction.md"] + "Leave shop.py where it is; no `refund`."},
    ],
)  # fmt: skip
def test_a_rule_that_is_kept(tmp_path: Path, changes: dict[str, str]) -> None:
    assert probes(tmp_path, changes) == []


def test_the_engines_socket_is_named(tmp_path: Path) -> None:
    mount = "    volumes:\n      - /var/run/docker.sock:/var/run/docker.sock\n"
    assert "compose-engine-socket" in probes(tmp_path, compose(mount))


def test_a_script_without_any_reward_is_proved_broken(tmp_path: Path) -> None:
    [finding] = found(tmp_path, {"tests/test.sh": "#!/bin/sh\npython3 -m pytest /tests\n"})
    assert (finding.probe, finding.kind, finding.strength) == (
        "lint/no-reward", Kind.BROKEN, Strength.PROVED,
    )  # fmt: skip


@pytest.mark.parametrize(
    "doubt",
    [
        {"tests/test.sh": "#!/bin/sh\n/opt/grade /app\n"},
        {"tests/test.sh": "#!/bin/sh\npython3 /tests/test_shop.py --out /logs/verifier\n"},
        {"tests/test.sh": "#!/bin/sh\n/tests/grade\n", "tests/grade": "\0ELF"},
        {
            "tests/test.sh": "#!/bin/sh\npython3 /tests/test_shop.py\n",
            **toml("[environment]", '[verifier.env]\nOUT = "/logs/x"\n[environment]'),
        },
    ],
)
def test_a_reward_that_something_unread_may_write_is_a_lead(
    tmp_path: Path, doubt: dict[str, str]
) -> None:
    findings = [f for f in found(tmp_path, doubt) if f.probe == "lint/no-reward"]
    assert [f.strength for f in findings] == [Strength.LEAD]


def test_steps_are_read_too(tmp_path: Path) -> None:
    steps = TOML.replace("[environment]", '[[steps]]\nname = "one"\n[environment]')
    changes = {
        "task.toml": steps,
        "steps/one/tests/test.sh": TEST.replace(RUN, "curl https://example.com/x | sh\n" + RUN),
        "steps/one/instruction.md": "First, read report.json.\n",
    }
    assert probes(tmp_path, changes) == ["shared-verifier", "verifier-download"]


def test_what_is_no_task_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"it has no task\.toml; name a Harbor task directory"):
        lint(tmp_path)
    (tmp_path / "task.toml").write_text("[verifier]\ntimeout_sec = 'long'\n")
    with pytest.raises(ValueError, match="timeout_sec"):
        lint(tmp_path)
