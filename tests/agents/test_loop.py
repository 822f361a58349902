import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steelyard.agents import AgentSettings, answer_text, attempt, demonstrate, demonstration_texts
from steelyard.agents.demonstration import Script, _edits, _slip
from steelyard.agents.tools import occurs_once
from steelyard.episodes import StopReason
from steelyard.learner import Batch
from steelyard.models import ChatRenderer
from steelyard.sandbox import SandboxPool
from steelyard.tasks import AnswerForm, CheckSpec, FunctionChecks, Task, TaskStep, load_tasks

EXAMPLES = Path(__file__).parents[2] / "examples"
STOP = 2
LINE = '    return config.get("retries") or 3'
SETTINGS = AgentSettings()
SANDBOXES = SandboxPool()
TASK = Task(
    name="retry",
    instruction="Fix retry_count.",
    verifier=FunctionChecks("s.py", "retry_count", (CheckSpec("missing", ({},), 3),)),
    files={
        "s.py": b'def retry_count(config):\n    return config.get("retries") or 3\n',
        "visible_checks.py": b"import s\nprint('zero:', s.retry_count({'retries': 0}))\n",
    },
    solution={
        "s.py": b'def retry_count(config):\n    value = config.get("retries")\n'
        b"    return 3 if value is None else value\n"
    },
)


@pytest.fixture(scope="module", autouse=True)
def sandboxes():
    yield
    SANDBOXES.close()


@pytest.fixture(scope="module")
def renderer(smollm2):
    return ChatRenderer(smollm2.tokenizer)


@pytest.fixture(scope="module")
def encode(smollm2):
    return lambda text: smollm2.tokenizer(text, add_special_tokens=False).input_ids


def play(turns, renderer, encode, task=TASK, settings=SETTINGS):
    script = Script([[*encode(text), STOP] for text in turns])
    return asyncio.run(attempt(task, script, renderer, frozenset({STOP}), SANDBOXES, settings))


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


def test_commands_run_where_the_task_has_its_workspace(renderer, encode):
    turns = [call("run", command="pwd; ls /srv/w"), call("submit")]
    for place, said in (("/srv/w", "/srv/w\ns.py\nvisible_checks.py"), ("/app", "/app\nls: ")):
        played = play(turns, renderer, encode, task=replace(TASK, working_directory=place))
        assert played.trajectory.turns[0].calls[0].result.startswith(said)


def test_an_episode_is_one_growing_segment_with_exact_actions(renderer, encode):
    edit = call("edit", old=LINE, new="    return 0")
    turns = [call("read"), edit, call("run"), call("submit")]
    played = play(turns, renderer, encode)
    assert played.stop_reason is StopReason.SUBMITTED
    (segment,) = played.trajectory.segments
    assert [t.text for t in played.trajectory.turns] == turns
    assert played.trajectory.turns[2].calls[0].result == "zero: 0"
    sampled = [i for i, m in zip(segment.token_ids, segment.action_mask, strict=True) if m]
    assert sampled == [i for text in turns for i in [*encode(text), STOP]]
    for turn in played.trajectory.turns:
        start, stop = turn.action
        assert all(segment.action_mask[start:stop])
        assert segment.token_ids[stop - 1] == STOP
        assert not any(segment.action_mask[slice(*turn.observation)])
    whole = renderer.decode(segment.token_ids)
    assert "\ns.py:\ndef retry_count(config):\n" in whole
    assert "<|im_start|>tool\nedited s.py<|im_end|>\n<|im_start|>assistant\n" in whole
    assert b"return 0" in played.files["s.py"]


def test_errors_are_observations_and_the_episode_goes_on(renderer, encode):
    played = play(
        ["nonsense", call("edit", old="nowhere", new="x"), call("submit")], renderer, encode
    )
    results = [turn.calls[0] for turn in played.trajectory.turns]
    assert [r.error for r in results] == [True, True, False]
    assert "one JSON object" in results[0].result
    assert played.stop_reason is StopReason.SUBMITTED


@pytest.mark.parametrize(
    ("settings", "turns", "reason"),
    [
        (AgentSettings(max_turns=2), [call("read")] * 5, StopReason.TURN_LIMIT),
        (AgentSettings(max_turn_tokens=4), [call("submit")], StopReason.TRUNCATED),
        (
            AgentSettings(max_turns=50, max_episode_tokens=300),
            [call("read")] * 50,
            StopReason.TOKEN_LIMIT,
        ),
        (AgentSettings(max_episode_tokens=20), [call("submit")], StopReason.TOKEN_LIMIT),
    ],
)
def test_limits_end_the_episode_by_name(renderer, encode, settings, turns, reason):
    played = play(turns, renderer, encode, settings=settings)
    assert played.stop_reason is reason


NOWHERE, ELSEWHERE = (call("edit", old=text, new="x") for text in ("nowhere", "elsewhere"))


@pytest.mark.parametrize(
    ("turns", "n_turns", "reason"),
    [
        ([NOWHERE] * 5, 3, StopReason.STUCK),
        (["nonsense"] * 5, 3, StopReason.STUCK),
        ([ELSEWHERE, *[NOWHERE] * 4], 4, StopReason.STUCK),
        ([NOWHERE, NOWHERE, call("submit")], 3, StopReason.SUBMITTED),
        ([NOWHERE, NOWHERE, ELSEWHERE, NOWHERE, NOWHERE], 5, StopReason.TURN_LIMIT),
        (["nonsense", "other nonsense", "and more", "more", "nonsense"], 5, StopReason.TURN_LIMIT),
        ([call("read")] * 5, 5, StopReason.TURN_LIMIT),  # pointless, but nothing refused it
    ],
)
def test_the_same_refused_call_three_times_in_a_row_is_being_stuck(
    renderer, encode, turns, n_turns, reason
):
    settings = AgentSettings(max_turns=5, stuck_after=3)
    played = play(turns, renderer, encode, settings=settings)
    assert (len(played.trajectory.turns), played.stop_reason) == (n_turns, reason)


def test_without_the_rule_an_agent_may_repeat_itself(renderer, encode):
    played = play([NOWHERE] * 5, renderer, encode, settings=AgentSettings(max_turns=5))
    assert played.stop_reason is StopReason.TURN_LIMIT


def test_the_time_that_the_engine_takes_is_not_the_agents(renderer, encode):
    import dataclasses

    class Slow(Script):
        async def sample(self, token_ids, *, max_new_tokens):
            await asyncio.sleep(0.2)
            return await super().sample(token_ids, max_new_tokens=max_new_tokens)

    task = dataclasses.replace(TASK, agent_timeout_seconds=0.1)
    policy = Slow([[*encode(text), STOP] for text in (call("read"), call("submit"))])
    played = asyncio.run(
        attempt(task, policy, renderer, frozenset({STOP}), SANDBOXES, AgentSettings())
    )
    assert played.stop_reason is StopReason.SUBMITTED
    assert played.seconds["sampling"] > 0.3


def test_time_that_runs_out_during_a_command_leaves_a_whole_turn(renderer, encode):
    import dataclasses

    task = dataclasses.replace(TASK, agent_timeout_seconds=0.5)
    began = time.monotonic()
    played = play([call("run", command="sleep 2")], renderer, encode, task=task)
    assert played.stop_reason is StopReason.TIME_LIMIT
    (segment,) = played.trajectory.segments
    (turn,) = played.trajectory.turns
    assert turn.action == (turn.action[0], len(segment))
    assert segment.n_action_tokens == turn.action[1] - turn.action[0]
    assert time.monotonic() - began > 1.5, "the sandbox is not lent again before the command ends"


def test_a_single_answer_is_the_same_loop_with_one_turn(renderer, encode):
    task = Task(
        name="sum",
        instruction="2 + 2?",
        verifier=TASK.verifier,
        answer=AnswerForm("answer.txt"),
    )
    played = play(["The answer:\n```\n4\n```"], renderer, encode, task=task)
    assert played.files == {"answer.txt": b"4\n"}
    assert played.stop_reason is StopReason.SUBMITTED
    assert len(played.trajectory.turns) == 1


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("    return 1", "import x\ndef f():\n    return 1"),
        ("def f():\n    return 2", "import x\ndef f():\n\ndef f():\n    return 2"),
        ("Sure.\n```python\ndef f(): pass\n```\nBye", "import x\ndef f():\n\ndef f(): pass\n"),
    ],
)
def test_an_answer_continues_or_replaces_its_prefix(answer, expected):
    form = AnswerForm("s.py", prefix="import x\ndef f():\n", defines="f")
    assert answer_text(answer, form) == expected


def test_a_demonstration_reaches_the_solution_through_the_tools(renderer, encode):
    for task in load_tasks(EXAMPLES / "falsy-defaults" / "tasks" / "demonstrations")[::7]:
        played = asyncio.run(demonstrate(task, renderer, STOP, encode, SANDBOXES, AgentSettings()))
        assert played.stop_reason is StopReason.SUBMITTED
        assert dict(played.files) == {**task.files, **task.solution}
        assert all(
            c.result.endswith("ok")
            for t in played.trajectory.turns
            for c in t.calls
            if c.name == "run"
        )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a\nb\nc", "a\nB\nc"),
        ("a\nb\nc", "a\nc"),
        ("a\nc", "a\nb\nc"),
        ("b", "a\nb"),
        ("a\nb\nc\nd", "x\nb\ny\nz\nd"),
        ("a\nb", "a\nb\nc\n"),
        ("a\n\nx\n\nx\n", "a\n\nx\n\ny\n"),
        ("x\nx\nx", "x\nx"),
        ("x\n\n", "\n"),
        ("", "a\nb"),
        ("a", ""),
    ],
)
def test_any_change_of_lines_can_be_demonstrated(renderer, encode, before, after):
    import dataclasses

    task = dataclasses.replace(
        TASK, files={"s.py": before.encode()}, solution={"s.py": after.encode()}
    )
    played = play(demonstration_texts(task), renderer, encode, task=task)
    assert played.files["s.py"] == after.encode()


@given(*[st.lists(st.sampled_from(["", "a", "aa", "ab", "b"]), max_size=7).map("\n".join)] * 2)
def test_every_edit_of_a_demonstration_quotes_one_place(before, after):
    text = before
    for edit in _edits(before, after):
        assert occurs_once(edit["old"], text)
        text = text.replace(edit["old"], edit["new"])
    assert text == after


@pytest.mark.parametrize("slips", [1, 2])
def test_a_demonstration_may_slip_first_and_slips_are_not_imitated(slips, renderer, encode):
    cannot = []
    for task in load_tasks(EXAMPLES / "falsy-defaults" / "tasks" / "demonstrations")[::11]:
        plain, slipped = (
            asyncio.run(
                demonstrate(task, renderer, STOP, encode, SANDBOXES, AgentSettings(), slips=n)
            )
            for n in (0, slips)
        )
        if len(slipped.trajectory.turns) == len(plain.trajectory.turns):
            cannot.append(task.kind)
            continue
        first, rest = slipped.trajectory.turns[:slips], slipped.trajectory.turns[slips:]
        assert len({turn.text for turn in first}) == 1, "the same one every time"
        assert [t.text for t in rest] == [t.text for t in plain.trajectory.turns]
        assert slipped.files == plain.files
        (segment,), (as_ever,) = slipped.trajectory.segments, plain.trajectory.segments
        for turn in first:
            assert turn.calls[0].error
            assert "nothing would change" in turn.calls[0].result
            assert not any(segment.action_mask[slice(*turn.action)])
        actions = [
            [i for i, m in zip(s.token_ids, s.action_mask, strict=True) if m]
            for s in (segment, as_ever)
        ]
        assert actions[0] == actions[1]
        assert len(Batch.from_trajectories([slipped.trajectory])) == len(actions[0])
    assert cannot == ["getd"], "a block of one line has nothing beside it"


def test_a_task_that_brings_its_file_with_a_step_has_no_line_to_slip_on():
    edit = json.dumps({"name": "edit", "arguments": {"old": "a", "new": "b"}})
    assert _slip(replace(TASK, files={}), edit) is None


@pytest.mark.parametrize("room", [0, 1])
def test_a_demonstration_slips_as_often_as_the_limits_have_room_for(room, renderer, encode):
    text = 'def retry_count(config):\n    "Says a lot."\n    return config.get("retries") or 3\n'
    task = replace(
        TASK,
        files={"s.py": text.encode()},
        solution={"s.py": text.replace(" or 3", "").encode()},
    )
    settings = AgentSettings(max_turns=2 + room)
    for slips in (0, 2):
        played = asyncio.run(
            demonstrate(
                task, renderer, STOP, encode, SANDBOXES, settings, run_checks=False, slips=slips
            )
        )
        assert played.stop_reason is StopReason.SUBMITTED
        assert played.trajectory.n_action_tokens == sum(played.trajectory.segments[0].action_mask)
        assert len(played.trajectory.turns) == 2 + min(room, slips)


def test_a_task_without_a_solution_cannot_be_demonstrated():
    import dataclasses

    with pytest.raises(ValueError, match="no reference solution"):
        demonstration_texts(dataclasses.replace(TASK, solution=None))


def test_a_template_that_rewrites_history_starts_a_new_segment(smollm2, encode):
    import copy

    tokenizer = copy.deepcopy(smollm2.tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n"
        "{% if m.role == 'assistant' and not loop.last %}(earlier){% else %}{{ m.content }}"
        "{% endif %}"
        "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    played = play([call("read"), call("submit")], ChatRenderer(tokenizer), encode)
    first, second = played.trajectory.segments
    assert (second.parent, first.parent) == (0, None)
    assert first.token_ids[: second.fork_position] == second.token_ids[: second.fork_position]
    assert (
        played.trajectory.n_action_tokens
        == len(encode(call("read"))) + len(encode(call("submit"))) + 2
    )
    assert played.stop_reason is StopReason.SUBMITTED


def test_the_next_step_arrives_as_the_observation_of_submit(renderer, encode):
    steps = (
        TaskStep("one", "Fix it.", TASK.verifier),
        TaskStep("two", "Now print MODE.", TASK.verifier, files={"new.py": b"1"}),
    )
    task = replace(TASK, steps=steps, environment_variables={"MODE": "fast"})
    edit = call("edit", old=LINE, new="    return 0", path="s.py")
    turns = [edit, call("submit"), call("run", command="echo $MODE; cat new.py"), call("submit")]
    played = play(turns, renderer, encode, task)
    assert played.stop_reason is StopReason.SUBMITTED
    results = [turn.calls[0].result for turn in played.trajectory.turns]
    assert results == ["edited s.py", "Now print MODE.", "fast\n1", "submitted"]
    assert [sorted(files) for files in played.workspaces] == [
        ["s.py", "visible_checks.py"],
        ["new.py", "s.py", "visible_checks.py"],
    ]
    assert "Now print MODE." in renderer.decode(played.trajectory.segments[0].token_ids)
    cut = play(turns[:3], renderer, encode, task)
    assert len(cut.workspaces) == 1
