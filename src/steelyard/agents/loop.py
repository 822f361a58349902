"""The turn loop: a Task and a session of an Engine become a Trajectory.

It lives in token space. Sampled ids go into the segment as they were sampled, their stop token
included; then the ids of the rendered observation. Nothing sampled is ever tokenised again.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from steelyard.agents.history import prune_task, repositories
from steelyard.agents.prompt import first_messages
from steelyard.agents.settings import AgentSettings
from steelyard.agents.tools import ToolError, carry_out, parse_call
from steelyard.agents.workspace import Workspace
from steelyard.engines import Sample
from steelyard.episodes import Segment, StopReason, ToolCall, Trajectory, Turn
from steelyard.models import ChatRenderer, Message
from steelyard.sandbox import SandboxPool
from steelyard.tasks import AnswerForm, Task

_FENCED = re.compile(r"```[^\n]*\n(.*?)```", re.DOTALL)


class Policy(Protocol):
    """Whoever answers: an engine's session, a script, a person."""

    async def sample(self, token_ids: Sequence[int], *, max_new_tokens: int) -> Sample: ...


@dataclass(frozen=True, slots=True)
class Attempt:
    """A finished episode before it is graded. `seconds` has "sampling" and "tools".

    `workspaces` is what each step of a multi-step task left, as far as steps were submitted;
    `states` holds the files as they were before each turn.
    """

    trajectory: Trajectory
    stop_reason: StopReason
    files: Mapping[str, bytes]
    seconds: Mapping[str, float]
    workspaces: tuple[Mapping[str, bytes], ...] = ()
    states: Sequence[Mapping[str, bytes]] = ()


async def attempt(
    task: Task,
    policy: Policy,
    renderer: ChatRenderer,
    stop_ids: frozenset[int],
    sandboxes: SandboxPool,
    settings: AgentSettings,
) -> Attempt:
    """Runs one episode to its end.

    A git repository in the workspace holds no history beyond the task's base commit.

    Raises:
        ValueError: such a repository cannot be pruned.
        SandboxError: the sandbox failed; the episode is then Unscored.
    """
    if repositories(task.files):
        task = await asyncio.to_thread(prune_task, task, sandboxes.settings)
    loop = _Loop(task, policy, renderer, stop_ids, sandboxes, settings)
    try:
        reason = await loop.run()
    finally:
        await asyncio.to_thread(loop.workspace.close)
    states = loop.states[: len(loop.trajectory.turns)]  # a turn that was cut off has no tokens
    return Attempt(
        loop.trajectory,
        reason,
        loop.workspace.files,
        loop.seconds,
        tuple(loop.workspaces),
        states,
    )


def answer_text(text: str, form: AnswerForm) -> str:
    """What a single-turn answer hands in: see `AnswerForm`."""
    fenced = _FENCED.search(text)
    body = fenced.group(1) if fenced else text
    if not form.prefix:
        return body
    # A complete definition needs the prefix too, for its imports and helpers; the later one wins.
    complete = re.search(rf"^def {re.escape(form.defines)}\b", body, re.MULTILINE)
    return f"{form.prefix}\n{body}" if complete else form.prefix + body


class _Loop:
    def __init__(
        self,
        task: Task,
        policy: Policy,
        renderer: ChatRenderer,
        stop_ids: frozenset[int],
        sandboxes: SandboxPool,
        settings: AgentSettings,
    ) -> None:
        self._task = task
        self._policy = policy
        self._renderer = renderer
        self._stop_ids = stop_ids
        self._settings = settings
        self._messages = first_messages(task, settings)
        self._steps_to_come = list(task.steps[1:])
        self.workspace = Workspace(
            task.files, sandboxes, task.environment_variables, task.working_directory
        )
        self.workspaces: list[Mapping[str, bytes]] = []
        self.trajectory = Trajectory([Segment()])
        self.trajectory.segments[0].append_context(renderer.prompt(self._messages))
        self.seconds = {"sampling": 0.0, "tools": 0.0}
        self._limit = asyncio.timeout(None)
        self.states: list[Mapping[str, bytes]] = []

    async def run(self) -> StopReason:
        """Every step, or the only one, each with its own limits of turns and of time that is not
        the engine's."""
        for step in self._task.steps or (self._task,):
            try:
                async with asyncio.timeout(step.agent_timeout_seconds) as self._limit:
                    reason = await self._step()
            except TimeoutError:
                return StopReason.TIME_LIMIT
            if reason is not StopReason.SUBMITTED:
                return reason
        return StopReason.SUBMITTED

    async def _step(self) -> StopReason:
        max_turns = 1 if self._task.answer is not None else self._settings.max_turns
        for _ in range(max_turns):
            reason = await self._turn()
            if reason is not None:
                return reason
        return StopReason.TURN_LIMIT

    async def _turn(self) -> StopReason | None:
        segment = self.trajectory.segments[-1]
        budget = min(
            self._settings.max_turn_tokens, self._settings.max_episode_tokens - len(segment)
        )
        if budget <= 0:
            return StopReason.TOKEN_LIMIT
        self.states.append(dict(self.workspace.files))
        sample = await self._sample(segment.token_ids, budget)
        start = len(segment)
        segment.append_action(sample.token_ids, sample.logp, sample.version)
        action = (start, len(segment))
        if not sample.stopped:
            self._record(action, self._renderer.decode(sample.token_ids), ())
            return StopReason.TRUNCATED
        text = self._renderer.decode(sample.token_ids[:-1])
        if self._task.answer is not None:
            self._record(action, text, ())
            content = answer_text(text, self._task.answer).encode()
            self.workspace.files[self._task.answer.path] = content
            return StopReason.SUBMITTED
        try:
            call = await self._call(text)
        except BaseException:  # the time limit, or a failing sandbox: its tokens belong to a turn
            self._record(action, text, ())
            raise
        if call.name == "submit" and not call.error:
            self._submit(action, text, call, sample.token_ids[-1])
            return StopReason.SUBMITTED
        self._observe(action, text, call, sample.token_ids[-1])
        return StopReason.STUCK if self._stuck() else None

    def _stuck(self) -> bool:
        """Whether the last `stuck_after` turns say the same, and each was refused."""
        n = self._settings.stuck_after
        if n is None or len(self.trajectory.turns) < n:
            return False
        last = self.trajectory.turns[-n:]
        return len({turn.text for turn in last}) == 1 and all(t.calls[0].error for t in last)

    async def _sample(self, token_ids: list[int], budget: int) -> Sample:
        """Samples while the time limit stands still: how long an engine that others share takes
        says nothing about the agent, and its tokens are limited by number."""
        began = time.monotonic()
        deadline = self._limit.when()
        self._limit.reschedule(None)
        try:
            return await self._policy.sample(token_ids, max_new_tokens=budget)
        finally:
            taken = time.monotonic() - began
            self.seconds["sampling"] += taken
            if deadline is not None:
                self._limit.reschedule(deadline + taken)

    async def _call(self, text: str) -> ToolCall:
        """Reads and carries out the call; whatever is wrong with it becomes the observation."""
        began = time.monotonic()
        name, arguments = "", {}
        try:
            call = parse_call(text)
            name, arguments = call.name, call.arguments.model_dump(exclude_none=True)
            if name == "run":  # the one tool that waits for a process
                result = await asyncio.to_thread(carry_out, call, self.workspace, self._settings)
            else:
                result = carry_out(call, self.workspace, self._settings)
            return ToolCall(name, arguments, result)
        except ToolError as error:
            return ToolCall(name, arguments, f"error: {error}", error=True)
        finally:
            self.seconds["tools"] += time.monotonic() - began

    def _submit(self, action: tuple[int, int], text: str, call: ToolCall, stop_id: int) -> None:
        """Ends the episode, or the step: the next instruction is then what the agent observes."""
        if self._task.steps:
            self.workspaces.append(dict(self.workspace.files))
        if not self._steps_to_come:
            self._record(action, text, (call,))
            return
        following = self._steps_to_come.pop(0)
        self.workspace.give(following.files)
        call = replace(call, result=following.instruction)
        self._observe(action, text, call, stop_id)

    def _observe(self, action: tuple[int, int], text: str, call: ToolCall, stop_id: int) -> None:
        """Appends the observation, or starts a new segment if the template rewrote history."""
        new = [Message(role="tool", content=call.result)]
        ids = self._renderer.continuation(self._messages, text, stop_id, new)
        self._messages = [*self._messages, Message(role="assistant", content=text), *new]
        segment = self.trajectory.segments[-1]
        if ids is not None:
            segment.append_context(ids)
            self._record(action, text, (call,))
            return
        self._record(action, text, (call,))
        rewritten = self._renderer.prompt(self._messages)
        kept = _common_prefix(segment.token_ids, rewritten)
        parent = len(self.trajectory.segments) - 1
        self.trajectory.segments.append(Segment(parent=parent, fork_position=kept))
        self.trajectory.segments[-1].append_context(rewritten)

    def _record(self, action: tuple[int, int], text: str, calls: tuple[ToolCall, ...]) -> None:
        index = len(self.trajectory.segments) - 1
        end = len(self.trajectory.segments[index])
        self.trajectory.turns.append(Turn(index, action, (action[1], end), text, calls))


def _common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    n = 0
    for a, b in zip(left, right, strict=False):
        if a != b:
            break
        n += 1
    return n
