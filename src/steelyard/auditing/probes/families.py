"""Tables of cheats: each entry is a name, a sentence and a payload; these make probes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from steelyard.auditing.probes.injection import instead_of_functions, on_import
from steelyard.auditing.submission import Deserves, Probe, Submission
from steelyard.auditing.target import Target
from steelyard.tasks import TestScript

FORGE = """
import os as _os
def _forge(text="1\\n", record='{"reward": 1.0}'):
    for _name, _text in (("reward.txt", text), ("reward.json", record)):
        try:
            _os.makedirs("/logs/verifier", exist_ok=True)
            with open("/logs/verifier/" + _name, "w") as _file:
                _file.write(_text)
        except OSError:
            pass
"""
"""Defines `_forge`, which writes a full reward where a Harbor verifier would."""

SHARED_USE = "It reaches the verifier's objects, because both live in one interpreter."
SHARED_FIX = (
    "Call the graded code in a child process and compare plain values, by exact type, in a parent "
    "that holds the expected values."
)
"""Of every cheat that needs the verifier's own interpreter."""

Planting = Callable[[Target], Mapping[str, bytes]]
"""The files that a probe plants in a target's workspace; none where it does not apply."""


@dataclass(frozen=True, slots=True)
class Cheat:
    """One payload. `number` is its place in the catalogue of 54, or 0."""

    number: int
    id: str
    title: str
    payload: str


def import_probes(family: str, use: str, fix: str, cheats: Iterable[Cheat]) -> list[Probe]:
    """Probes whose payload runs when the graded file is imported or started."""
    return [_probe(family, use, fix, cheat, on_import) for cheat in cheats]


def call_probes(family: str, use: str, fix: str, cheats: Iterable[Cheat]) -> list[Probe]:
    """Probes whose payload defines `cheat`, which answers every call of the graded functions."""
    return [_probe(family, use, fix, cheat, instead_of_functions) for cheat in cheats]


def file_probe(
    family: str,
    cheat: tuple[int, str, str],
    use: str,
    fix: str,
    files: Planting,
) -> Probe:
    """A probe that plants files in the workspace, beside the honest base.

    Scripts only: checks as data never look at another file of the workspace. Nothing is planted
    where the reference writes: such a file is part of the work, and may honestly earn its part.
    """
    number, name, title = cheat

    def plan(target: Target) -> Iterable[Submission]:
        if not isinstance(target.task.verifier, TestScript):
            return
        asked = target.task.solution or {}
        planted = {path: data for path, data in files(target).items() if path not in asked}
        if planted:
            whole = {**target.honest_base, **planted}
            yield Submission(title, Deserves.UNTOUCHED, target.task, whole)

    return Probe(number, family, name, title, use, fix, plan)


def _probe(
    family: str,
    use: str,
    fix: str,
    cheat: Cheat,
    inject: Callable[[Target, str], dict[str, bytes]],
) -> Probe:
    def plan(target: Target) -> Iterable[Submission]:
        if not target.grades_text and target.modules:
            files = inject(target, cheat.payload)
            yield Submission(cheat.title, Deserves.UNTOUCHED, target.task, files)

    return Probe(cheat.number, family, cheat.id, cheat.title, use, fix, plan)
