"""What the documents call a probe, a family or a finding is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from steelyard.auditing import probes as package
from steelyard.auditing.probes import PROBES

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("*/**/README.md")])
NAMES = {probe.name for probe in PROBES}
FAMILIES = {probe.family for probe in PROBES} | {"baseline", "leaks", "lint", "mutants", "shared"}
SOURCES = "".join(path.read_text() for path in Path(str(package.__file__)).parents[1].glob("*.py"))


def unknown(text: str) -> list[str]:
    """The names in `text` that are neither a probe, nor another finding, nor a place on disk."""
    quoted = re.findall(r"`([a-z-]+/[a-z0-9-]+)`", text)
    commanded = re.findall(r"--only ([a-z][\w/-]*)", text)
    return [name for name in (*quoted, *commanded) if not _is_known(name)]


def _is_known(name: str) -> bool:
    if name in NAMES | FAMILIES or (ROOT / name).exists():
        return True
    family, _, short = name.partition("/")
    # Findings that no probe makes: written in full, or under their family's one word.
    in_full = f'"{name}"' in SOURCES
    return in_full or (family in ("leaks", "lint") and f'"{short}"' in SOURCES)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_names_only_probes_that_exist(document: Path) -> None:
    assert unknown(document.read_text()) == []


def test_every_family_of_the_table_exists_and_the_other_way_round() -> None:
    table = (ROOT / "docs/audit.md").read_text().partition("| family |")[2].partition("\n\n")[0]
    named = {name for row in re.findall(r"^\| (`.+?) \|", table, re.M) for name in
             re.findall(r"`([a-z-]+)`", row)}  # fmt: skip
    assert named == FAMILIES


def test_a_name_that_does_not_exist_is_seen() -> None:
    assert unknown("`dodges/unscored`, `exits/no-such`, --only exit") == [
        "dodges/unscored",
        "exits/no-such",
        "exit",
    ]
    assert unknown("`exits/flood`, `baseline/nothing`, `leaks/git`, `lint/x`") == [
        name for name in ("leaks/git", "lint/x") if f'"{name.partition("/")[2]}"' not in SOURCES
    ]
