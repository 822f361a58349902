"""Markup that cannot forget to escape: any text that is not markup already is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterable

from steelyard.monitor.text import printable


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def element(name: str, *children: str | None, **attributes: object) -> Html:
    """`<name attributes>children</name>`: children that are no Html are cleaned and escaped.

    Underscores in the names of attributes become hyphens, one at the end falls away; an attribute
    that is None is left out.
    """
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_escaped(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{written}>{joined(children)}</{name}>")


def joined(parts: Iterable[str | None]) -> Html:
    """The parts one after the other; None is nothing."""
    return Html("".join(p if isinstance(p, Html) else _escaped(p) for p in parts if p is not None))


def table(header: Iterable[str], rows: Iterable[Iterable[str]], class_: str | None = None) -> Html:
    """A table; the cells may be Html. It scrolls by itself where it is too wide."""
    head = element("tr", *(element("th", cell) for cell in header))
    body = [element("tr", *(element("td", cell) for cell in row)) for row in rows]
    drawn = element("table", element("thead", head), element("tbody", *body), class_=class_)
    return element("div", drawn, class_="scroll")


def _escaped(text: str) -> str:
    return html.escape(printable(text))
