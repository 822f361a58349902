"""The report as one HTML file: no script, no network, light and dark."""

from __future__ import annotations

from importlib.resources import files

from steelyard.monitor.report import pictures, sections
from steelyard.monitor.report.html import Html, element, joined
from steelyard.monitor.report.lead import lead
from steelyard.monitor.report.story import Story
from steelyard.monitor.text import duration

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page(story: Story) -> str:
    """The whole document."""
    summary = story.summary
    first, *others = lead(story)
    body = [
        element(
            "header",
            element("p", "Steelyard · report of a run", class_="quiet"),
            element("h1", summary["name"]),
            element(
                "p",
                f"{summary['model']} · {summary['state']} · begun {_moment(summary['created'])}"
                f" · {duration(summary['cost']['seconds_total'])} at work",
                class_="quiet",
            ),
            element("p", first, class_="lead"),
            *(element("p", sentence) for sentence in others),
        ),
        pictures.headline(story),
        _section("The three signals", pictures.signals(story), _SIGNALS),
        pictures.small_charts(story),
        _section("Alarms", sections.alarms(story)),
        _section("Shortcuts that scanners found", sections.findings(story)),
        _section("By kind of task", pictures.by_kind(story)),
        _section("Examples", sections.examples(story)),
        _section("Tasks and audit", sections.tasks(story)),
        _section("How episodes ended, and what was unscored", sections.unscored(story)),
        _section("Why no gradient", sections.diagnosis(story)),
        _section("Recipe", sections.recipe(story)),
        _section("Cost", sections.cost(story)),
        _section("How to reproduce it", sections.reproduce(story)),
        element("footer", _INTERVALS),
    ]
    head = joined(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<meta name="color-scheme" content="light dark">'),
            Html('<meta name="referrer" content="no-referrer">'),
            element("title", f"{summary['name']}: Steelyard report"),
            Html(f"<style>{files(__package__).joinpath('style.css').read_text()}</style>"),
        ]
    )
    document = element("html", element("head", head), element("body", element("main", *body)),
                       lang="en")  # fmt: skip
    return f"<!doctype html>\n{document}\n"


_SIGNALS = (
    "What training was paid for, what checks that training never sees say of the very same"
    " episodes, and success on tasks it never trained on. If the first rises and the others do"
    " not, the policy learns the verifier instead of the task."
)
_INTERVALS = (
    "Intervals hold 95 %: Wilson's, with the effective number of samples of episodes that are"
    " clustered by task. So they are wider than those of independent episodes wherever a task was"
    " tried several times. Unscored episodes are counted apart and enter no rate."
)


def _moment(iso: str) -> str:
    return iso.replace("T", " ").replace("+00:00", " UTC")


def _section(title: str, content: Html | None, said: str = "") -> Html | None:
    if content is None:
        return None
    about = element("p", said, class_="quiet") if said else None
    return element("section", element("h2", title), about, content)
