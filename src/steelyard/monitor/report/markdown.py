"""The report in Markdown: its numbers and sentences, for a pull request or a log book."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from steelyard.monitor.report.lead import lead
from steelyard.monitor.report.sections import rate_words, words
from steelyard.monitor.report.story import Story
from steelyard.monitor.text import duration, printable


def as_markdown(story: Story) -> str:
    """The summary; what the model or a task wrote cannot become markup in it."""
    return "\n".join(_lines(story)) + "\n"


def _lines(story: Story) -> Iterator[str]:
    summary = story.summary
    yield f"# {_plain(summary['name'])}"
    yield ""
    yield f"{_plain(summary['model'])}, {summary['state']}, begun {summary['created']}."
    for sentence in lead(story):
        yield ""
        yield _plain(sentence)
    kinds = sorted({kind for stage in story.stages for kind in stage.by_kind})
    if story.stages:
        yield ""
        yield from _table(
            ["kind", *(stage.name for stage in story.stages)],
            [
                ["all", *(rate_words(stage.rate) for stage in story.stages)],
                *(
                    [kind or "–", *(rate_words(s.by_kind.get(kind)) for s in story.stages)]
                    for kind in kinds
                    if len(kinds) > 1
                ),
            ],
        )
    if story.steps:
        yield ""
        yield from _table(
            ["step", "training reward", "held-out, same episodes", "unseen dev"], _steps(story)
        )
    if story.alarms:
        yield ""
        yield "Alarms:"
        yield ""
        for alarm in story.alarms:
            yield f"- step {alarm.step}: {_plain(words(alarm.name))}: {_plain(alarm.text)}"
    for kind, found in summary["kinds_at_zero"].items():
        yield ""
        yield f"Kind {_plain(kind or '–')} stays at 0: {_plain(found['cause'])}."
    yield ""
    yield from _cost(story)


def _steps(story: Story) -> list[list[str]]:
    unseen = dict(story.unseen)
    return [
        [
            str(s.step),
            rate_words(s.paid or s.reward),
            rate_words(s.accepted),
            rate_words(unseen.get(s.step)),
        ]
        for s in story.steps
    ]


def _cost(story: Story) -> Iterator[str]:
    cost = story.summary["cost"]
    parts = ", ".join(
        f"{_plain(words(name))} {duration(value)}"
        for name, value in cost["seconds"].items()
        if value
    )
    episodes, tokens = cost["episodes"], cost["tokens_sampled"]
    yield (
        f"Cost: {duration(cost['seconds_total'])} ({parts});"
        f" {episodes['training'] + episodes['evaluation']:,} episodes,"
        f" {tokens['training'] + tokens['evaluation']:,} tokens sampled."
    )
    yield ""
    yield (
        "Intervals are 95 %, clustered by task. Unscored episodes are in no rate."
        f" Steelyard {story.summary['steelyard']}."
    )


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    titles = [_plain(cell) for cell in header]
    yield "| " + " | ".join(titles) + " |"
    yield "|" + " --- |" * len(titles)
    for row in rows:
        yield "| " + " | ".join(_plain(cell) for cell in row) + " |"


def _plain(text: str) -> str:
    """Markdown's own characters, escaped; one line."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&])", r"\\\1", " ".join(printable(text).split()))
