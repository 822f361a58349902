"""The Harbor reader and writer: nothing lost, nothing silently accepted."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from steelyard.tasks import (
    AnswerForm,
    Artifact,
    CheckProgram,
    CheckSpec,
    CollectHook,
    FunctionChecks,
    Handover,
    Task,
    TaskWarning,
    TestScript,
    read_task,
    read_task_directory,
    write_task,
    write_task_directory,
)

TASK_TOML = """\
schema_version = "1.4"
artifacts = ["/app/settings.py", {source = "/app/log", exclude = ["*.tmp"]}]

[task]
name = "acme/retry"
keywords = ["python"]

[metadata]
kind = "or"
split = "train"
difficulty = 3

[agent]
timeout_sec = 30.0

[verifier]
timeout_sec = 5.5
environment_mode = "separate"

[environment]
network_mode = "no-network"
"""

CHECKS = """{"module": "settings.py", "function": "retry_count", "checks": [
  {"name": "zero", "arguments": [{"retries": 0}], "expected": 0}]}"""

FILES = {
    "task.toml": TASK_TOML,
    "instruction.md": "Fix it.\n",
    "environment/Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\nCOPY settings.py /app/\n",
    "environment/settings.py": "def retry_count(config):\n    return 3\n",
    "tests/checks.json": CHECKS,
    "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
    "solution/files/settings.py": "def retry_count(config):\n    return 0\n",
    "solution/solve.sh": "cp -R /solution/files/. /app/\n",
    "README.md": "A task.\n",
}


def lay(root: Path, files: Mapping[str, str | None]) -> Path:
    """Writes a task directory; None leaves a file out."""
    for path, text in files.items():
        if text is not None:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
    return root


def contents(root: Path) -> dict[str, bytes]:
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }


def test_reads_every_part_of_a_task(tmp_path: Path) -> None:
    task = read_task(lay(tmp_path / "t", FILES))
    assert task == Task(
        name="retry",
        instruction="Fix it.",
        verifier=FunctionChecks(
            "settings.py", "retry_count", (CheckSpec("zero", ({"retries": 0},), 0),)
        ),
        files={"settings.py": b"def retry_count(config):\n    return 3\n"},
        solution={"settings.py": b"def retry_count(config):\n    return 0\n"},
        kind="or",
        split="train",
        metadata={"difficulty": 3},
        agent_timeout_seconds=30.0,
        verifier_timeout_seconds=5.5,
        source=tmp_path / "t",
        handover=Handover((Artifact("settings.py"), Artifact("log", ("*.tmp",)))),
    )


def test_a_directory_survives_reading_and_writing(tmp_path: Path) -> None:
    strange = TASK_TOML.replace("[agent]", "[agent]\npatience = [1, {a = 2}]") + "colour = 'red'\n"
    files = FILES | {"task.toml": strange, "heldout/checks.json": CHECKS, "notes/a.txt": "kept"}
    first = lay(tmp_path / "first", files)
    read = read_task_directory(first)
    write_task_directory(read, tmp_path / "second")
    before, after = contents(first), contents(tmp_path / "second")
    assert sorted(before) == sorted(after)
    assert tomllib.loads(after.pop("task.toml").decode()) == tomllib.loads(strange)
    del before["task.toml"]
    for each in (before, after):
        for name in ("tests/checks.json", "heldout/checks.json"):
            each[name] = b"".join(each[name].split())  # laid out anew
    assert before == after
    assert (tmp_path / "second/solution/solve.sh").stat().st_mode & 0o111


def test_unknown_keys_are_reported_with_a_hint_and_not_dropped(tmp_path: Path) -> None:
    text = TASK_TOML.replace("timeout_sec = 30.0", "timeout_secs = 30.0") + "colour = 'red'\n"
    directory = lay(tmp_path / "t", FILES | {"task.toml": text})
    with pytest.warns(TaskWarning) as caught:
        read_task(directory)
    assert sorted(str(w.message) for w in caught) == [
        f"{directory}/task.toml: agent.timeout_secs is not a key of Harbor 1.4, so it is kept but "
        "does nothing; did you mean timeout_sec?",
        f"{directory}/task.toml: environment.colour is not a key of Harbor 1.4, so it is kept but "
        "does nothing",
    ]


def test_a_clean_task_gives_no_warning(tmp_path: Path) -> None:
    assert read_task_directory(lay(tmp_path / "t", FILES)).warnings == ()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        (
            "timeout_sec = 30.0",
            "timeout_sec = 'soon'",
            "agent.timeout_sec = 'soon' is not valid; give a number of seconds above 0",
        ),
        (
            "timeout_sec = 5.5",
            "timeout_sec = 0",
            "verifier.timeout_sec = 0 is not valid; give a number of seconds above 0",
        ),
        (
            '"acme/retry"',
            '"retry"',
            "task.name = 'retry' is not valid; give a name of the form \"organisation/task\"",
        ),
        ('name = "acme/retry"', "", "task.name is missing; give a name of the form"),
        ('"no-network"', '"off"', "environment.network_mode = 'off' is not valid; give \"no-net"),
        ('"separate"', '"alone"', "verifier.environment_mode = 'alone' is not valid; give \"sha"),
        ('keywords = ["python"]', "keywords = 3", "task.keywords = 3 is not valid; give a list of"),
        ('"/app/log"', '"/app/../log"', "artifacts[1].source = '/app/../log' is not valid; give"),
        ('"/app/settings.py", ', "7, ", "artifacts[0] = 7 is not valid; give a list of paths"),
        ('"1.4"', '"2.0"', "schema_version = '2.0' is not valid; give a version from"),
        ('kind = "or"', "kind = 1", "[metadata]: kind = 1 is not valid; give a string"),
        ('kind = "or"', "answer = {}", "[metadata]: answer.path is missing; give a file of"),
        ("[agent]", "[agent", "this is not TOML (Expected ']'"),
        ("network_mode", "gpus = 1\nnetwork_mode", "environment.gpus asks for something"),
        ("network_mode", "docker_image = 'x'\nnetwork_mode", "environment.docker_image asks"),
        ("network_mode", "env = {A = '${B}'}\nnetwork_mode", "environment.env asks for something"),
        ('exclude = ["*.tmp"]', "service = 'db'", "artifacts asks for something"),
        (
            '"/app/log"',
            '"/logs/log"',
            "artifacts names /logs/log, but only what lies below WORKDIR",
        ),
        ("timeout_sec = 5.5", "env = {A = '${B}'}", "verifier.env asks for something"),
        (
            "timeout_sec = 5.5",
            "collect = [{command = 'x', service = 'db'}]",
            "verifier.collect asks for something",
        ),
        (
            "[environment]",
            "[verifier.environment]\ngpus = 2\n[environment]",
            "verifier.environment.gpus asks for something",
        ),
    ],
)
def test_a_malformed_field_is_one_sentence(
    tmp_path: Path, old: str, new: str, sentence: str
) -> None:
    assert old in TASK_TOML
    directory = lay(tmp_path / "t", FILES | {"task.toml": TASK_TOML.replace(old, new, 1)})
    with pytest.raises(ValueError, match=r"task.toml") as caught:
        read_task(directory)
    assert str(caught.value).startswith(f"{directory}/task.toml")
    assert sentence in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_two_malformed_fields_are_two_sentences(tmp_path: Path) -> None:
    text = TASK_TOML.replace("30.0", "-1").replace('"separate"', '"alone"')
    with pytest.raises(ValueError, match="timeout_sec") as caught:
        read_task(lay(tmp_path / "t", FILES | {"task.toml": text}))
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tests/checks.json": None, "tests/test.sh": None}, "the task has no tests; add tests/"),
        ({"tests/checks.json": None, "tests/test.sh": None, "tests/a.py": ""}, "holds neither"),
        ({"instruction.md": None}, "instruction.md is missing"),
        ({"instruction.md": " \n"}, "instruction.md: it is empty; say what is asked"),
        ({"task.toml": None}, "task.toml is missing"),
        ({"tests/checks.json": "{"}, "tests/checks.json: this is not JSON"),
        ({"tests/checks.json": CHECKS.replace("0}]}", "NaN}]}")}, "NaN is not a JSON value"),
        ({"tests/checks.json": CHECKS.replace('"zero"', "1")}, "checks[0].name = 1 is not valid"),
        (
            {"tests/checks.json": CHECKS.replace("expected", "want")},
            "checks[0].expected is missing",
        ),
        ({"tests/checks.json": CHECKS.replace("settings.py", "seting.py")}, "calls? seting.py"),
        ({"tests/checks.json": CHECKS.replace("settings.py", "../s.py")}, "module = '../s.py'"),
        ({"environment/compose.yaml": "x"}, "compose environments are not supported"),
        ({"environment/.dockerignore": "*.pyc"}, ".dockerignore: its patterns are not supported"),
        ({"tests/checks.json": None, "tests/Dockerfile": "FROM python"}, "verifier images"),
    ],
)
def test_a_broken_directory_is_refused_with_the_fix(
    tmp_path: Path, changes: dict[str, str | None], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence.replace("[", r"\[")) as caught:
        read_task(lay(tmp_path / "t", FILES | changes))
    assert str(tmp_path / "t") in str(caught.value)


@pytest.mark.parametrize("place", ["/", "/home", "/usr/src/app", "/tmp/w", "/tests", "/a/$B"])
def test_a_working_directory_that_no_sandbox_has_is_refused(tmp_path: Path, place: str) -> None:
    changes = {"environment/Dockerfile": f"FROM python\nWORKDIR {place}\n"}
    with pytest.raises(ValueError, match=r"environment/Dockerfile: WORKDIR .*write WORKDIR /app"):
        read_task(lay(tmp_path / "t", FILES | changes))


def test_the_working_directory_is_read_and_written(tmp_path: Path) -> None:
    script = {"tests/checks.json": None, "task.toml": TASK_TOML.replace("/app/", "/srv/w/")}
    dockerfile = "FROM python:3.12-slim\nWORKDIR /srv\nWORKDIR w/\nCOPY settings.py ./\n"
    first = lay(tmp_path / "first", FILES | script | {"environment/Dockerfile": dockerfile})
    task = read_task(first)
    assert task.working_directory == "/srv/w"
    assert task.handover.artifacts[0] == Artifact("settings.py")
    write_task(task, tmp_path / "second")
    assert replace(read_task(tmp_path / "second"), source=None) == replace(task, source=None)
    assert b"/srv/w/" in (tmp_path / "second/solution/solve.sh").read_bytes()
    kept = read_task_directory(first)
    override = kept.config.environment.model_copy(update={"workdir": "/srv/w"})
    config = kept.config.model_copy(update={"environment": override})
    moved = replace(kept, task=replace(task, working_directory="/data"), config=config)
    write_task_directory(moved, tmp_path / "third")
    assert read_task(tmp_path / "third").working_directory == "/data"


def test_repeated_check_names_are_refused(tmp_path: Path) -> None:
    entry = '{"name": "zero", "arguments": [], "expected": 0}'
    text = f'{{"module": "settings.py", "function": "f", "checks": [{entry}, {entry}]}}'
    with pytest.raises(ValueError, match="'zero' occurs 2 times"):
        read_task(lay(tmp_path / "t", FILES | {"tests/checks.json": text}))


def test_links_are_refused(tmp_path: Path) -> None:
    directory = lay(tmp_path / "t", FILES)
    (directory / "environment/secret.txt").symlink_to("/etc/passwd")
    with pytest.raises(ValueError, match=r"secret.txt: a task holds plain files only"):
        read_task(directory)


def test_a_script_is_the_verifier_where_there_are_no_checks(tmp_path: Path) -> None:
    files = FILES | {"tests/checks.json": None, "tests/data/x.txt": "1"}
    task = read_task(lay(tmp_path / "t", files))
    assert isinstance(task.verifier, TestScript)
    assert sorted(task.verifier.files) == ["data/x.txt", "test.sh"]


def test_what_does_nothing_here_is_said(tmp_path: Path) -> None:
    text = TASK_TOML.replace('"no-network"', '"public"\nmemory_mb = 512\nenv = {MODE = "x"}')
    files = FILES | {"task.toml": text, "solution/files/settings.py": None, "trajectory.json": "{}"}
    said = "\n".join(read_task_directory(lay(tmp_path / "t", files)).warnings)
    for part in (
        "memory_mb",
        "network_mode is public",
        "trajectory.json",
        "no solution/files/",
        "MODE",
    ):
        assert part in said


def test_the_task_wins_over_the_old_files(tmp_path: Path) -> None:
    read = read_task_directory(lay(tmp_path / "a", FILES))
    changed = replace(
        read.task, name="other", files={"x/new.py": b"1"}, heldout=read.task.verifier, kind=""
    )
    write_task_directory(replace(read, task=changed), tmp_path / "b")
    again = read_task_directory(tmp_path / "b")
    assert replace(again.task, source=None) == replace(changed, source=None)
    assert again.config.task is not None
    assert again.config.task.name == "acme/other"
    assert again.files["tests/test.sh"] == read.files["tests/test.sh"]
    assert "environment/settings.py" not in again.files


@pytest.mark.parametrize(
    ("task", "sentence"),
    [
        (Task("a b", "x", TestScript({"test.sh": b""})), "task.name = 'local/a b' is not valid"),
        (Task("a", "x", CheckProgram("m.py", "f", "")), "a CheckProgram has no Harbor form"),
        (
            Task("a", "x", FunctionChecks("m.py", "f", (CheckSpec("c", ((1, 2),), 0),))),
            "tuples have no JSON form",
        ),
        (
            Task("a", "x", FunctionChecks("m.py", "f", (CheckSpec("c", ({1},), 0),))),
            "use JSON values",
        ),
    ],
)
def test_a_task_without_harbor_form_is_not_written(
    tmp_path: Path, task: Task, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        write_task(task, tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_an_occupied_directory_is_not_overwritten(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not empty; choose a new directory"):
        write_task(Task("a", "x", TestScript({"test.sh": b""})), lay(tmp_path / "t", FILES))


NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,8}", fullmatch=True)
PATHS = st.from_regex(r"([a-z][a-z0-9_]{0,5}/){0,2}([a-zA-Z][a-z0-9_]{0,5}\.py|Dockerfile)",
                      fullmatch=True)  # fmt: skip
FILE_SETS = st.dictionaries(PATHS, st.binary(max_size=20), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)  # fmt: skip
CHECK_SETS = st.lists(
    st.builds(CheckSpec, st.text(min_size=1, max_size=8), st.lists(VALUES).map(tuple), VALUES),
    min_size=1,
    max_size=3,
    unique_by=lambda check: check.name,
).map(lambda checks: FunctionChecks("new.py", "f", tuple(checks)))
VERIFIERS = CHECK_SETS | FILE_SETS.map(
    lambda files: TestScript(
        {k: v for k, v in files.items() if k != "Dockerfile"} | {"test.sh": b""}
    )
)
PRINTABLE = st.text(
    st.characters(codec="utf-8", exclude_characters="\r", categories=["L", "N", "P", "Zs"])
)
TASKS = st.builds(
    Task,
    name=NAMES,
    instruction=PRINTABLE.filter(str.strip),
    verifier=VERIFIERS,
    files=FILE_SETS.filter(lambda files: not _clashes(files)),
    heldout=st.none() | VERIFIERS,
    solution=st.none() | st.just({"new.py": b"x = 1"}),
    answer=st.none() | st.builds(AnswerForm, st.just("a.py"), PRINTABLE, PRINTABLE),
    kind=NAMES | st.just(""),
    split=st.sampled_from(["", "train", "dev", "test"]),
    metadata=st.dictionaries(NAMES.filter(lambda n: n not in ("kind", "split", "answer")),
                             st.integers() | PRINTABLE, max_size=2),
    agent_timeout_seconds=st.floats(0.1, 1e4),
    verifier_timeout_seconds=st.floats(0.1, 1e4),
    packages=st.sampled_from([(), ("pytest",), ("numpy>=1", "pytest")]),
    handover=st.builds(
        Handover,
        st.lists(st.builds(Artifact, NAMES, st.sampled_from([(), ("*.o", "a b")])), max_size=2).map(
            tuple
        ),
        st.sampled_from([(), (CollectHook("make 'it'", 2.5),)]),
    ),
    working_directory=st.sampled_from(["/app", "/srv/my work", "/root"]),
    environment_variables=st.dictionaries(
        st.from_regex(r"[A-Z][A-Z0-9_]{0,5}", fullmatch=True),
        st.from_regex(r"[ -#%-Z\]^a-z]{0,9}", fullmatch=True), max_size=2
    ),
)  # fmt: skip


def _clashes(files: Mapping[str, bytes]) -> bool:
    """A path that is both a file and a folder is no workspace."""
    return any(a.startswith(f"{b}/") for a in files for b in files)


@given(task=TASKS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_task_survives_writing_and_reading(
    tmp_path_factory: pytest.TempPathFactory, task: Task
) -> None:
    directory = tmp_path_factory.mktemp("task") / "written"
    write_task(task, directory)
    read = read_task_directory(directory).task
    assert replace(read, source=None) == task
    if isinstance(task.verifier, FunctionChecks):
        assert repr(read.verifier) == repr(task.verifier)  # == takes 1 for True


STEPS_TOML = """\
multi_step_reward_strategy = "final"
artifacts = ["/app/a.py"]

[verifier]
timeout_sec = 7.0
environment_mode = "separate"
env = { MODE = "x" }

[[steps]]
name = "one"
min_reward = 0.5
artifacts = ["out"]

[[steps]]
name = "two"
verifier = { timeout_sec = 3.0, environment_mode = "shared", collect = [{ command = "make" }] }
"""

STEP_FILES = {
    "task.toml": STEPS_TOML,
    "environment/Dockerfile": "FROM python:3.12-slim\nWORKDIR /app\nCOPY a.py /app/\n",
    "environment/a.py": "",
    "tests/helper.py": "shared",
    "steps/one/instruction.md": "First.\n",
    "steps/one/workdir/b.py": "b",
    "steps/one/tests/test.sh": "true",
    "steps/two/instruction.md": "Second.\n",
    "steps/two/tests/test.sh": "false",
    "steps/two/solution/files/a.py": "2",
}


def test_steps_are_read_in_order_and_written_back(tmp_path: Path) -> None:
    first = lay(tmp_path / "first", STEP_FILES)
    read = read_task_directory(first)
    one, two = read.task.steps
    assert (read.task.instruction, read.task.step_reward) == ("First.", "final")
    assert read.task.files == {"a.py": b"", "b.py": b"b"}
    assert one.verifier == TestScript({"helper.py": b"shared", "test.sh": b"true"}, {"MODE": "x"})
    assert (one.files, one.min_reward) == ({"b.py": b"b"}, {"reward": 0.5})
    assert one.handover == Handover((Artifact("a.py"), Artifact("out")))
    assert (one.verifier_timeout_seconds, two.verifier_timeout_seconds) == (7.0, 3.0)
    assert two.handover == Handover((), (CollectHook("make"),))
    assert two.solution == {"a.py": b"2"}
    assert read.task.verifier == two.verifier
    write_task_directory(read, tmp_path / "second")
    again = read_task_directory(tmp_path / "second").task
    assert replace(again, source=None) == replace(read.task, source=None)
    assert sorted(contents(first)) == sorted(contents(tmp_path / "second"))
    write_task(read.task, tmp_path / "third")  # without what the old directory said
    third = replace(read_task_directory(tmp_path / "third").task, source=None)
    assert third == replace(read.task, source=None)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"steps/two/instruction.md": None}, "steps/two/instruction.md: it is missing or empty"),
        ({"steps/two/tests/test.sh": None}, "it holds neither checks.json nor test.sh"),
        ({"steps/one/workdir/setup.sh": "x"}, "set-up scripts are not supported"),
        ({"steps/one/tests/Dockerfile": "x"}, "verifier images are not supported"),
        ({"task.toml": STEPS_TOML.replace('"two"', '"one"')}, "two steps are named 'one'"),
        ({"task.toml": STEPS_TOML.replace('"two"', '"../x"')}, "is no folder name"),
    ],
)
def test_a_broken_step_is_refused(
    tmp_path: Path, changes: dict[str, str | None], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        read_task(lay(tmp_path / "t", STEP_FILES | changes))


def test_what_of_steps_no_step_reads_is_said(tmp_path: Path) -> None:
    stray = {"steps/one/setup.sh": "x", "steps/three/instruction.md": "x", "steps/three/a/b": "x"}
    said = read_task_directory(lay(tmp_path / "t", STEP_FILES | stray)).warnings
    assert [sentence.partition("/steps/")[2] for sentence in said if "/steps/" in sentence] == [
        "three: no [[steps]] table of task.toml names it, so it does nothing",
        "one/setup.sh: it is kept but does nothing here; the hook that Harbor runs is "
        "workdir/setup.sh",
    ]


def test_grading_apart_from_harbor_s_default_is_said(tmp_path: Path) -> None:
    files = FILES | {"tests/checks.json": None}
    assert read_task_directory(lay(tmp_path / "a", files)).warnings == ()
    for number, mode in enumerate(("", 'environment_mode = "shared"')):
        text = TASK_TOML.replace('environment_mode = "separate"', mode)
        read = read_task_directory(lay(tmp_path / str(number), files | {"task.toml": text}))
        assert ["environment_mode" in warning for warning in read.warnings] == [True]
        assert read.task.handover == Handover()  # a shared verifier sees the whole workspace
