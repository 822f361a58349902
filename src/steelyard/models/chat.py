"""From messages to token ids, without ever re-tokenising what was sampled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

_PLAIN_TEMPLATE = (
    "{% for message in messages %}{{ '### ' + message['role'] + '\n' + message['content'] }}"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '### assistant\n' }}{% endif %}"
)
"""For a model whose tokenizer has no chat template."""


class Message(TypedDict):
    """One message of a conversation; role is system, user, assistant or tool."""

    role: str
    content: str


class ChatRenderer:
    """Renders a conversation with the model's own chat template.

    Templates differ in what they accept. One that refuses the role `tool` gets observations as
    user messages; one that refuses `system` gets it at the head of the first user message.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._template: str | None = None if tokenizer.chat_template else _PLAIN_TEMPLATE
        self._system_role = self._accepts([("system", "sys-probe"), ("user", "u")], "sys-probe")
        self._tool_role = self._accepts(
            [("user", "u"), ("assistant", "a"), ("tool", "tool-probe")], "tool-probe"
        )

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The ids of a conversation up to where the assistant's turn begins."""
        return self._encode(self._render(messages, generate=True))

    def continuation(
        self, history: Sequence[Message], answer: str, stop_id: int, new: Sequence[Message]
    ) -> list[int] | None:
        """The ids that follow a sampled answer: the rest of its turn, `new`, the next turn's head.

        Args:
            history: the messages before the answer.
            answer: the text of the sampled ids without the stop token.
            stop_id: the stop token that was sampled.
            new: the messages that follow (observations).

        Returns:
            None if the template rewrites history, so that what the model saw is no longer a
            prefix; the caller then starts a new segment with `prompt`.
        """
        before = self._render(history, generate=True)
        after = self._render(
            [*history, Message(role="assistant", content=answer), *new], generate=True
        )
        if not after.startswith(before):
            return None
        rest = after[len(before) :].lstrip()
        if not rest.startswith(answer.strip()):
            return None
        rest = rest[len(answer.strip()) :]
        stop_text = self._tokenizer.decode([stop_id])
        if stop_text and rest.lstrip().startswith(stop_text):
            rest = rest.lstrip()[len(stop_text) :]
        return self._encode(rest)

    def decode(self, token_ids: Sequence[int]) -> str:
        """The text of sampled ids, special tokens left visible."""
        return str(self._tokenizer.decode(list(token_ids), skip_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer(text, add_special_tokens=False).input_ids)

    def _render(self, messages: Sequence[Message], *, generate: bool) -> str:
        return str(
            self._tokenizer.apply_chat_template(
                [dict(m) for m in self._fitted(messages)],
                chat_template=self._template,
                tokenize=False,
                add_generation_prompt=generate,
            )
        )

    def _fitted(self, messages: Sequence[Message]) -> list[Message]:
        """The messages in the roles that this template accepts."""
        fitted: list[Message] = []
        system = ""
        for message in messages:
            if message["role"] == "system" and not self._system_role:
                system = message["content"] + "\n\n"
            elif message["role"] == "tool" and not self._tool_role:
                fitted.append(Message(role="user", content=message["content"]))
            elif message["role"] == "user" and system:
                fitted.append(Message(role="user", content=system + message["content"]))
                system = ""
            else:
                fitted.append(message)
        return fitted

    def _accepts(self, pairs: list[tuple[str, str]], content: str) -> bool:
        from jinja2 import TemplateError

        messages = [{"role": role, "content": text} for role, text in pairs]
        try:
            text = self._tokenizer.apply_chat_template(
                messages, chat_template=self._template, tokenize=False
            )
        except (TemplateError, ValueError, KeyError):
            return False
        return content in text
