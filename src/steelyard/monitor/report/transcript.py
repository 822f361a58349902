"""An episode as a person reads it: turns, calls, answers, checks, and what became of the files."""

from __future__ import annotations

from steelyard.monitor.report.html import Html, element, joined
from steelyard.monitor.scores import Json
from steelyard.monitor.text import clipped

_MOST_LINES, _MOST_CHARACTERS, _MOST_DIFF_LINES = 24, 2400, 60


def transcript(episode: Json) -> Html:
    """The turns of an episode, and its verdict with every check."""
    turns = [_turn(number, turn) for number, turn in enumerate(episode["turns"], 1)]
    return element("div", *turns, _verdict(episode), class_="transcript")


def difference(changes: Json) -> Html | None:
    """What became of the files, from the view `changes`; None where nothing did."""
    drawn = []
    for file in changes["files"]:
        lines = file["lines"]
        if lines:
            shown = [_diff_line(mark, text) for mark, text in lines[:_MOST_DIFF_LINES]]
            if len(lines) > _MOST_DIFF_LINES:
                shown.append(_diff_line("@", f"… {len(lines) - _MOST_DIFF_LINES} more lines"))
            drawn.append(element("p", f"{file['name']}, {file['status']}", class_="file"))
            drawn.append(element("pre", *shown, class_="diff"))
    return joined(drawn) if drawn else None


def _diff_line(mark: str, text: str) -> Html:
    style = {"+": "added", "-": "removed", "@": "place"}.get(mark)
    line = text if mark == "@" else mark + text
    return element("span", f"{line[:_MOST_CHARACTERS]} ", class_=style)


def _turn(number: int, turn: Json) -> Html:
    head = element("p", f"turn {number}", class_="turn")
    if not turn["calls"]:
        return joined([head, _block(turn["text"], "said")])
    return joined([head, *(_call(call) for call in turn["calls"])])


def _call(call: Json) -> Html:
    parts: list[Html] = [element("p", element("b", call["name"]), class_="call")]
    for name, value in call["arguments"].items():
        text = value if isinstance(value, str) else repr(value)
        shown = (
            element("div", _block(text, "value"))
            if "\n" in text or len(text) > 60
            else element("code", text)
        )
        parts.append(element("div", element("span", name, class_="name"), shown, class_="argument"))
    if call["result"].strip():
        parts.append(_block(call["result"], "result error" if call["error"] else "result"))
    return joined(parts)


def _verdict(episode: Json) -> Html:
    if episode["cause"] is not None:
        detail = f": {episode['cause_detail']}" if episode["cause_detail"] else ""
        return element("p", f"unscored, {_words(episode['cause'])}{detail}", class_="verdict")
    ended = f"reward {episode['reward']:.3g}, ended: {_words(episode['stop_reason'])}"
    suites = [
        _suite(title, episode[suite])
        for title, suite in (("training checks", "checks"), ("held-out checks", "heldout_checks"))
        if episode[suite]
    ]
    return joined([element("p", ended, class_="verdict"), *suites])


def _suite(title: str, checks: list[Json]) -> Html:
    passed = sum(check["passed"] for check in checks)
    marks = []
    for check in checks:
        style = "check pass" if check["passed"] else "check fail"
        detail = f": {clipped(check['detail'], 2)[:160]}" if check["detail"] else ""
        marks.append(element("li", f"{check['name']}{detail}", class_=style))
    return joined(
        [
            element("p", f"{title}: {passed} of {len(checks)}", class_="suite"),
            element("ul", *marks, class_="checks"),
        ]
    )


def _block(text: str, style: str) -> Html:
    return element("pre", clipped(text[:_MOST_CHARACTERS], _MOST_LINES), class_=style)


def _words(name: str) -> str:
    return name.replace("_", " ")
