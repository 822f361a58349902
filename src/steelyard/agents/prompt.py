"""The first messages of an episode."""

from __future__ import annotations

from steelyard.agents.settings import AgentSettings
from steelyard.agents.tools import VISIBLE_CHECKS, describe_tools
from steelyard.models import Message
from steelyard.tasks import Task


def first_messages(task: Task, settings: AgentSettings) -> list[Message]:
    """System and user message of a tool-using episode; the bare instruction of a single answer."""
    if task.answer is not None:
        return [Message(role="user", content=task.instruction)]
    system = 'Each turn is one tool call: {"name": ..., "arguments": {...}}\n' + describe_tools()
    return [
        Message(role="system", content=system),
        Message(
            role="user", content=f"{task.instruction.rstrip()}\n{_shown_files(task, settings)}"
        ),
    ]


def _shown_files(task: Task, settings: AgentSettings) -> str:
    """The files' contents where they are short, else their names."""
    texts: dict[str, str] = {}
    for path, content in sorted(task.files.items()):
        if path == VISIBLE_CHECKS or ".git" in path.split("/"):
            continue
        try:
            texts[path] = content.decode()
        except UnicodeDecodeError:
            continue
    if sum(text.count("\n") + 1 for text in texts.values()) > settings.max_shown_lines:
        return "Files: " + ", ".join(p for p in sorted(task.files) if ".git" not in p.split("/"))
    return "\n".join(f"{path}:\n{text.rstrip()}" for path, text in texts.items())
