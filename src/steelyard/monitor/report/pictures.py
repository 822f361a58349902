"""The report's curves and bars, with their legends."""

from __future__ import annotations

from collections.abc import Sequence

from steelyard.monitor.report.charts import (
    Line,
    Point,
    interval_row,
    line_chart,
    nice_top,
    stacked_bars,
)
from steelyard.monitor.report.curves import Rate
from steelyard.monitor.report.html import Html, element, joined, table
from steelyard.monitor.report.sections import rate_words, words
from steelyard.monitor.report.story import Story
from steelyard.monitor.scores import Json
from steelyard.monitor.summary import WITHIN_SAMPLING
from steelyard.monitor.text import bounds, percent

_WIDE, _NARROW = 920.0, 450.0
_VERDICTS = (("mixed", "mixed"), ("all_pass", "pass"), ("all_fail", "fail"), ("unscored", "none"))
_STYLE_OF_STAGE = {"base": "base", "warm_start": "warm", "final": "final"}


def headline(story: Story) -> Html:
    """A tile per headline evaluation."""
    tiles = []
    for stage in story.stages:
        rate, style = stage.rate, _STYLE_OF_STAGE[stage.key]
        small = (
            f"{bounds(rate.low, rate.high)} · {rate.n:,} episodes of {rate.tasks:,} tasks"
            if rate
            else "no episode could be scored"
        )
        tiles.append(
            element(
                "div",
                element("p", stage.name, class_="name"),
                element("p", percent(rate.value if rate else None), class_="big"),
                interval_row(f"{stage.name}: {rate_words(rate)}", [(style, rate)])
                if rate
                else None,
                element("p", small, class_="quiet"),
                element("p", f"{stage.unscored} unscored, in no rate", class_="quiet")
                if stage.unscored
                else None,
                class_="tile",
            )
        )
    return element("div", *tiles, class_="tiles")


def by_kind(story: Story) -> Html | None:
    """Each kind of task in the headline evaluations."""
    kinds = sorted({kind for stage in story.stages for kind in stage.by_kind})
    if len(kinds) < 2:
        return None
    rows = []
    for kind in kinds:
        rates = [(stage, stage.by_kind.get(kind)) for stage in story.stages]
        drawn = [(_STYLE_OF_STAGE[s.key], r) for s, r in rates if r is not None]
        cells: list[str] = [rate_words(r) for _, r in rates]
        rows.append([kind or "–", interval_row(f"kind {kind}", drawn), *cells])
    names = [stage.name for stage in story.stages]
    return joined(
        [
            _legend([(s.name, _STYLE_OF_STAGE[s.key]) for s in story.stages]),
            table(["kind", "0 to 100%", *names], rows, class_="kinds"),
        ]
    )


def signals(story: Story) -> Html | None:
    """Training reward, held-out checks on the same episodes, unseen tasks; the gap shaded."""
    paid = [(s.step, s.paid) for s in story.steps if s.paid]
    accepted = [(s.step, s.accepted) for s in story.steps if s.accepted]
    reward = paid or [(s.step, s.reward) for s in story.steps if s.reward]
    lines = [
        _rate_line("training reward", "train", reward),
        _rate_line("held-out checks, same episodes", "truth", accepted),
        _rate_line("unseen dev tasks", "unseen", story.unseen, band=False),
    ]
    drawn = [line for line in lines if line.points]
    if not drawn:
        return None
    steps = [p.x for line in drawn for p in line.points]
    marks: dict[int, str] = {}
    for alarm in story.alarms:
        if alarm.step is not None:
            said = f"step {alarm.step}: {words(alarm.name)}: {alarm.text}"
            marks[alarm.step] = "; ".join(filter(None, [marks.get(alarm.step), said]))
    legend = [(line.name, line.style) for line in drawn]
    if accepted:
        legend.append(("paid, but not accepted", "shade"))
    if marks:
        legend.append(("alarm", "mark"))
    chart = line_chart(
        "training reward, held-out success and unseen success by step",
        drawn,
        width=_WIDE,
        height=300.0,
        x_range=(min(steps), max(steps)),
        y_text=percent,
        between=(lines[0], lines[1]) if accepted else None,
        marks=marks,
    )
    return _figure("", [_legend(legend), chart], wide=True)


def small_charts(story: Story) -> Html | None:
    """Groups by verdict, parts of the reward, entropy, time, throughput, cost of an episode."""
    steps = story.summary["steps"]
    figures = [
        _groups(steps),
        _entropy(steps),
        _parts(steps),
        _seconds(steps),
        _speed(steps),
        *_costs(story),
    ]
    drawn = [figure for figure in figures if figure is not None]
    return element("div", *drawn, class_="charts") if drawn else None


def _groups(steps: Sequence[Json]) -> Html | None:
    if not steps:
        return None
    layers = [
        (words(verdict), style, [float(s["groups"].get(verdict, 0)) for s in steps])
        for verdict, style in _VERDICTS
    ]
    layers = [layer for layer in layers if any(layer[2])]
    if not layers:
        return None
    chart = stacked_bars(
        "groups by verdict", [s["step"] for s in steps], layers,
        width=_NARROW, height=210.0, y_text=lambda v: f"{v:g}",
    )  # fmt: skip
    said = "only a mixed group carries a gradient"
    return _figure("Groups by verdict", [_legend([(n, s) for n, s, _ in layers]), chart], said)


def _entropy(steps: Sequence[Json]) -> Html | None:
    return _single("Entropy", "nats a token", _known(steps, "entropy"), "entropy")


def _seconds(steps: Sequence[Json]) -> Html | None:
    parts = [p for s in steps for p in s["seconds"] if p not in WITHIN_SAMPLING]
    layers = [
        (words(part), f"phase{i % 4}", [s["seconds"].get(part, 0.0) for s in steps])
        for i, part in enumerate(dict.fromkeys(parts))
    ]
    layers = [layer for layer in layers if any(layer[2])]
    if not layers:
        return None
    chart = stacked_bars(
        "seconds by phase", [s["step"] for s in steps], layers,
        width=_NARROW, height=210.0, y_text=lambda v: f"{v:.3g} s",
    )  # fmt: skip
    said = "wall time of a step; grading overlaps with sampling"
    return _figure("Seconds by phase", [_legend([(n, s) for n, s, _ in layers]), chart], said)


def _speed(steps: Sequence[Json]) -> Html | None:
    lines = [
        Line(part, style, points)
        for part, style in (("sampling", "phase0"), ("training", "phase1"))
        if (
            points := [
                Point(s["step"], speed)
                for s in steps
                if (speed := s["tokens_per_second"][part]) is not None
            ]
        )
    ]
    if not lines:
        return None
    xs = [p.x for line in lines for p in line.points]
    top = nice_top(max(p.y for line in lines for p in line.points))
    chart = line_chart(
        "tokens a second", lines, width=_NARROW, height=210.0, x_range=(min(xs), max(xs)),
        y_range=(0.0, top), y_text=lambda v: f"{v:,.0f}",
    )  # fmt: skip
    return _figure("Tokens a second", [_legend([(x.name, x.style) for x in lines]), chart])


def _parts(steps: Sequence[Json]) -> Html | None:
    """The reward that training saw, and what was added to the verifier's, where it was shaped."""
    names = list(dict.fromkeys(name for s in steps for name in s["components"]))
    if not names:
        return None
    lines = [Line("as trained", "phase0", _known(steps, "reward_shaped_mean"))]
    if "outcome" not in names:
        lines.append(Line("verifier alone", "phase3", _known(steps, "reward_mean")))
    for i, name in enumerate(names):
        points = [
            Point(s["step"], v) for s in steps if (v := s["components"].get(name)) is not None
        ]
        lines.append(Line(words(name), f"phase{1 + i % 2}", points))
    values = [p.y for line in lines for p in line.points]
    top = nice_top(max(abs(v) for v in values))
    xs = [p.x for line in lines for p in line.points]
    chart = line_chart(
        "parts of the reward", [line for line in lines if line.points], width=_NARROW,
        height=210.0, x_range=(min(xs), max(xs)), y_range=(-top if min(values) < 0 else 0.0, top),
        y_text=lambda v: f"{v:.2g}",
    )  # fmt: skip
    return _figure("Parts of the reward", [_legend([(x.name, x.style) for x in lines]), chart])


def _known(steps: Sequence[Json], name: str) -> list[Point]:
    return [Point(s["step"], s[name]) for s in steps if s[name] is not None]


def _costs(story: Story) -> list[Html | None]:
    """What an episode takes, where that changes."""
    charts = []
    for name in dict.fromkeys(name for s in story.steps for name in s.per_episode):
        points = [Point(s.step, s.per_episode[name]) for s in story.steps if name in s.per_episode]
        if any(p.y != points[0].y for p in points):
            title = f"{name[0].upper()}{name[1:]} per episode"
            charts.append(_single(title, "mean", points, "cost"))
    return charts


def _single(title: str, unit: str, points: Sequence[Point], style: str) -> Html | None:
    if not points:
        return None
    xs = [p.x for p in points]
    chart = line_chart(
        title, [Line(title, style, points)], width=_NARROW, height=210.0,
        x_range=(min(xs), max(xs)), y_range=(0.0, nice_top(max(p.y for p in points))),
        y_text=lambda v: f"{v:.3g}",
    )  # fmt: skip
    return _figure(title, [chart], unit)


def _rate_line(
    name: str, style: str, rates: Sequence[tuple[int, Rate]], *, band: bool = True
) -> Line:
    points = [
        Point(step, r.value, r.low, r.high, f"{name}, step {step}: {rate_words(r)}, n={r.n}")
        for step, r in rates
    ]
    return Line(name, style, points, band)


def _figure(title: str, parts: Sequence[Html], said: str = "", *, wide: bool = False) -> Html:
    caption = None
    if title:
        caption = element(
            "figcaption", element("b", title), element("span", f" {said}") if said else None
        )
    return element("figure", caption, *parts, class_="wide" if wide else None)


def _legend(entries: Sequence[tuple[str, str]]) -> Html:
    return element(
        "p",
        *(
            element("span", element("i", class_=f"key {style}"), name, class_="entry")
            for name, style in entries
        ),
        class_="legend",
    )
