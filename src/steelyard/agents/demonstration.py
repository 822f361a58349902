"""A demonstration of a task: its reference solution, played with the tools.

The calls are derived from the difference between the task's files and its solution and go
through the same turn loop as a policy's, so a demonstration has real observations and exactly the
tokens that the policy would have had to sample.

A demonstration may slip first: its first turns are an edit that changes nothing, which is answered
by an error, and the rest is as ever. Who imitates it reads the slips and imitates what follows, so
a policy learns to go on after an error; without any such example it hands in what it has, and
without one of an error made twice it makes it until its turns are up. Source: data with mistakes
and their correction, Ye et al. 2024 (arXiv:2408.16293).
"""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from steelyard.agents.loop import Attempt, attempt
from steelyard.agents.settings import AgentSettings
from steelyard.agents.tools import VISIBLE_CHECKS, occurs_once
from steelyard.engines import Sample
from steelyard.episodes import StopReason
from steelyard.models import ChatRenderer
from steelyard.sandbox import SandboxPool
from steelyard.tasks import Task


def demonstration_texts(task: Task, *, run_checks: bool = True) -> list[str]:
    """The assistant turns that turn the task's files into its solution and hand it in.

    With `run_checks` they run the visible checks before that, where the task has some.

    Raises:
        ValueError: the task has no reference solution, or one that tools cannot reach.
    """
    if task.steps:
        calls, files = [], dict(task.files)
        for step in task.steps:
            files |= step.files
            calls += _calls(files, step.solution or {}, task.name, run_checks)
            files |= step.solution or {}
    elif task.solution is None:
        raise ValueError(f"task {task.name!r} has no reference solution to demonstrate")
    elif task.answer is not None:
        return [f"```\n{task.solution[task.answer.path].decode()}```"]
    else:
        calls = _calls(task.files, task.solution, task.name, run_checks)
    return [json.dumps({"name": name, "arguments": arguments}) for name, arguments in calls]


def _calls(
    files: Mapping[str, bytes], solution: Mapping[str, bytes], name: str, run_checks: bool
) -> list[tuple[str, dict[str, Any]]]:
    """What turns `files` into `solution` and hands it in."""
    calls: list[tuple[str, dict[str, Any]]] = []
    editable = [path for path in files if path != VISIBLE_CHECKS]
    for path, content in sorted(solution.items()):
        if files.get(path) == content:
            continue
        if path not in files:
            raise ValueError(
                f"task {name!r}: the solution adds the file {path!r}, which edit cannot "
                "create; put an empty one into environment/"
            )
        named = {} if len(editable) == 1 else {"path": path}
        calls += [("edit", named | edit) for edit in _edits(files[path].decode(), content.decode())]
    if run_checks and VISIBLE_CHECKS in files:
        calls.append(("run", {}))
    return [*calls, ("submit", {})]


async def demonstrate(
    task: Task,
    renderer: ChatRenderer,
    stop_id: int,
    encode: Callable[[str], list[int]],
    sandboxes: SandboxPool,
    settings: AgentSettings,
    *,
    run_checks: bool = True,
    slips: int = 0,
) -> Attempt:
    """Plays the reference solution through the turn loop. Log-probs are 0, version is −1.

    Before that it makes the same slip `slips` times, or as often as the limits have room for, where
    the task has a line to slip on. The slips are context.
    """
    settings = settings.model_copy(update={"stuck_after": None})  # a slip made twice is meant
    texts = demonstration_texts(task, run_checks=run_checks)
    slip = _slip(task, texts[0]) if slips else None
    opening = [] if slip is None else [slip] * slips
    for n in range(len(opening), -1, -1):
        script = Script([[*encode(text), stop_id] for text in [*opening[:n], *texts]])
        played = await attempt(task, script, renderer, frozenset({stop_id}), sandboxes, settings)
        if played.stop_reason is StopReason.SUBMITTED:
            break
    for turn in played.trajectory.turns[:n]:
        played.trajectory.segments[turn.segment].read_only(*turn.action)
    return played


def _slip(task: Task, first: str) -> str | None:
    """An edit that changes nothing, in the file of the `first` call; None where there is none.

    It quotes a line from inside a block, where policies slip too, and not what `first` replaces.
    """
    call = json.loads(first) if task.answer is None else {}
    if call.get("name") != "edit":
        return None
    arguments = call["arguments"]
    # A task of several steps may bring its first file with a step: there is then no line here.
    path = arguments.get("path") or next((p for p in task.files if p != VISIBLE_CHECKS), "")
    text = task.files.get(path, b"").decode()
    lines = [
        line
        for line in text.split("\n")
        if line.strip() and line[0].isspace() and occurs_once(line, text)
        if line not in arguments["old"]
    ]
    if not lines:
        return None
    line = random.Random(f"slip {task.name}").choice(lines)
    return json.dumps({"name": "edit", "arguments": arguments | {"old": line, "new": line}})


class Script:
    """A policy that says what it was given, turn by turn."""

    def __init__(self, turns: Sequence[Sequence[int]]) -> None:
        self._turns = list(turns)

    async def sample(self, token_ids: Sequence[int], *, max_new_tokens: int) -> Sample:
        if not self._turns:
            return Sample([], [], [], stopped=False)
        ids = list(self._turns.pop(0))
        stopped = len(ids) <= max_new_tokens
        ids = ids[:max_new_tokens]
        return Sample(ids, [0.0] * len(ids), [-1] * len(ids), stopped=stopped)


def _edits(before: str, after: str) -> list[dict[str, Any]]:
    """Arguments of `edit` calls that turn `before` into `after`, last changes first.

    In whole lines, with as many of the lines around as it takes to name one place.
    """
    lines, new = before.split("\n"), after.split("\n")
    changes = difflib.SequenceMatcher(a=lines, b=new, autojunk=False).get_opcodes()
    edits: list[dict[str, Any]] = []
    # From the bottom up, so that what lies above a change is where `before` has it.
    for tag, i, j, k, m in reversed(changes):
        if tag == "equal":
            continue
        block, replacement = lines[i:j], new[k:m]
        while not (block and replacement and occurs_once("\n".join(block), "\n".join(lines))):
            if i > 0:
                i -= 1
                block, replacement = [lines[i], *block], [lines[i], *replacement]
            else:
                below = lines[len(block)]
                block, replacement = [*block, below], [*replacement, below]
        lines[i : i + len(block)] = replacement
        edits.append({"old": "\n".join(block), "new": "\n".join(replacement)})
    return edits
