"""What narrows, sorts and pages a view: terms such as `tool=edit` among its ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

PAGING = ("sort", "offset", "limit")


@dataclass(frozen=True, slots=True)
class Terms:
    """`names` are the ids that are no terms; `filters` the terms that are not about paging."""

    names: tuple[str, ...]
    filters: Mapping[str, str]
    sort: str | None = None
    offset: int = 0
    limit: int | None = None


def read_terms(ids: Sequence[str], filters: Collection[str]) -> Terms:
    """Splits `ids` into names and `KEY=VALUE` terms, KEY being one of `filters` or of `PAGING`.

    Anything else is a name, even with an equals sign in it.
    Raises: ValueError for a term that is given twice, or an offset or limit that is no number.
    """
    names: list[str] = []
    terms: dict[str, str] = {}
    for entry in ids:
        key, equals, value = entry.partition("=")
        if not equals or key not in {*filters, *PAGING}:
            names.append(entry)
        elif key in terms:
            raise ValueError(f"{key} is given twice: {key}={terms[key]} and {entry}")
        else:
            terms[key] = value
    sort = terms.pop("sort", None)
    offset, limit = terms.pop("offset", "0"), terms.pop("limit", None)
    return Terms(
        tuple(names),
        terms,
        sort,
        _count("offset", offset),
        None if limit is None else _count("limit", limit),
    )


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise ValueError(f"{name} must be a whole number from 0 on, got {text!r}")
    return int(text)
