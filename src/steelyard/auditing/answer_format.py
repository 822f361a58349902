"""The form in which a reward function wants an answer: promised by the prompt, or found out."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

_TAG = re.compile(r"<([A-Za-z][\w-]*)>")
_KEY = re.compile(r"[{,]\s*[\"'](\w+)[\"']\s*:")
_LABEL = re.compile(
    r"((?:the )?(?:final )?answer(?: is)?\s*[:=]|(?:the )?(?:final )?answer is)", re.I
)
_DRESSED = (
    re.compile(r"\\boxed\{([^{}]*)\}"),
    re.compile(r"<(?:answer|final|result|output|solution)>\s*([^<>]*?)\s*</", re.I),
    re.compile(r"####\s*(\S.*?)\s*$", re.M),
    re.compile(r"answer(?: is|:)\s*(\S.*?)\.?\s*$", re.I | re.M),
)
_ANSWER_TAGS = ("answer", "final", "final_answer", "output", "result", "solution", "response")
_REASONING = "Working it out step by step."


@dataclass(frozen=True)
class AnswerFormat:
    """How a bare answer is dressed. `promised` says whether the prompt asks for it."""

    name: str
    wrap: Callable[[str], str]
    promised: bool


PLAIN = AnswerFormat("the bare answer", lambda text: text, True)


def candidate_formats(prompt: str) -> list[AnswerFormat]:
    """Formats worth trying, those that the prompt promises first, the plain answer among them."""
    promised = _promised(prompt)
    names = {form.name for form in promised}
    guesses = [form for form in _usual() if form.name not in names]
    return [*promised, PLAIN, *guesses]


def undressed(text: str) -> tuple[str, Callable[[str], str]]:
    """The answer in a whole stored response, and the same response around another answer.

    A text without any of the usual marks is the answer itself.
    """
    for pattern in _DRESSED:
        found = list(pattern.finditer(text))
        if found and found[-1].group(1) != text:
            start, end = found[-1].span(1)
            return text[start:end], partial(_between, text[:start], text[end:])
    return text, lambda other: other


def _between(before: str, after: str, other: str) -> str:
    return f"{before}{other}{after}"


def _promised(prompt: str) -> list[AnswerFormat]:
    found: list[AnswerFormat] = []
    if "\\boxed" in prompt:
        found.append(_boxed(True))
    tags = list(dict.fromkeys(tag for tag in _TAG.findall(prompt) if f"</{tag}>" in prompt))
    if tags:
        final = next((tag for tag in reversed(tags) if tag.lower() in _ANSWER_TAGS), tags[-1])
        before = "".join(f"<{tag}>{_REASONING}</{tag}>\n" for tag in tags if tag != final)
        found.append(_tagged(final, True, before))
    if "####" in prompt:
        found.append(_marked(True))
    key = _KEY.search(prompt)
    if key:
        found += [_json(key.group(1), True, quoted=False), _json(key.group(1), True, quoted=True)]
    label = _LABEL.search(prompt)
    if label:
        found.append(_labelled(label.group(1), True))
    return found


def _usual() -> list[AnswerFormat]:
    return [
        _boxed(False),
        _tagged("answer", False, ""),
        _tagged("answer", False, f"<think>{_REASONING}</think>\n"),
        _marked(False),
        _labelled("Answer:", False),
        _labelled("The answer is", False),
        _json("answer", False, quoted=True),
        _json("answer", False, quoted=False),
    ]


def _boxed(promised: bool) -> AnswerFormat:
    return AnswerFormat("\\boxed{…}", lambda text: f"\\boxed{{{text}}}", promised)


def _tagged(tag: str, promised: bool, before: str) -> AnswerFormat:
    name = f"{'<…> ' if before else ''}<{tag}>…</{tag}>"
    return AnswerFormat(name, lambda text: f"{before}<{tag}>{text}</{tag}>", promised)


def _marked(promised: bool) -> AnswerFormat:
    return AnswerFormat("#### …", lambda text: f"{_REASONING}\n#### {text}", promised)


def _labelled(label: str, promised: bool) -> AnswerFormat:
    return AnswerFormat(f"{label} …", lambda text: f"{label} {text}", promised)


def _json(key: str, promised: bool, *, quoted: bool) -> AnswerFormat:
    def wrap(text: str) -> str:
        value: object = text
        if not quoted:
            try:
                value = json.loads(text)
            except ValueError:
                value = text
        return json.dumps({key: value})

    return AnswerFormat(f'{{"{key}": …}}{" as text" if quoted else ""}', wrap, promised)
