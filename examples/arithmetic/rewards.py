"""The reward of the arithmetic example: 1 for the right number and nothing else, or else 0."""

import re


def score(prompt: str, answer: str, expected: int, **row: object) -> float:
    """Strict on purpose: a parser that searches the answer for the number teaches rambling."""
    text = answer.strip()
    return float(re.fullmatch(r"-?\d{1,9}", text, re.ASCII) is not None and int(text) == expected)
