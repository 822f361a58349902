import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.agents import AgentSettings
from steelyard.agents.tools import ToolError, carry_out, describe_tools, parse_call
from steelyard.agents.workspace import Workspace
from steelyard.sandbox import SandboxPool

SETTINGS = AgentSettings()
FILES = {"a.py": b"one\ntwo\nthree\n", "visible_checks.py": b"print('none: expected 3, got 0')\n"}


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


@pytest.fixture
def workspace():
    pool = SandboxPool()
    opened = Workspace(FILES, pool)
    yield opened
    opened.close()
    pool.close()


def do(workspace, text):
    return carry_out(parse_call(text), workspace, SETTINGS)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "one JSON object"),
        ("hello", "one JSON object"),
        (call("submit") + call("submit"), "one JSON object"),
        (call("submit") + " and more", "one JSON object"),
        ("[1]", "exactly the keys"),
        ('{"name": "submit"}', "exactly the keys"),
        ('{"name": "submit", "arguments": {}, "id": 1}', "exactly the keys"),
        ('{"name": "submit", "arguments": []}', "must be an object"),
        ('{"name": ["submit"], "arguments": {}}', "no tool"),
        (call("delete"), "no tool 'delete'"),
        (call("submit", force=True), "submit: force: Extra inputs"),
        (call("edit", line="2", text="x"), "edit: line: Input should be a valid integer"),
        (call("edit", line=True, text="x"), "edit: line: Input should be a valid integer"),
        (call("edit", line=0, text="x"), "greater than or equal to 1"),
        (call("edit", line=1), "edit: text: Field required"),
        (
            f"<tool_call>{call('submit')}</tool_call><tool_call>{call('submit')}</tool_call>",
            "one call",
        ),
        ("[" * 100_000, "one JSON object"),
        ("1" * 5_000, "one JSON object"),
    ],
)
def test_a_malformed_call_is_an_error_that_says_why(text, words):
    with pytest.raises(ToolError, match=words):
        parse_call(text)


@given(st.text(max_size=60))
def test_no_text_crashes_the_reader(text):
    with contextlib.suppress(ToolError):
        parse_call(text)


def test_a_call_may_be_tagged_with_words_before_it():
    assert parse_call(f"I am done.\n<tool_call>{call('submit')}</tool_call>").name == "submit"


def test_read_shows_numbered_lines_and_edit_replaces_them(workspace):
    assert do(workspace, call("read")) == "1|one\n2|two\n3|three\n4|"
    do(workspace, call("edit", line=2, text="TWO\nand a half"))
    assert workspace.files["a.py"] == b"one\nTWO\nand a half\nthree\n"
    do(workspace, call("edit", line=1, end=3, text=""))
    assert workspace.files["a.py"] == b"three\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (call("edit", line=9, text="x"), "has 4 lines"),
        (call("edit", line=3, end=2, text="x"), "has 4 lines"),
        (call("edit", line=1, text="x", path="../../etc/passwd"), "no file"),
        (call("read", path="/etc/passwd"), "no file"),
        (call("edit", line=1, text="\ud800"), "not valid Unicode"),
        (call("run", command="echo \0"), "not valid text"),
        (call("run", command="echo \ud800"), "not valid text"),
    ],
)
def test_what_cannot_be_done_is_refused_and_changes_nothing(workspace, text, words):
    with pytest.raises(ToolError, match=words):
        do(workspace, text)
    assert workspace.files == FILES


def test_run_executes_the_visible_checks_or_a_command_in_the_sandbox(workspace):
    assert do(workspace, call("run")) == "none: expected 3, got 0"
    assert do(workspace, call("run", command="wc -l a.py; echo new > b.txt; exit 3")) == (
        "3 a.py\n[exit code 3]"
    )
    assert workspace.files["b.txt"] == b"new\n"
    assert do(workspace, call("edit", line=1, text="1")) == "edited a.py"
    assert do(workspace, call("run", command="head -1 a.py")) == "1"


def test_the_agent_sees_neither_tests_nor_network_nor_host(workspace):
    seen = do(
        workspace,
        call("run", command="ls /app; ls /tests /heldout /root; id -u; cat /proc/net/dev | wc -l"),
    )
    assert "visible_checks.py" in seen
    assert seen.count("No such file") >= 2
    assert (
        "\n3\n" in f"\n{seen}\n" or seen.rstrip().splitlines()[-2].strip() == "3"
    )  # loopback only


def test_long_output_is_cut_in_the_middle(workspace):
    seen = do(workspace, call("run", command="seq 1 5000"))
    assert len(seen) < SETTINGS.max_observation_characters + 60
    assert seen.startswith("1\n2\n")
    assert "characters ..." in seen
    assert seen.endswith("5000")


def test_the_description_names_every_tool_and_argument():
    text = describe_tools()
    assert '"line": integer' in text
    assert '"path"?: string' in text
    assert [line.split()[0] for line in text.splitlines()] == ["read", "edit", "run", "submit"]
