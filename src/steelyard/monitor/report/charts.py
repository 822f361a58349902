"""Charts as inline SVG: they need no script, and every point says its value when pointed at.

Coordinates are in pixels of the picture's own box, which scales with the page. Colours come from
the style sheet by class, so that one picture serves light and dark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from steelyard.monitor.report.curves import Rate
from steelyard.monitor.report.html import Html, element, joined

_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 14, 12, 26


@dataclass(frozen=True, slots=True)
class Point:
    """`y` with its interval, where there is one; `title` is said when it is pointed at."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    title: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One curve. `style` is its class in the style sheet; `band` draws intervals as an area
    rather than as bars."""

    name: str
    style: str
    points: Sequence[Point]
    band: bool = True


@dataclass(frozen=True, slots=True)
class Frame:
    """Where values lie in the picture."""

    width: float
    height: float
    x_range: tuple[float, float]
    y_range: tuple[float, float]

    def x(self, value: float) -> float:
        low, high = self.x_range
        share = (value - low) / (high - low) if high > low else 0.5
        return round(_LEFT + share * (self.width - _LEFT - _RIGHT), 1)

    def y(self, value: float) -> float:
        low, high = self.y_range
        share = (value - low) / (high - low) if high > low else 0.0
        return round(self.height - _BOTTOM - share * (self.height - _TOP - _BOTTOM), 1)


def line_chart(
    label: str,
    lines: Sequence[Line],
    *,
    width: float,
    height: float,
    x_range: tuple[float, float],
    y_range: tuple[float, float] = (0.0, 1.0),
    y_text: Callable[[float], str],
    between: tuple[Line, Line] | None = None,
    marks: Mapping[int, str] | None = None,
) -> Html:
    """Curves over steps. The area from `between`'s first line down to its second is shaded where
    the first is higher; `marks` are upright lines at a step, each with its title."""
    frame = Frame(width, height, x_range, y_range)
    parts: list[Html] = [_axes(frame, y_text)]
    if between is not None:
        parts.append(_gap(frame, *between))
    for step, title in (marks or {}).items():
        parts.append(_mark(frame, step, title))
    parts += [_interval(frame, line) for line in lines]
    parts += [_curve(frame, line) for line in lines]
    return _picture(label, frame, parts)


def stacked_bars(
    label: str,
    steps: Sequence[int],
    layers: Sequence[tuple[str, str, Sequence[float]]],
    *,
    width: float,
    height: float,
    y_text: Callable[[float], str],
) -> Html:
    """A bar per step, made of (name, style, values) from below."""
    totals = [sum(values[i] for _, _, values in layers) for i in range(len(steps))]
    first, last = steps[0], steps[-1]
    frame = Frame(width, height, (first - 0.6, last + 0.6), (0.0, nice_top(max(totals))))
    thick = min(34.0, 0.72 * (frame.x(1.0) - frame.x(0.0)))
    parts: list[Html] = [_axes(frame, y_text)]
    for i, step in enumerate(steps):
        below = 0.0
        for name, style, values in layers:
            top = below + values[i]
            if values[i] > 0:
                bar = element(
                    "rect",
                    element("title", f"step {step}: {y_text(values[i])} {name}"),
                    class_=f"bar {style}",
                    x=round(frame.x(step) - thick / 2, 1),
                    y=frame.y(top),
                    width=round(thick, 1),
                    height=round(frame.y(below) - frame.y(top), 1),
                )
                parts.append(bar)
            below = top
    return _picture(label, frame, parts)


def interval_row(label: str, rates: Sequence[tuple[str, Rate]], *, width: float = 260.0) -> Html:
    """Rates on one line from 0 to 1: (style, rate), each a dot with its interval."""
    height, inset = 12.0 + 9.0 * len(rates), 6.0

    def x(value: float) -> float:
        return round(inset + value * (width - 2 * inset), 1)

    parts = [
        element("line", class_="grid", x1=x(v), x2=x(v), y1=0, y2=height)
        for v in (0.0, 0.25, 0.5, 0.75, 1.0)
    ]
    for i, (style, rate) in enumerate(rates):
        y = 10.5 + 9.0 * i
        parts.append(
            element("line", class_=f"whisker {style}", x1=x(rate.low), x2=x(rate.high), y1=y, y2=y)
        )
        parts.append(element("circle", class_=f"dot {style}", cx=x(rate.value), cy=y, r=3.5))
    return element(
        "svg", *parts, class_="row", viewBox=f"0 0 {width:g} {height:g}", role="img",
        aria_label=label,
    )  # fmt: skip


def nice_top(value: float) -> float:
    """The smallest top of an axis, not below `value`, whose quarters are short numbers."""
    if not value > 0 or not math.isfinite(value):
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next(m * power for m in (1.0, 2.0, 4.0, 6.0, 8.0, 10.0) if m * power >= value)


def _picture(label: str, frame: Frame, parts: Sequence[Html]) -> Html:
    return element(
        "svg", *parts, class_="chart", viewBox=f"0 0 {frame.width:g} {frame.height:g}",
        role="img", aria_label=label,
    )  # fmt: skip


def _axes(frame: Frame, y_text: Callable[[float], str]) -> Html:
    low, high = frame.y_range
    parts = []
    for i in range(5):
        value = low + (high - low) * i / 4
        y = frame.y(value)
        parts.append(element("line", class_="grid", x1=_LEFT, x2=frame.width - _RIGHT, y1=y, y2=y))
        parts.append(element("text", y_text(value), class_="y", x=_LEFT - 7, y=round(y + 3.5, 1)))
    for step in _ticks(frame.x_range):
        parts.append(
            element("text", f"{step}", class_="x", x=frame.x(step), y=round(frame.height - 9, 1))
        )
    return joined(parts)


def _ticks(x_range: tuple[float, float], most: int = 12) -> list[int]:
    first, last = math.ceil(x_range[0]), math.floor(x_range[1])
    every = next(e for e in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 10**9) if (
        (last - first) / e <= most
    ))  # fmt: skip
    return [step for step in range(first, last + 1) if step % every == 0]


def _gap(frame: Frame, upper: Line, lower: Line) -> Html:
    """The area between two curves, only where the first is above the second."""
    below = {p.x: p.y for p in lower.points}
    both = [(p.x, p.y, below[p.x]) for p in upper.points if p.x in below]
    if len(both) < 2:
        return Html("")
    there = [f"{frame.x(x)},{frame.y(max(a, b))}" for x, a, b in both]
    back = [f"{frame.x(x)},{frame.y(b)}" for x, _, b in reversed(both)]
    return element("polygon", class_="gap", points=" ".join(there + back))


def _mark(frame: Frame, step: int, title: str) -> Html:
    x = frame.x(step)
    return element(
        "g",
        element("title", title),
        element("line", class_="alarm", x1=x, x2=x, y1=_TOP, y2=frame.height - _BOTTOM),
        element("path", class_="alarm", d=f"M{x - 5} {_TOP - 8}h10l-5 8z"),
    )


def _interval(frame: Frame, line: Line) -> Html:
    known = [(p.x, p.low, p.high) for p in line.points if p.low is not None and p.high is not None]
    if not known:
        return Html("")
    if line.band and len(known) > 1:
        there = [f"{frame.x(x)},{frame.y(high)}" for x, _, high in known]
        back = [f"{frame.x(x)},{frame.y(low)}" for x, low, _ in reversed(known)]
        return element("polygon", class_=f"band {line.style}", points=" ".join(there + back))
    return joined(
        element("line", class_=f"whisker {line.style}", x1=frame.x(x), x2=frame.x(x),
                y1=frame.y(low), y2=frame.y(high))
        for x, low, high in known
    )  # fmt: skip


def _curve(frame: Frame, line: Line) -> Html:
    path = " ".join(f"{frame.x(p.x)},{frame.y(p.y)}" for p in line.points)
    parts = [element("polyline", class_=f"line {line.style}", points=path)]
    radius = 3.5 if len(line.points) <= 40 else 1.8
    for p in line.points:
        parts.append(
            element(
                "circle",
                element("title", p.title or f"{line.name}, step {p.x:g}: {p.y:.3g}"),
                class_=f"dot {line.style}",
                cx=frame.x(p.x),
                cy=frame.y(p.y),
                r=radius,
            )
        )
    return joined(parts)
