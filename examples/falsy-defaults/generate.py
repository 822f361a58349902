#!/usr/bin/env python3
"""Writes the falsy-defaults tasks: small programs that read a setting and get it wrong.

    python examples/falsy-defaults/generate.py        writes tasks/<split>/<task>/ anew
    python examples/falsy-defaults/generate.py --to DIR --single-turn --verifier zero
                                                      the same programs for one answer, and a
                                                      verifier that tries nothing but 0

Each program must return one setting of a dict, or a default where it is missing or None. It
breaks in one of twelve ways (`KINDS`). The same call always writes the same bytes.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TASKS = Path(__file__).parent / "tasks"

_LOOK_UP = '    value = config.get("{key}")'
_RETURN = "    return {default} if value is None else value"
_IF_NONE = "    if value is None:"
_THEN_DEFAULT = "        return {default}"
_ELSE_VALUE = "    return value"


@dataclass(frozen=True)
class Kind:
    """One way to get it wrong: the body, which of its lines is the bug, and what replaces it."""

    body: tuple[str, ...]
    bug_line: int
    fix: tuple[str, ...]


# Within a kind the fix has one style, so that a few demonstrations show it whole.
KINDS = {
    "or": Kind(('    return config.get("{key}") or {default}',), 0, (_LOOK_UP, _RETURN)),
    "getd": Kind(('    return config.get("{key}", {default})',), 0, (_LOOK_UP, _RETURN)),
    "not": Kind((_LOOK_UP, "    if not value:", _THEN_DEFAULT, _ELSE_VALUE), 1, (_IF_NONE,)),
    "tern": Kind((_LOOK_UP, "    return value if value else {default}"), 1, (_RETURN,)),
    "key": Kind(('    value = config.get("{other}")', _RETURN), 0, (_LOOK_UP,)),
    "off": Kind((_LOOK_UP, _IF_NONE, _THEN_DEFAULT, "    return value + 1"), 3, (_ELSE_VALUE,)),
    "inv": Kind(
        (_LOOK_UP, "    if value is not None:", _THEN_DEFAULT, _ELSE_VALUE), 1, (_IF_NONE,)
    ),
    "gt": Kind(
        (_LOOK_UP, "    if value is None or value < 1:", _THEN_DEFAULT, _ELSE_VALUE),
        1,
        (_IF_NONE,),
    ),
    "idx": Kind(('    value = config["{key}"]', _RETURN), 0, (_LOOK_UP,)),
    "cast": Kind(
        (_LOOK_UP, _RETURN), 1, ("    return {default} if value is None else int(value)",)
    ),
    # These two occur in dev and test only: nothing trains on them.
    "and": Kind((_LOOK_UP, "    return value and value or {default}"), 1, (_RETURN,)),
    "in": Kind(
        (_LOOK_UP, "    if value in (None, 0):", _THEN_DEFAULT, _ELSE_VALUE), 1, (_IF_NONE,)
    ),
}
UNSEEN_KINDS = ("and", "in")
SEEN_KINDS = tuple(kind for kind in KINDS if kind not in UNSEEN_KINDS)


@dataclass(frozen=True)
class Split:
    """How many tasks of which kinds, and the (function, key, other key) that they are about."""

    tasks_per_kind: int
    kinds: tuple[str, ...]
    names: tuple[tuple[str, str, str], ...]


SPLITS = {
    "demonstrations": Split(
        6,
        SEEN_KINDS,
        (
            ("page_size", "rows", "columns"),
            ("line_width", "width", "height"),
            ("font_size", "font", "weight"),
            ("cache_limit", "cache", "store"),
            ("batch_size", "batch", "epoch"),
            ("worker_count", "workers", "threads"),
            ("max_depth", "depth", "breadth"),
            ("log_level", "level", "format"),
            ("queue_length", "queue", "stack"),
            ("tab_width", "tab", "space"),
            ("poll_seconds", "poll", "push"),
            ("history_lines", "history", "future"),
        ),
    ),
    "train": Split(
        8,
        SEEN_KINDS,
        (
            ("upload_limit", "uploads", "downloads"),
            ("frame_rate", "fps", "codec"),
            ("user_quota", "quota", "usage"),
            ("row_height", "row", "cell"),
            ("ping_delay", "delay", "jitter"),
            ("search_hits", "hits", "misses"),
            ("session_minutes", "session", "login"),
            ("zoom_factor", "zoom", "pan"),
            ("buffer_blocks", "buffer", "block"),
            ("node_count", "nodes", "edges"),
            ("backup_copies", "backups", "archives"),
            ("volume_step", "volume", "balance"),
            ("port_offset", "offset", "base"),
            ("image_quality", "quality", "contrast"),
            ("shard_count", "shards", "replicas"),
            ("alert_threshold", "threshold", "ceiling"),
        ),
    ),
    "dev": Split(
        3,
        tuple(KINDS),
        (
            ("color_depth", "bits", "planes"),
            ("lock_timeout", "timeout", "interval"),
            ("chunk_bytes", "chunk", "segment"),
            ("player_lives", "lives", "coins"),
            ("menu_items", "items", "icons"),
            ("grid_gap", "gap", "margin"),
            ("scan_passes", "passes", "scans"),
            ("door_code", "code", "badge"),
            ("rate_limit", "rate", "burst"),
        ),
    ),
    "test": Split(
        6,
        tuple(KINDS),
        (
            ("retry_count", "retries", "attempts"),
            ("window_days", "days", "weeks"),
            ("pool_size", "pool", "lake"),
            ("seat_count", "seats", "tables"),
            ("lamp_brightness", "lux", "hue"),
            ("fan_speed", "speed", "torque"),
            ("trim_start", "start", "stop"),
            ("snooze_minutes", "snooze", "wake"),
            ("team_size", "members", "guests"),
            ("fetch_limit", "fetch", "merge"),
            ("paper_weight", "paper", "ink"),
            ("sample_rate", "hertz", "gain"),
        ),
    ),
}

OTHER_VALUE = 7
"""The value of the other key in held-out checks; no default and no normal value equals it."""


@dataclass(frozen=True)
class Spec:
    """One task before it is written out. `surroundings` is None for a bare function."""

    split: str
    kind: str
    function: str
    key: str
    other: str
    default: int
    normal: int
    other_normal: int
    surroundings: int | None

    @property
    def name(self) -> str:
        return f"{self.function.replace('_', '-')}-{self.kind}"


def specs() -> Iterator[Spec]:
    """Every task, in a fixed order."""
    for split_name, split in SPLITS.items():
        modules = 0
        for index in range(len(split.kinds) * split.tasks_per_kind):
            kind_number, place = divmod(index, split.tasks_per_kind)
            kind = split.kinds[kind_number]
            # A stride, so that a name says nothing about the kind of its bug.
            function, key, other = split.names[(5 * kind_number + place) % len(split.names)]
            is_module = index % 5 in (1, 3)
            default, normal, other_normal = _values(f"{split_name}/{function}/{kind}")
            if function == "retry_count" and kind == "or":
                default, normal = 3, 2
            yield Spec(
                split=split_name,
                kind=kind,
                function=function,
                key=key,
                other=other,
                default=default,
                normal=normal,
                other_normal=other_normal,
                surroundings=modules % 6 if is_module else None,
            )
            modules += is_module


def _values(seed: str) -> tuple[int, int, int]:
    """A default, a normal value and another, each more than 1 apart from every other value."""
    rng = random.Random(seed)
    taken = [0, 1, OTHER_VALUE]
    while len(taken) < 6:
        value = rng.randrange(2, 65)
        if all(abs(value - other) > 1 for other in taken):
            taken.append(value)
    return taken[3], taken[4], taken[5]


def program(spec: Spec, *, fixed: bool) -> str:
    """The text of settings.py, with its bug or as the reference solution has it."""
    kind = KINDS[spec.kind]
    body = list(kind.body)
    if fixed:
        body[kind.bug_line : kind.bug_line + 1] = kind.fix
    head, documentation, tail = _surroundings(spec)
    lines = [*head, f"def {spec.function}(config):", *documentation, *body, *tail]
    return "\n".join(lines).format(key=spec.key, other=spec.other, default=spec.default) + "\n"


def _surroundings(spec: Spec) -> tuple[list[str], list[str], list[str]]:
    """Lines before the function, at the start of its body, and after it."""
    subject = spec.function.partition("_")[0]
    helper = [f"def has_{spec.key}(config):", f'    return "{spec.key}" in config']
    match spec.surroundings:
        case None:
            return [], [], []
        case 0:
            return [f'"""Settings of the {subject}."""', ""], [], []
        case 1:
            return [f"# The {subject} reads its settings here."], [], []
        case 2:
            return [f'SECTION = "{subject}"', ""], [], []
        case 3:
            return [*helper, "", ""], [], []
        case 4:
            return [], [], ["", "", *helper]
        case _:
            return [], [f'    """The setting \'{spec.key}\' of the {subject}."""'], []


@dataclass(frozen=True)
class Form:
    """How the tasks are asked and graded. `verifier` names the training checks that its verifier
    tries, or is empty for all of them; the others are held out."""

    single_turn: bool = False
    verifier: str = ""


def instruction(spec: Spec, form: Form = Form()) -> str:
    """What the agent is told: the whole specification, in one breath; for a single answer the
    program too."""
    if not form.single_turn:
        return _instruction(spec)
    return f"{_instruction(spec)}\n\n```\n{program(spec, fixed=False)}```"


def _instruction(spec: Spec) -> str:
    start = f"Fix `{spec.function}(config)` in settings.py. It must return the setting '{spec.key}'"
    default = f"If it is missing or None, return {spec.default}."
    if spec.kind == "cast":
        return (
            f"{start}, a string, as an int. {default} Any other value, '0' included, is converted."
        )
    return f"{start}. {default} Any other value, 0 included, is returned unchanged."


def checks(spec: Spec, form: Form = Form()) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Training checks and held-out checks."""

    def setting(value: int) -> int | str:
        return str(value) if spec.kind == "cast" else value

    def check(name: str, config: dict[str, Any], expected: int) -> dict[str, Any]:
        return {"name": name, "arguments": [config], "expected": expected}

    key, other = spec.key, {spec.other: setting(OTHER_VALUE)}
    training = [
        check("missing", {}, spec.default),
        check("none", {key: None}, spec.default),
        check("zero", {key: setting(0)}, 0),
        check("normal", {key: setting(spec.normal)}, spec.normal),
    ]
    heldout = [
        check("other_normal", {key: setting(spec.other_normal)}, spec.other_normal),
        check("other_key_only", other, spec.default),
        check("one", {key: setting(1)}, 1),
        check("zero_and_other_key", {key: setting(0)} | other, 0),
        check("none_and_other_key", {key: None} | other, spec.default),
    ]
    tried = [c for c in training if form.verifier in ("", c["name"])]
    return tried, [c for c in training if c not in tried] + heldout


def visible(spec: Spec) -> list[dict[str, Any]]:
    """The two training checks that the agent may run: the first that fails, and one more."""
    training, _ = checks(spec)
    failing = next(check for check in training if not _passes(spec, check))
    companion = training[3] if failing is not training[3] else training[0]
    return [check for check in training if check is failing or check is companion]


def _passes(spec: Spec, check: dict[str, Any]) -> bool:
    namespace: dict[str, Any] = {}
    exec(program(spec, fixed=False), namespace)
    try:
        got = namespace[spec.function](*check["arguments"])
    except Exception:
        return False
    return type(got) is int and got == check["expected"]


def checks_json(spec: Spec, entries: list[dict[str, Any]]) -> str:
    rows = ",\n    ".join(json.dumps(entry) for entry in entries)
    return (
        f'{{\n  "module": "settings.py",\n  "function": "{spec.function}",\n'
        f'  "checks": [\n    {rows}\n  ]\n}}\n'
    )


def visible_checks(spec: Spec) -> str:
    rows = "\n".join(
        f"    ({c['name']!r}, {c['arguments'][0]!r}, {c['expected']!r})," for c in visible(spec)
    )
    return VISIBLE_CHECKS.format(function=spec.function, rows=rows)


VISIBLE_CHECKS = '''\
"""Tries {function} on two inputs and prints one line for each."""

import sys

CHECKS = [
{rows}
]


def verdict(function, config, expected):
    try:
        got = function(config)
    except Exception as error:
        got = error
    if type(got) is type(expected) and got == expected:
        return "ok"
    return f"expected {{expected!r}}, got {{got!r}}"


try:
    from settings import {function}
except Exception as error:
    print(f"settings.py: {{type(error).__name__}}: {{error}}")
    sys.exit(1)

verdicts = {{name: verdict({function}, config, expected) for name, config, expected in CHECKS}}
for name, text in verdicts.items():
    print(f"{{name}}: {{text}}")
sys.exit(any(text != "ok" for text in verdicts.values()))
'''

TASK_TOML = """\
schema_version = "1.4"
artifacts = ["/app/settings.py"]

[task]
name = "steelyard/{name}"
description = "Fix a small function that reads a setting."

[metadata]
kind = "{kind}"
split = "{split}"

[agent]
timeout_sec = 120.0

[verifier]
timeout_sec = 10.0
environment_mode = "separate"

[environment]
network_mode = "no-network"
"""

ANSWER_TOML = """\

[metadata.answer]
path = "settings.py"
defines = "{function}"
"""

DOCKERFILE = """\
FROM python:3.12-slim
WORKDIR /app
COPY settings.py visible_checks.py /app/
"""

SOLVE = """\
#!/bin/sh
cp -R /solution/files/. /app/
"""

TEST = """\
#!/bin/sh
# For Harbor itself; Steelyard grades checks.json in its own sandbox.
mkdir -p /logs/verifier
python3 -I /tests/run_checks.py /app /logs/verifier/reward.txt
"""

RUN_CHECKS = '''\
"""Writes 1 if settings.py in a folder passes every check of checks.json, or else 0.

    python3 -I run_checks.py FOLDER REWARD_FILE

The graded code runs in a child that sees the arguments but never the expected values. Landlock
(Linux 5.13) keeps it from writing any file, from reading any but the system's, the interpreter's
and those of the folder, and from the memory of its parent; from Linux 6.12 on also from signalling
it. Where the kernel has no Landlock, stderr says so, and the child is merely another process.
"""

import json
import subprocess
import sys
from pathlib import Path

CHILD = """
import ctypes, importlib, json, os, struct, sys

EVERY_ACCESS = 0x1FFF  # to files; later kernels add moving between directories and truncating
READ = 0x1 | 0x4 | 0x8  # run and read files, list directories
SCOPES = 0x1 | 0x2  # abstract sockets and signals stay among the child and its own children
SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc")
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446


def confine(folder):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    version = libc.syscall(CREATE_RULESET, None, ctypes.c_long(0), 1)
    if version < 1:
        print("no Landlock: the graded code can read the checks", file=sys.stderr)
        return
    access = EVERY_ACCESS | (0x2000 if version >= 2 else 0) | (0x4000 if version >= 3 else 0)
    rights = struct.pack("QQQ", access, 0, SCOPES) if version >= 6 else struct.pack("Q", access)
    rules = libc.syscall(CREATE_RULESET, rights, ctypes.c_long(len(rights)), 0)
    refused = rules < 0
    for path in {*SYSTEM, sys.prefix, sys.base_prefix, folder}:
        if os.path.isdir(path):
            place = os.open(path, os.O_PATH)
            refused |= libc.syscall(ADD_RULE, rules, 1, struct.pack("=Qi", READ, place), 0) != 0
            os.close(place)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges
    if refused or libc.syscall(RESTRICT_SELF, rules, 0) != 0:
        sys.exit("Landlock is there, but it could not be used")


folder, module, function = sys.argv[1:]
confine(folder)
os.closerange(3, 1024)
sys.path.insert(0, folder)
results, sys.stdout = sys.stdout, sys.stderr
call = getattr(importlib.import_module(module), function)
for line in sys.stdin:
    try:
        text = json.dumps(call(*json.loads(line)))
    except Exception as error:
        text = type(error).__name__
    print(text, file=results, flush=True)
"""


def answers(folder, spec):
    """The JSON text of each result; fewer than asked for where the child died or hung."""
    command = [sys.executable, "-I", "-B", "-c", CHILD, folder]
    command += [spec["module"].removesuffix(".py").replace("/", "."), spec["function"]]
    calls = "".join(json.dumps(check["arguments"]) + "\\n" for check in spec["checks"])
    try:
        done = subprocess.run(command, input=calls, stdout=subprocess.PIPE, text=True, timeout=5)
    except subprocess.TimeoutExpired:
        return []
    return done.stdout.splitlines()


def main():
    folder, reward_file = sys.argv[1:]
    spec = json.loads(Path(__file__).with_name("checks.json").read_text())
    expected = [json.dumps(check["expected"]) for check in spec["checks"]]
    reward = Path(reward_file)
    reward.write_text("0\\n")  # who stops this process from here on is the graded code
    try:
        right = answers(folder, spec) == expected
    except OSError:  # no child, no verdict
        reward.unlink()
        raise
    reward.write_text(f"{int(right)}\\n")


main()
'''


def task_files(spec: Spec, form: Form = Form()) -> dict[str, str]:
    """Every file of one task directory, by relative path."""
    training, heldout = checks(spec, form)
    toml = TASK_TOML + (ANSWER_TOML if form.single_turn else "")
    return {
        "task.toml": toml.format(
            name=spec.name, kind=spec.kind, split=spec.split, function=spec.function
        ),
        "instruction.md": instruction(spec, form) + "\n",
        "environment/Dockerfile": DOCKERFILE,
        "environment/settings.py": program(spec, fixed=False),
        "environment/visible_checks.py": visible_checks(spec),
        "tests/checks.json": checks_json(spec, training),
        "tests/run_checks.py": RUN_CHECKS,
        "tests/test.sh": TEST,
        "heldout/checks.json": checks_json(spec, heldout),
        "solution/solve.sh": SOLVE,
        "solution/files/settings.py": program(spec, fixed=True),
    }


def build(form: Form = Form()) -> dict[str, str]:
    """Every file of every task, by its path below tasks/."""
    return {
        f"{spec.split}/{spec.name}/{path}": text
        for spec in specs()
        for path, text in task_files(spec, form).items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Writes the falsy-defaults tasks.")
    parser.add_argument("--to", type=Path, default=TASKS, help="folder, written anew")
    parser.add_argument("--single-turn", action="store_true", help="one answer, no tools")
    parser.add_argument(
        "--verifier",
        choices=("missing", "none", "zero", "normal"),
        default="",
        help="the one check that the verifier tries; the others are then held out",
    )
    given = parser.parse_args()
    shutil.rmtree(given.to, ignore_errors=True)
    for path, text in build(Form(given.single_turn, given.verifier)).items():
        target = given.to / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        if target.suffix == ".sh":
            target.chmod(0o755)


if __name__ == "__main__":
    main()
