"""The tools of the built-in agent, and the strict reading of a call."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from steelyard.agents.settings import AgentSettings
from steelyard.agents.workspace import Workspace

VISIBLE_CHECKS = "visible_checks.py"
"""The script that `run` without a command executes, where the task's environment has one."""

_TAGGED = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class ToolError(ValueError):
    """A call that cannot be carried out; the sentence goes back to the model."""


class _Arguments(BaseModel):
    # Strict and closed: a policy learns to abuse whatever a lax reader forgives.
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class Read(_Arguments):
    """Show a file."""

    path: str | None = None


class Edit(_Arguments):
    """Replace `old`, which occurs once in the file, by `new`."""

    # Quoting what is to go rather than naming its lines: a small model copies well and counts
    # badly. With line numbers most failures of the main job's policy, late in RL, were a right
    # line of code put one line off.
    old: str
    new: str
    path: str | None = None


class Run(_Arguments):
    """Run a shell command, or without one the visible checks."""

    command: str | None = None


class Submit(_Arguments):
    """Hand in the files as they are; ends the episode."""


@dataclass(frozen=True, slots=True)
class Call:
    """A well-formed tool call."""

    name: str
    arguments: _Arguments


def parse_call(text: str) -> Call:
    """The one call in a turn's text: the whole text as a JSON object, or one <tool_call> block.

    Raises:
        ToolError: no JSON, more than one call, an unknown tool or argument, a wrong type.
    """
    tagged = _TAGGED.findall(text)
    if len(tagged) > 1:
        raise ToolError("one call per turn, got " + str(len(tagged)))
    try:
        value = json.loads(tagged[0] if tagged else text)
    except (ValueError, RecursionError):  # also an integer of more digits than Python reads
        raise ToolError('a turn is one JSON object: {"name": ..., "arguments": {...}}') from None
    if not isinstance(value, dict) or set(value) != {"name", "arguments"}:
        raise ToolError('a call has exactly the keys "name" and "arguments"')
    name, arguments = value["name"], value["arguments"]
    if not isinstance(name, str) or name not in _TOOLS:
        raise ToolError(f"no tool {name!r}; tools are {', '.join(_TOOLS)}")
    if not isinstance(arguments, dict):
        raise ToolError("arguments must be an object")
    try:
        return Call(name, _TOOLS[name].arguments.model_validate(arguments))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ToolError(f"{name}: {where}: {first['msg']}") from None


def carry_out(call: Call, workspace: Workspace, settings: AgentSettings) -> str:
    """Does what the call says and returns the observation.

    Raises:
        ToolError: the call is well-formed but cannot be done (no such file or text).
        SandboxError: our sandbox failed; no fault of the agent's.
    """
    return _shortened(
        _TOOLS[call.name].function(call.arguments, workspace, settings),
        settings.max_observation_characters,
    )


def occurs_once(part: str, text: str) -> bool:
    """Whether `part` names one place of `text`; nothing at all names the one of an empty text."""
    return text.find(part) == text.rfind(part) != -1


def describe_tools() -> str:
    """The tools as text for the system message, one line each."""
    return "\n".join(
        f"{name} {_signature(tool.arguments)}: {_summary(tool.arguments)}"
        for name, tool in _TOOLS.items()
    )


def _read(arguments: Any, workspace: Workspace, settings: AgentSettings) -> str:
    return _text(workspace, _path(arguments.path, workspace)) or "[empty file]"


def _edit(arguments: Any, workspace: Workspace, settings: AgentSettings) -> str:
    path = _path(arguments.path, workspace)
    text = _text(workspace, path)
    if not _encodable(arguments.new):
        raise ToolError("edit: new is not valid Unicode")
    if arguments.new == arguments.old:
        raise ToolError("edit: new is the same as old, so nothing would change")
    if arguments.old not in text:
        raise ToolError(f"edit: old does not occur in {path}")
    if not occurs_once(arguments.old, text):
        raise ToolError(f"edit: old occurs more than once in {path}; take in what is around it")
    workspace.files[path] = text.replace(arguments.old, arguments.new, 1).encode()
    return f"edited {path}"


def _run(arguments: Any, workspace: Workspace, settings: AgentSettings) -> str:
    if arguments.command is None:
        if VISIBLE_CHECKS not in workspace.files:
            raise ToolError("run: this task has no visible checks; give a command")
        argv = ["python3", VISIBLE_CHECKS]
    elif "\0" in arguments.command or not _encodable(arguments.command):
        raise ToolError("run: command is not valid text")
    else:
        argv = ["sh", "-c", arguments.command]
    try:
        completed = workspace.run(argv, timeout_seconds=settings.tool_timeout_seconds)
    except OSError as error:  # of the agent's own making, so it is told, and it stays scored
        raise ToolError(f"run: {error.strerror or error}") from None
    output = (completed.stdout + completed.stderr).decode(errors="replace").rstrip()
    if completed.timed_out:
        return f"{output}\n[stopped after {settings.tool_timeout_seconds:g} s]".lstrip()
    if completed.exit_code != 0 and arguments.command is not None:
        return f"{output}\n[exit code {completed.exit_code}]".lstrip()
    return output or "[no output]"


def _submit(arguments: Any, workspace: Workspace, settings: AgentSettings) -> str:
    return "submitted"


@dataclass(frozen=True, slots=True)
class _Tool:
    arguments: type[_Arguments]
    function: Callable[[Any, Workspace, AgentSettings], str]


_TOOLS: dict[str, _Tool] = {
    "read": _Tool(Read, _read),
    "edit": _Tool(Edit, _edit),
    "run": _Tool(Run, _run),
    "submit": _Tool(Submit, _submit),
}


def _path(path: str | None, workspace: Workspace) -> str:
    """The file that is meant; without a path, the task's only file beside the checks."""
    if path is not None:
        if path not in workspace.files:
            raise ToolError(f"no file {path!r}; files are {', '.join(sorted(workspace.files))}")
        return path
    candidates = [name for name in workspace.given if name != VISIBLE_CHECKS]
    if len(candidates) != 1 or candidates[0] not in workspace.files:
        raise ToolError(f"which file? give path, one of {', '.join(sorted(workspace.files))}")
    return candidates[0]


def _text(workspace: Workspace, path: str) -> str:
    try:
        return workspace.files[path].decode()
    except UnicodeDecodeError:
        raise ToolError(f"{path} is not a text file") from None


def _encodable(text: str) -> bool:
    """False for half a surrogate pair, which JSON can spell and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shortened(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]}\n[... {len(text) - limit} characters ...]\n{text[head - limit :]}"


def _signature(arguments: type[_Arguments]) -> str:
    properties = arguments.model_json_schema().get("properties", {})
    required = set(arguments.model_json_schema().get("required", []))
    parts = []
    for name, schema in properties.items():
        kinds = [s["type"] for s in schema.get("anyOf", [schema]) if s.get("type") != "null"]
        parts.append(f'"{name}"{"" if name in required else "?"}: {kinds[0]}')
    return "{" + ", ".join(parts) + "}"


def _summary(arguments: type[_Arguments]) -> str:
    return (arguments.__doc__ or "").strip().split("\n")[0]
