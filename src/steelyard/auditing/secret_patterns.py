"""Keys and passwords in text.

A value of a published token format is certain; a value that only its name or its randomness makes
suspect is not. Hashes, UUIDs, encoded data and lock files are no secrets: randomness counts only
beside a name that claims a secret. Formats: the issuers' documentation of their token prefixes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

_START = r"(?<![A-Za-z0-9_-])"
_FORMATS = {
    "an AWS access key id": rf"{_START}(?:AKIA|ASIA)([A-Z2-7]{{16}})(?![A-Z0-9])",
    "a GitHub token": rf"{_START}(?:gh[pousr]_|github_pat_)([A-Za-z0-9_]{{36,255}})\b",
    "a GitLab token": rf"{_START}glpat-([\w-]{{20,}})",
    "a Slack token": rf"{_START}xox[abeoprs]-([A-Za-z0-9-]{{20,}})",
    "a Slack webhook": r"hooks\.slack\.com/services/(T\w{8,}/B\w{8,}/\w{20,})",
    "an Anthropic key": rf"{_START}sk-ant-[a-z]+\d*-([\w-]{{32,}})",
    "an OpenAI key": rf"{_START}sk-(?!ant-)((?:proj-|svcacct-|admin-)?[\w-]{{32,}})",
    "a Hugging Face token": rf"{_START}hf_([A-Za-z0-9]{{34}})\b",
    "a Google API key": rf"{_START}AIza([\w-]{{35}})(?![\w-])",
    "a Stripe live key": rf"{_START}[rs]k_live_([A-Za-z0-9]{{24,}})\b",
    "an npm token": rf"{_START}npm_([A-Za-z0-9]{{36}})\b",
    "a PyPI token": rf"{_START}pypi-(AgEIcHlwaS5vcmc[\w-]{{50,}})",
    "a private key": r"-----BEGIN (?:[A-Z]+ )?PRIVATE KEY(?: BLOCK)?-----"
    r"(?:\\n|[^-A-Za-z0-9+/]|[A-Z][\w-]+: [^\n]*\n)*([A-Za-z0-9+/=\s\\]{100,})",
}
_PATTERNS = {what: re.compile(pattern) for what, pattern in _FORMATS.items()}

_NAMED = re.compile(
    r"""(?ix) (?<![A-Za-z0-9])
    (?P<name> [\w.-]* (?: passw(?:or)?d | passphrase | secret | token | api[_-]?key
      | access[_-]?key | private[_-]?key | credentials? ) [\w-]* )
    ["']? \s* (?: = | : | => ) \s*
    (?: "(?P<double>[^"\n]{6,200})" | '(?P<single>[^'\n]{6,200})' | (?P<bare>[^\s"'#;,]{6,200}) )
    """
)
_NOT_SECRET_NAMES = re.compile(
    r"(?i)hash|digest|checksum|sha\d|public|csrf|tokeni[sz]|max|min|num|count|length|limit|type|"
    r"url|uri|path|file|name|field|prompt|regex|pattern|header|label|id$|[_-]id[_-]|invalid|wrong"
)
_PLACEHOLDER = re.compile(
    r"(?i)example|sample|dummy|fake|placeholder|redacted|change.?me|your[_-]|xxxx|\*\*\*|\.\.\.|"
    r"0123456789|1234567|abcdefg|<.*>|\$\{|\{\{|%\(|\$\(|^\$|secret|password|token|hunter2"
)
_SETTINGS_FILES = re.compile(
    r"(?i)(^|/)(\.env[\w.-]*|\.netrc|\.pypirc|\.npmrc|credentials|[^/]*\.(ini|cfg|conf|toml|ya?ml|"
    r"properties|env))$"
)
_GENERATED = re.compile(
    r"(?i)(^|/)([\w.-]*lock(\.json|\.ya?ml)?|[\w-]+-lock\.\w+|go\.sum|[\w.-]+\.(svg|ipynb|min\.js|"
    r"map|csv|tsv))$"
)
_FIXTURE_FOLDERS = frozenset(
    {"test", "tests", "testing", "fixtures", "testdata", "examples", "docs", "doc", "certs"}
)
_MIN_BITS = 3.0
"""Bits a character: English words have under 3 at these lengths, random base64 over 4."""


@dataclass(frozen=True, slots=True)
class Secret:
    """One find. `shown` is masked; `certain` means the value has an issuer's format."""

    what: str
    path: str
    line: int
    value: str
    certain: bool

    @property
    def shown(self) -> str:
        return f"{self.value[:4]}… ({len(self.value)} characters)"


def find_secrets(text: str, path: str) -> Iterator[Secret]:
    """The secrets of one file or variable, each value once, in order."""
    if _GENERATED.search(path):
        return
    seen: set[str] = set()
    for what, pattern in _PATTERNS.items():
        for match in pattern.finditer(text):
            value = match[0].strip()
            if value not in seen and _looks_random(match[1], what):
                seen.add(value)
                yield Secret(what, path, _line(text, match), value, certain=True)
    for match in _NAMED.finditer(text):
        value = match["double"] or match["single"] or match["bare"]
        bare = match["bare"] is not None
        if bare and not _SETTINGS_FILES.search(path):
            continue
        if _is_credential(match["name"], value) and not any(value in known for known in seen):
            seen.add(value)
            yield Secret(f"a value named {match['name']}", path, _line(text, match), value, False)


def in_fixtures(path: str) -> bool:
    """Whether the path says that what lies there is made up for tests or documents."""
    return bool({part.lower() for part in PurePosixPath(path).parts[:-1]} & _FIXTURE_FOLDERS)


def entropy_bits(text: str) -> float:
    """Shannon entropy of the characters, in bits a character."""
    counts = Counter(text).values()
    return -sum(n / len(text) * math.log2(n / len(text)) for n in counts) if text else 0.0


def _looks_random(body: str, what: str) -> bool:
    if _PLACEHOLDER.search(body) or entropy_bits(body) < _MIN_BITS:
        return False
    # Names with dashes have these prefixes too (a style sheet's "sk-folding-cube-...").
    mixed = any(c.isdigit() for c in body) and any(c.isupper() for c in body)
    return mixed or what not in ("an OpenAI key", "a GitLab token", "an Anthropic key")


def _is_credential(name: str, value: str) -> bool:
    if _NOT_SECRET_NAMES.search(name) or _PLACEHOLDER.search(value):
        return False
    if re.search(r"[\s()\[\]{}<>]", value) or re.fullmatch(r"[\w.]+[./:][\w./:-]+", value):
        return False  # a sentence, an expression, a path, an address, a dotted name
    if re.search(r"(?i)passw|passphrase", name):
        return bool(re.search(r"\d|[^\w-]", value)) and entropy_bits(value) >= 2.5
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return len(value) >= 16 and mixed and entropy_bits(value) >= _MIN_BITS + 0.3


def _line(text: str, match: re.Match[str]) -> int:
    return text.count("\n", 0, match.start()) + 1
