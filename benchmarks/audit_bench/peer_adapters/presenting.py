"""What the adapters of the peers share; standard library only, for any peer's interpreter.

An adapter is a program of one argument, the folder of a case as `write_case` leaves it. It prints
one JSON line: `{"findings": [[level, sentence], ...]}`, or `{"refused": why}` where the peer does
not take such a case. The levels are the peer's own words; peers.py says which of them count.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import os
import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

BARE = "reference_answer"
"""The column that `TextCase.rows` add: the right answer without the markup around it."""

_MARKUP = (
    re.compile(r"(.*\\boxed\{)([^{}]*)(\}.*)", re.DOTALL),
    re.compile(r"(.*<answer>\s*)(.*?)(\s*</answer>.*)", re.DOTALL),
)


def folder_of_case() -> Path:
    """The one argument."""
    return Path(sys.argv[1]).resolve()


def report(findings: Iterable[tuple[str, str]]) -> None:
    """Prints what the peer said of the case."""
    print("\n" + json.dumps({"findings": [[level, text[:300]] for level, text in findings]}))


def refuse(why: str) -> NoReturn:
    """Says that the peer does not take the case, and ends."""
    print("\n" + json.dumps({"refused": why}))
    sys.exit(0)


class TextCase:
    """A reward function with its examples, callable in one way whatever its style is."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "rewards.py").exists():
            refuse("it takes reward functions on text")
        spec = importlib.util.spec_from_file_location("rewards", folder / "rewards.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.source = (folder / "rewards.py").read_text()
        self.function = module.score
        self.columns = [
            json.loads(line) for line in (folder / "examples.jsonl").read_text().splitlines()
        ]
        self.rows = [{**row, BARE: self._bare(row)} for row in self.columns]

    @property
    def chat(self) -> bool:
        """Whether the function reads the content of messages."""
        return '["content"]' in self.source and "isinstance" not in self.source

    def right(self, row: dict[str, Any]) -> str:
        """The right answer in full, as an agent would give it."""
        return str(row.get("expected", row.get("answer")))

    def dressed(self, row: dict[str, Any], content: str) -> str:
        """`content` in the markup that the row's right answer has, or as it is without one."""
        for pattern in _MARKUP:
            if found := pattern.fullmatch(self.right(row)):
                return found[1] + content + found[3]
        return content

    def score(self, row: dict[str, Any], completion: str) -> float:
        """The reward of `completion`; raises whatever the function raises."""
        row = {name: value for name, value in row.items() if name != BARE}
        form = [{"role": "assistant", "content": completion}] if self.chat else completion
        parameters = inspect.signature(self.function).parameters
        if "completions" in parameters:
            given = {name: [value] for name, value in row.items() if name != "prompt"}
            reward = self.function(completions=[form], prompts=[row["prompt"]], **given)
            return float(reward[0])
        if "completion" in parameters:
            given = {name: row[name] for name in parameters if name != "completion"}
            reward = self.function(completion=form, **given)
            return float(_waited_for(reward) if inspect.isawaitable(reward) else reward)
        return float(self.function(**{**row, "answer": completion}))

    def _bare(self, row: dict[str, Any]) -> str:
        for pattern in _MARKUP:
            if found := pattern.fullmatch(self.right(row)):
                return found[2]
        return self.right(row)


def _waited_for(coroutine: Any) -> Any:
    """The result of a coroutine, from a thread of its own: the peer's may have a running loop."""
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()


class ProgramCase:
    """A Harbor task with one folder that its Dockerfile copies to /app."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "task.toml").exists():
            refuse("it takes workspaces that a command grades")
        self.folder = folder
        dockerfile = (folder / "environment" / "Dockerfile").read_text()
        copied = re.search(r"COPY (\w+)/ /app/", dockerfile)
        assert copied is not None, "every case of the corpus copies one folder"
        self.workspace = folder / "environment" / copied[1]
        self.workspace.mkdir(exist_ok=True)  # an empty workspace leaves no folder
        self.gold = {
            str(path.relative_to(folder / "solution" / "files")): path.read_text()
            for path in sorted((folder / "solution" / "files").rglob("*"))
            if path.is_file()
        }
        self.instruction = (folder / "instruction.md").read_text()

    def graded_by(self) -> list[str]:
        """A command that grades the workspace in its last argument with our grader.

        It prints RESULT: PASS and exits with 0 where the full reward is paid.
        """
        return [
            sys.executable,
            str(Path(__file__).with_name("grade_client.py")),
            os.environ["PEERS_GRADER"],
        ]
