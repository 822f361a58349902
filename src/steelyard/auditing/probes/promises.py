"""What a prompt leaves open or promises to accept, as far as its words say so.

Every doubt is decided against the promise: a promise that is seen where none was made becomes a
false alarm.
"""

from __future__ import annotations

import re

_FORGIVEN = (
    r"[^.\n]{0,40}?\b(?:(?:do(?:es)?(?: not|n't)|need not) matter"
    r"|(?:is|are|will be) (?:ignored|forgiven|stripped|trimmed|irrelevant|optional|free))\b"
)
_CASE = re.compile(
    rf"case[- ]insensitive|\b(?:upper|lower)[- ]?case\b{_FORGIVEN}|(?<!-)\bcase\b{_FORGIVEN}"
    r"|\bignor\w+ case|(?<!in )\bany case\b|upper[- ]? ?or lower",
    re.IGNORECASE,
)
_KEY_ORDER = re.compile(
    rf"\border of (?:the |its |their )?(?:keys|fields)\b{_FORGIVEN}"
    r"|\b(?:keys|fields) (?:may (?:come|be|stand) )?in any order",
    re.IGNORECASE,
)
_ORDER = re.compile(
    rf"\bany order\b|\border\b{_FORGIVEN}|regardless of order|\bunordered\b", re.IGNORECASE
)
_SPACE = re.compile(
    rf"[^.\n]*(?:\b(?:white ?space|spac(?:es?|ing))\b{_FORGIVEN}"
    r"|\bignor\w+ (?:all |any |the )?(?:white ?|leading |trailing |surrounding )*spac"
    r"|\bany spacing|\b(?:with|in) any (?:white ?)?spac)[^.\n]*",
    re.IGNORECASE,
)
_OUTER = re.compile(r"\b(?:leading|trailing|surrounding|outer|around|before|after)\b", re.I)
_SPELLING = re.compile(r"\b(?:spelling|typos?|misspell\w*)\b", re.IGNORECASE)
_COMMAS = re.compile(
    r"\bcommas? (?:(?:is|are) )?(?:optional|allowed|accepted|fine|ignored)\b|\bcommas do not matter"
    r"|\bwith or without (?:thousands )?(?:commas|separators)|\bmay (?:use|contain|have) commas"
    r"|\bthousands (?:may|can) be separated",
    re.IGNORECASE,
)
_TOLERANCE = re.compile(
    r"(?:\bwithin|\btolerance of|±|\+/-)\s*(\d*\.?\d+)\s*(%|percent\b)?"
    r"(?!\w)(?!\s+(?!(?:of|from|is|are|will|or|and|counts?|either|relative|absolute)\b)\w)",
    re.IGNORECASE,
)
_FRACTION = re.compile(
    r"fraction or|or (?:a )?fraction|equivalent form|or (?:a )?decimal|decimal or", re.IGNORECASE
)
_ROUGH = re.compile(
    r"approx|about how|rough|estimat|within|toleranc|±|\+/-|accura|nearest|nearly|close"
    r"|\b(?:any|some|examples?|one of|at least|at most|between|possible|suitable|"
    r"(?:find|give|name|choose|pick|propose|write) (?:me )?an?)\b",
    re.IGNORECASE,
)
_ARITHMETIC = re.compile(
    r"\d\s*[-+*×·]\s*\d|\b(?:times|plus|minus)\b|\b(?:sum|product|difference) of\b", re.IGNORECASE
)
_THING = (
    r"(?:numbers?|integers?|primes?|words?|names?|strings?|lists?|sets?|pairs?|values?|things?)"
)
_OPEN = re.compile(
    rf"\b(?:any|some) (?:\w+ )?{_THING}\b(?! within)"
    r"|\b(?:find|name|propose|suggest|think of|come up with) (?:me )?(?:an?|one)\b"
    r"|\bgive (?:me )?(?:an example|one example|any|some)\b",
    re.IGNORECASE,
)
_SOME = re.compile(r"\b(at least|some|examples?|one of|any|a few|several|such as)\b", re.IGNORECASE)
_PRECISION = re.compile(r"(\d+) (significant|decimal)", re.IGNORECASE)


def forgives_case(prompt: str) -> bool:
    """Whether upper and lower case are the same."""
    return _CASE.search(prompt) is not None


def forgives_order(prompt: str) -> bool:
    """Whether the items of a list may stand in any order; that of an object's keys is no such."""
    return _ORDER.search(_KEY_ORDER.sub("", prompt)) is not None


def forgives_key_order(prompt: str) -> bool:
    """Whether the keys of an object may stand in any order."""
    return _KEY_ORDER.search(prompt) is not None


def forgives_space_around(prompt: str) -> bool:
    """Whether there may be spaces before and after the answer."""
    return _SPACE.search(prompt) is not None


def forgives_space_inside(prompt: str) -> bool:
    """Whether spaces between the parts of an answer are free, not only those around it."""
    found = _SPACE.search(prompt)
    return found is not None and not _OUTER.search(found.group())


def forgives_spelling(prompt: str) -> bool:
    """Whether the prompt says anything of spelling: a word that is nearly right may then be."""
    return _SPELLING.search(prompt) is not None


def allows_commas(prompt: str) -> bool:
    """Whether thousands may be separated."""
    return _COMMAS.search(prompt) is not None


def allows_fractions(prompt: str) -> bool:
    """Whether a number may be a fraction or a decimal."""
    return _FRACTION.search(prompt) is not None


def tolerance(prompt: str, number: float) -> float | None:
    """By how much an answer may differ from `number`; None where the prompt does not say.

    "Within 10 minutes" is a time, not a tolerance.
    """
    found = _TOLERANCE.search(prompt)
    if found is None:
        return None
    return float(found.group(1)) * (abs(number) / 100 if found.group(2) else 1.0)


def asks_for_exact_arithmetic(prompt: str) -> bool:
    """Whether whole numbers are to be added or multiplied, so that one more is wrong."""
    return _ARITHMETIC.search(prompt) is not None


def may_be_rough(prompt: str) -> bool:
    """Whether a number near the stored one, or another one, may be right too."""
    return _ROUGH.search(prompt) is not None


def has_many_answers(prompt: str) -> bool:
    """Whether the prompt asks for any of several right answers, of which one is stored."""
    return _OPEN.search(prompt) is not None


def may_name_more(prompt: str) -> bool:
    """Whether it may be left open how many items are named."""
    return _SOME.search(prompt) is not None


def as_precise_as_asked(whole: str, places: str, prompt: str) -> bool:
    """Whether a number with these digits before and after its point has as many as are asked."""
    asked = _PRECISION.search(prompt)
    if asked is None:
        return False
    if asked.group(2).lower().startswith("decimal"):
        return len(places) >= int(asked.group(1))
    return len((whole + places).lstrip("0")) >= int(asked.group(1))
