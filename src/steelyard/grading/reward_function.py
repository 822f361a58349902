"""A user's reward function: imported and called in a sandbox, its number checked here."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from steelyard.episodes import Cause, Outcome, Scored, Unscored
from steelyard.grading import reward_adapter
from steelyard.grading.reading import MalformedReward, read_number
from steelyard.sandbox import Reply, ReplyKind, Sandbox, SandboxSettings
from steelyard.tasks.task import RewardFunction, Task

_ADAPTER = "_steelyard_reward_adapter.py"


def grade_reward_function(
    sandbox: Sandbox,
    verifier: RewardFunction,
    task: Task,
    files: Mapping[str, bytes],
    deadline: float,
) -> Outcome:
    """Calls the function in its style; the number that it returns, within [0, 1], is the reward.

    The file and the .py files beside it are laid in the sandbox; the interpreter there is the
    system's, without site-packages, so the function has the standard library and its own files.
    Raised: Unscored(VERIFIER_ERROR). No answer in time: Unscored(VERIFIER_TIMEOUT). Not a finite
    number in range: Unscored(MALFORMED_REWARD). A function that executes the answer lets it forge
    the reward: such a task is better a directory with a test script.
    Raises SandboxError, and ValueError if the task has no answer form.
    """
    if task.answer is None:
        raise ValueError(
            f"task {task.name}: a reward function grades an answer, but the task has no answer file"
        )
    answer = files.get(task.answer.path)
    if answer is None:
        return Unscored(Cause.VERIFIER_ERROR, f"the episode left no file {task.answer.path!r}")
    try:
        sources = _sources(verifier.path, sandbox.settings)
    except OSError as error:
        return Unscored(Cause.VERIFIER_ERROR, f"the reward function could not be read: {error}")
    gold = (task.solution or {}).get(task.answer.path)
    keywords = {
        "file": verifier.path.name,
        "function": verifier.function,
        "style": verifier.style,
        "prompt": task.instruction,
        "answer": _text(answer),
        "gold": None if gold is None else _text(gold),
        "row": dict(verifier.row),
    }
    sources[_ADAPTER] = Path(reward_adapter.__file__).read_bytes()
    with sandbox.program(sources, module=_ADAPTER, function="call") as program:
        reply = program.caller.ready(max(deadline - time.monotonic(), 0.001))
        if reply.kind is ReplyKind.RETURNED:
            remaining = max(deadline - time.monotonic(), 0.001)
            reply = program.caller.call((), keywords, timeout_seconds=remaining)
    return _outcome(reply, f"{verifier.path.name}:{verifier.function}", program.ending)


def _outcome(reply: Reply, name: str, ending: str) -> Outcome:
    if reply.kind is ReplyKind.HUNG:
        return Unscored(Cause.VERIFIER_TIMEOUT, f"{name}: {reply.text}")
    if reply.kind is ReplyKind.UNREADABLE:
        return Unscored(Cause.MALFORMED_REWARD, f"{name} {reply.text}")
    if reply.kind is not ReplyKind.RETURNED:
        shown = f"{name} {reply.text}" + (f" ({ending})" if ending else "")
        return Unscored(Cause.VERIFIER_ERROR, shown)
    try:
        return Scored(read_number(reply.value, name))
    except MalformedReward as error:
        return Unscored(Cause.MALFORMED_REWARD, str(error))


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _sources(path: Path, settings: SandboxSettings) -> dict[str, bytes]:
    """The file and its siblings, as far as they fit; the file itself always goes first."""
    sources = {path.name: path.read_bytes()}
    room = (settings.workspace_mb << 20) // 2 - len(sources[path.name])
    for sibling in sorted(path.parent.glob("*.py")):
        size = sibling.stat().st_size
        if sibling.name not in sources and size <= min(room, settings.file_mb << 20):
            sources[sibling.name] = sibling.read_bytes()
            room -= size
    return sources
