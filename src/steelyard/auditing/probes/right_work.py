"""Family J: right work in another form, which must be paid."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from fractions import Fraction

from steelyard.auditing.findings import Kind
from steelyard.auditing.probes import promises
from steelyard.auditing.probes.answer_lists import ITEM
from steelyard.auditing.probes.examples import Example, answer, as_number, examples_of
from steelyard.auditing.rewrites import rewrites
from steelyard.auditing.submission import Deserves, Probe, Submission
from steelyard.auditing.target import Target, parses
from steelyard.tasks import FunctionChecks, TestScript
from steelyard.tasks.task import CheckProgram

_USE = "It cannot: right work earns nothing, so the policy learns the verifier's taste instead."
_FIX = "Check behaviour instead of the text of the source, and accept every form that was promised."

_ENVIRONMENTS = (
    ("another time zone", {"TZ": "Pacific/Kiritimati"}),
    ("another time zone, a day behind", {"TZ": "Pacific/Pago_Pago"}),
    ("another hash seed", {"PYTHONHASHSEED": "1"}),
    ("yet another hash seed", {"PYTHONHASHSEED": "4242"}),
    ("the C locale", {"LC_ALL": "C", "LANG": "C"}),
)


def _rewritten(target: Target) -> Iterable[Submission]:
    gold = target.gold
    if gold is None or target.grades_text:
        return
    for module in target.modules:
        if not parses(gold.get(module)):
            continue
        for rewrite in rewrites(gold[module].decode(), keep=_outside_names(target, module)):
            files = {**gold, module: rewrite.source.encode()}
            label = f"the reference, {rewrite.name}"
            yield Submission(label, Deserves.SUCCESS, target.task, files)


def _outside_names(target: Target, module: str) -> set[str]:
    """Names that a solver knows of and must keep: those that other files, the module as it was
    given, or the instruction mention. What only the tests know is no solver's business."""
    gold = target.gold or {}
    other = [data.decode("utf-8", "replace") for path, data in gold.items() if path != module]
    text = "\n".join([*other, *target.visible_texts])
    names = set(re.findall(r"\w+", text))
    verifier = target.task.verifier
    if isinstance(verifier, FunctionChecks | CheckProgram):
        names.add(verifier.function)
    return names


def _elsewhere(target: Target) -> Iterable[Submission]:
    if target.gold is None or not isinstance(target.task.verifier, TestScript):
        return
    for label, variables in _ENVIRONMENTS:
        yield Submission(
            f"the reference in {label}",
            Deserves.SUCCESS,
            target.task,
            target.gold,
            environment=variables,
        )


def _second_solutions(target: Target) -> Iterable[Submission]:
    for name, files in target.second_solutions.items():
        yield Submission(f"the second solution {name}", Deserves.SUCCESS, target.task, files)


def _promised_forms(target: Target) -> Iterable[Submission]:
    """The stored answer in every form that the prompt promises to accept."""
    if not target.grades_text:
        return
    for example in examples_of(target):
        for label, text in _forms(example, target.form.promised and target.form.name):
            yield answer(example.task, text, label, Deserves.SUCCESS)


def _forms(example: Example, form: str | bool) -> Iterable[tuple[str, str]]:
    prompt, gold, wrap = example.prompt, example.gold, example.wrap
    only = re.search(r"\b(only|nothing else|exactly|no other text)\b", prompt.lower())
    if form and wrap("x") != "x" and not only:
        yield "after a line of reasoning", f"Let me think about it first.\n\n{wrap(gold)}"
    for label, text in _promised(prompt, gold):
        yield label, wrap(text)


def _promised(prompt: str, gold: str) -> Iterable[tuple[str, str]]:
    if promises.forgives_case(prompt):
        yield "in upper case", gold.upper()
        yield "in lower case", gold.lower()
    if promises.forgives_order(prompt):
        yield from _reordered(gold)
    if promises.forgives_space_around(prompt):
        yield "with spaces around", f"  {gold} "
    if promises.forgives_space_inside(prompt):
        yield from _spaced(gold)
    if promises.forgives_key_order(prompt):
        yield from _rekeyed(gold)
    number = as_number(gold)
    if number is not None:
        yield from _numbers(number, gold, prompt)


def _object(gold: str) -> dict[str, object] | None:
    try:
        value = json.loads(gold)
    except ValueError:
        return None
    return value if isinstance(value, dict) and value else None


def _spaced(gold: str) -> Iterable[tuple[str, str]]:
    value = _object(gold)
    if value is not None:
        dense = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        for text in (dense, json.dumps(value, ensure_ascii=False, indent=2)):
            if text != gold:
                yield "with other spacing", text


def _rekeyed(gold: str) -> Iterable[tuple[str, str]]:
    value = _object(gold)
    if value is not None and len(value) > 1:
        yield "with its keys in another order", _written(dict(reversed(value.items())), gold)


def _written(value: object, gold: str) -> str:
    """The value as JSON with the spacing of the stored answer."""
    separators = (", " if ", " in gold else ",", ": " if ": " in gold else ":")
    return json.dumps(value, ensure_ascii=False, separators=separators)


def _reordered(gold: str) -> Iterable[tuple[str, str]]:
    """The elements of a list, reversed; what lies inside an element stays as it is."""
    try:
        value = json.loads(gold)
    except ValueError:
        value = None
    if isinstance(value, list) and value != value[::-1]:
        yield "in reverse order", _written(value[::-1], gold)
    inside = gold.strip("[](){}")
    if isinstance(value, list | dict) or re.search(r"[\[\](){}]", inside):
        return
    for separator in (", ", ",", "\n", " "):
        parts = inside.split(separator)
        if len(parts) > 1:
            if separator != " " or all(map(ITEM.fullmatch, parts)):  # else it may be a sum
                start, end = (gold[0], gold[-1]) if gold[0] in "[({" else ("", "")
                yield "in reverse order", f"{start}{separator.join(reversed(parts))}{end}"
            return


def _numbers(number: float, gold: str, prompt: str) -> Iterable[tuple[str, str]]:
    if promises.allows_fractions(prompt):
        fraction = Fraction(gold.strip()) if re.fullmatch(r"-?[\d./]+", gold.strip()) else None
        if fraction is not None and fraction.denominator < 1000:
            yield "as a fraction", f"{fraction.numerator}/{fraction.denominator}"
            if float(fraction) == float(f"{float(fraction):.6f}"):
                yield "as a decimal", f"{float(fraction):.6f}".rstrip("0")
    tolerance = promises.tolerance(prompt, number)
    if tolerance is not None:
        yield "within the promised tolerance", repr(number + 0.4 * tolerance)
    if promises.allows_commas(prompt) and number == int(number) and abs(number) >= 1000:
        yield "with thousands separated", f"{int(number):,}"


PROBES: list[Probe] = [
    Probe(52, "right-work", "rewritten", "the reference in other words is rejected", _USE, _FIX,
          _rewritten, Kind.REJECTS),
    Probe(51, "right-work", "elsewhere", "the reference fails in another environment", _USE,
          "Let no check depend on the clock's zone, the hash seed or the locale.", _elsewhere,
          Kind.REJECTS),
    Probe(53, "right-work", "second-solution", "an independent right solution is rejected", _USE,
          _FIX, _second_solutions, Kind.REJECTS),
    Probe(52, "right-work", "promised-form", "a form that the prompt promises is rejected", _USE,
          _FIX, _promised_forms, Kind.REJECTS),
]  # fmt: skip
