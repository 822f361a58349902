"""Calls a user's reward function in the style that it was written for.

Laid in the sandbox beside the user's file and run there, in the interpreter of the user's code, so
nothing that it returns is believed. Standard library only; it imports nothing of ours.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

_WRONG_FORM = (TypeError, KeyError, IndexError, AttributeError)
"""What a function raises that is given text where it reads messages, or the other way round."""


def call(
    file: str,
    function: str,
    style: str,
    prompt: str,
    answer: str,
    gold: str | None,
    row: Mapping[str, Any],
) -> Any:
    """What the reward function returns for `answer`; of TRL's lists, the one element.

    `gold` is the right answer as text. Raises whatever the function raises.
    """
    target, chat_first = _load(file, function)
    if style == "steelyard":
        return _plain(_run(target, {**row, "prompt": prompt, "answer": answer}))
    invoke = _as_trl if style == "trl" else _as_verifiers

    def attempt(chat: bool) -> Any:
        return _plain(invoke(target, chat, prompt, answer, gold, row))

    try:
        return attempt(chat_first)
    except _WRONG_FORM as first:
        try:
            return attempt(not chat_first)
        except Exception:
            raise first from None


def _as_trl(
    target: Callable[..., Any],
    chat: bool,
    prompt: str,
    answer: str,
    gold: str | None,
    row: Mapping[str, Any],
) -> Any:
    given = {
        **{name: [value] for name, value in row.items()},
        "prompts": [_form("user", prompt, chat)],
        "completions": [_form("assistant", answer, chat)],
    }
    rewards = _plain(_run(target, _named(target, given)))
    if type(rewards) in (list, tuple) and len(rewards) == 1:
        return rewards[0]
    raise ValueError(f"it returned {rewards!r:.80} for one completion, not a list of one number")


def _as_verifiers(
    target: Callable[..., Any],
    chat: bool,
    prompt: str,
    answer: str,
    gold: str | None,
    row: Mapping[str, Any],
) -> Any:
    given = {
        "info": {},
        "task": "default",
        "answer": gold or "",
        **row,
        "prompt": _form("user", prompt, chat),
        "completion": _form("assistant", answer, chat),
    }
    return _run(target, _named(target, {**given, "state": {**given, "turn": 1}}))


def _named(target: Callable[..., Any], given: dict[str, Any]) -> dict[str, Any]:
    """Those arguments that the function takes."""
    parameters = inspect.signature(target).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return given
    names = {parameter.name for parameter in parameters}
    return {name: value for name, value in given.items() if name in names}


def _form(role: str, text: str, chat: bool) -> Any:
    return [{"role": role, "content": text}] if chat else text


def _run(target: Callable[..., Any], keywords: Mapping[str, Any]) -> Any:
    result = target(**keywords)
    if not inspect.isawaitable(result):
        return result
    import asyncio  # slow to import, and few functions need it

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy and torch as Python's own; anything else unchanged."""
    library = type(value).__module__.partition(".")[0]
    return value.tolist() if library in ("numpy", "torch") else value


def _load(file: str, function: str) -> tuple[Callable[..., Any], bool]:
    """The function, and whether its file reads the "content" of messages, as chat forms have."""
    spec = importlib.util.spec_from_file_location(file[:-3], file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file[:-3]] = module
    spec.loader.exec_module(module)
    with open(file, "rb") as source:
        tree = ast.parse(source.read())
    chat = any(
        isinstance(node, ast.Constant) and node.value == "content" for node in ast.walk(tree)
    )
    return getattr(module, function), chat
