"""What the conductor's agents find: the place that instructions name, and the task's packages."""

from __future__ import annotations

import json

from steelyard.conductor.playing import play_episode
from steelyard.conductor.workshop import sandbox_for
from steelyard.episodes import Scored
from steelyard.sandbox import SandboxSettings
from steelyard.tasks import Task, TestScript

PLAIN = Task("plain", "", TestScript({}))
WITH_PACKAGES = Task("packed", "", TestScript({}), packages=("pytest",))


def test_one_task_with_packages_opens_them_for_the_run() -> None:
    settings = SandboxSettings(memory_mb=128)
    assert sandbox_for([PLAIN], settings) == settings
    assert sandbox_for([PLAIN, WITH_PACKAGES], settings) == settings.model_copy(
        update={"packages": True}
    )


def test_an_agent_works_in_app_with_the_tasks_packages() -> None:
    """The path that it writes is the one that the verifier reads."""
    command = "python3 -c 'import pytest; print(pytest.__name__)' > /app/found && pwd >> /app/found"
    turns = [
        json.dumps({"name": "run", "arguments": {"command": command}}),
        json.dumps({"name": "submit", "arguments": {}}),
    ]
    test = (
        "[ \"$(echo $(cat /app/found))\" = 'pytest /app' ]; "
        "echo $((1 - $?)) > /logs/verifier/reward.txt"
    )
    task = Task(
        "t", "Do.", TestScript({"test.sh": test.encode()}), {"a": b""}, packages=("pytest",)
    )
    shown: list[str] = []
    played = play_episode(
        task, model=None, temperature=1.0, seed=0, ask=lambda: turns.pop(0), show=shown.append
    )
    assert played.outcome == Scored(1.0), "".join(shown)
