"""Stored answers that stand in the prompts themselves."""

from __future__ import annotations

import re

from steelyard.auditing.findings import Finding, Kind, Strength
from steelyard.auditing.probes.examples import examples_of
from steelyard.auditing.target import Target

_KEY = r"\b(?:answer|expected|solution|gold|target|label|key|correct)\w*\b[\"'\s:=>-]{1,5}"
_SHARE = 0.75


def prompt_leaks(target: Target) -> list[Finding]:
    """One finding where most prompts name their own answer as such; one example proves nothing."""
    examples = [example for example in examples_of(target) if example.gold.strip()]
    told = [
        example
        for example in examples
        if re.search(
            _KEY + rf"{re.escape(example.gold.strip())}(?!\w)", example.prompt, re.IGNORECASE
        )
    ]
    if len(told) < 2 or len(told) < _SHARE * len(examples):
        return []
    return [
        Finding(
            "leaks/answer-in-prompt", Kind.LEAK, Strength.PROVED,
            "the prompt holds its own answer",
            f"{len(told)} of {len(examples)} prompts, for example {told[0].task.name}: "
            f"{told[0].gold[:80]!r}",
            "It copies the answer out of the prompt.",
            "Build prompts from the question alone.",
            artifact=told[0].prompt,
        )
    ]  # fmt: skip
