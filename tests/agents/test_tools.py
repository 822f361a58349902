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
        (call("edit", old=2, new="x"), "edit: old: Input should be a valid string"),
        (call("edit", old="one", new="x", line=1), "edit: line: Extra inputs"),
        (call("edit", old="one"), "edit: new: Field required"),
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


def test_read_shows_the_file_and_edit_replaces_what_it_quotes(workspace):
    assert do(workspace, call("read")) == "one\ntwo\nthree\n"
    do(workspace, call("edit", old="two", new="TWO\nand a half"))
    assert workspace.files["a.py"] == b"one\nTWO\nand a half\nthree\n"
    do(workspace, call("edit", old="one\nTWO\nand a half\nthree\n", new=""))
    assert workspace.files["a.py"] == b""
    do(workspace, call("edit", old="", new="a new file\n"))
    assert workspace.files["a.py"] == b"a new file\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (call("edit", old="four", new="x"), "old does not occur in a.py"),
        (call("edit", old="o", new="x"), "more than once in a.py; take in what is around"),
        (call("edit", old="", new="x"), "more than once"),
        (call("edit", old="two", new="two"), "nothing would change"),
        (call("edit", old="one", new="x", path="../../etc/passwd"), "no file"),
        (call("read", path="/etc/passwd"), "no file"),
        (call("edit", old="one", new="\ud800"), "not valid Unicode"),
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
    assert do(workspace, call("edit", old="one", new="1")) == "edited a.py"
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
    assert '"old": string, "new": string' in text
    assert '"path"?: string' in text
    assert [line.split()[0] for line in text.splitlines()] == ["read", "edit", "run", "submit"]
