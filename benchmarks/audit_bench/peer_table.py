"""How each peer's words are counted, and the table of them beside our own audit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from corpus import CASES, CLASSES, SOUND


@dataclass(frozen=True)
class Peer:
    """`weighty` are the levels at which its own gate fails, `lesser` what else it reports."""

    package: str
    takes: str
    weighty: frozenset[str]
    lesser: frozenset[str]
    note: str


def _peer(package: str, takes: str, weighty: str, lesser: str, note: str) -> Peer:
    def words(text: str) -> frozenset[str]:
        return frozenset(filter(None, text.split("; ")))

    return Peer(package, takes, words(weighty), words(lesser), note)


PEERS: Mapping[str, Peer] = {
    "falsepass": _peer(
        "falsepass",
        "text",
        "false pass; error",
        "false pass up to 0.1; false fail; unstable or hygiene; inconclusive",
        "It has no severities. Counted: what its documented gate fails on (a known-bad answer "
        "paid more than 0.1, a scoring error); lesser: any other failing row, or a run that it "
        "calls inconclusive. Rows that it takes out of its own count are left out.",
    ),
    "rewardprobe": _peer(
        "rewardprobe",
        "text",
        "critical",
        "warning; info",
        "Counted: critical, on which --ci fails; lesser: warning and info, on which --strict does.",
    ),
    "reward-doctor": _peer(
        "reward-doctor",
        "text",
        "exploit",
        "false positive; false negative; crash",
        "Counted: an exploit accepted, its default --fail-on; lesser: any other disagreement with "
        "its corpus. Threshold 0.99. It has no option for an answer format.",
    ),
    "gradecheck": _peer(
        "gradecheck",
        "text, programs",
        "fooled",
        "warn; error",
        "Counted: FOOLED; lesser: WARN. Our grader is the command; its attacks on text get an "
        "object with what they read of a verifiers environment, with the answer format.",
    ),
    "rlgate": _peer(
        "rlgate",
        "programs",
        "high; critical",
        "low; medium",
        "Counted: high and critical; it has no probe of another level. Local back end, five "
        "baselines, our grader as the command.",
    ),
    "bohrin": _peer(
        "bohrin",
        "programs",
        "exploit; baseline; rejected control",
        "lead",
        "It runs nothing: a driver of ours sends its submissions to our grader. Counted: a "
        "submission that it calls wrong is paid, or the reference or its rewriting of it is "
        "refused; lesser: a lead is paid. Templates whose parameters have no obvious value are "
        "left out.",
    ),
    "gameability": _peer(
        "gameability",
        "checks as data",
        "weak",
        "",
        "Counted: a mutant of the reference passes every assert. The calls of checks as data are "
        "put as asserts, the held-out ones as its hidden asserts.",
    ),
    "harbor-lint": _peer(
        "harbor",
        "Harbor tasks",
        "default rule",
        "opt-in rule",
        "It has no severities. Counted: a finding of its default rules, at which its command "
        "fails; lesser: one of its other rules.",
    ),
}


@dataclass
class Count:
    """Of one class, or of the sound cases."""

    cases: int = 0
    accepted: int = 0
    weighty: int = 0
    any: int = 0

    def add(self, accepted: bool, weighty: bool, any_level: bool) -> None:
        """Counts one case."""
        self.cases += 1
        self.accepted += accepted
        self.weighty += weighty
        self.any += any_level


def levels(peer: Peer, answer: Mapping[str, Any]) -> tuple[bool, bool]:
    """Whether the peer reports something of weight, and whether it reports anything."""
    said = {level for level, _ in answer.get("findings", ())}
    weighty = bool(said & peer.weighty)
    return weighty, weighty or bool(said & peer.lesser)


def count(peer: Peer, answers: Mapping[str, Any]) -> dict[str, Count]:
    """By class; SOUND is the key of the sound cases."""
    counts = {flaw: Count() for flaw in (*CLASSES, SOUND)}
    for case in CASES:
        answer = answers[case.name]
        counts[case.flaw].add("refused" not in answer, *levels(peer, answer))
    return counts


def markdown(results: Mapping[str, Any]) -> str:
    """The document: totals, recall by class, notes."""
    counted = {
        name: count(PEERS[name], results[name]["cases"]) for name in PEERS if name in results
    }
    lines = [
        "# The peers on the same cases",
        "",
        "Written by `peers.py` from `peers.json`. A flaw counts as found where the peer reports",
        "anything of weight on the case, whatever it is about; any such report on a sound case is",
        "a false alarm. For our own audit a finding must be proved and have the labelled effect,",
        "and its counts are those of the first look: before we had seen which cases it misses.",
        "*Taken*: cases that the peer accepts; a case that it cannot take is no miss of the first",
        "recall. In brackets: the same counts with the peer's lesser findings too. By class: found",
        "of taken, and a dash where the peer takes none of the class.",
        "",
        "| | takes | flawed taken | found | recall, taken | recall, all | precision "
        "| false alarms | could not run |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    if "ours" in results:
        lines.append(_ours_row(results["ours"]))
    for name, counts in counted.items():
        lines.append(_row(name, results[name], counts))
    lines += [
        "",
        "## Recall by class",
        "",
        _class_table(results, counted),
        "",
        "## What counts",
        "",
    ]
    for name in counted:
        entry = results[name]
        lines.append(f"- **{name}** {entry['version']} ({entry['date']}): {PEERS[name].note}")
    return "\n".join(lines) + "\n"


def _row(name: str, result: Mapping[str, Any], counts: Mapping[str, Count]) -> str:
    flawed = [number for flaw, number in counts.items() if flaw != SOUND]
    taken = sum(number.accepted for number in flawed)
    cases = sum(number.cases for number in flawed)
    found, more = sum(n.weighty for n in flawed), sum(n.any for n in flawed)
    sound = counts[SOUND]
    errors = sum("error" in answer for answer in result["cases"].values())
    cells = [
        f"{name} {result['version']}",
        PEERS[name].takes,
        str(taken),
        f"{found} ({more})",
        f"{_share(found, taken)} ({_share(more, taken)})",
        f"{_share(found, cases)} ({_share(more, cases)})",
        f"{_share(found, found + sound.weighty)} ({_share(more, more + sound.any)})",
        f"{sound.weighty} ({sound.any}) of {sound.accepted}",
        str(errors),
    ]
    return f"| {' | '.join(cells)} |"


def _ours_row(ours: Mapping[str, Any]) -> str:
    score = ours["score"]
    found, flawed = sum(score["found"].values()), sum(score["flawed"].values())
    alarms = len(score["false_alarms"])
    cells = [
        f"**Steelyard** ({', '.join(filter(None, (ours.get('note'), ours['date'])))})",
        "all",
        str(flawed),
        str(found),
        _share(found, flawed),
        _share(found, flawed),
        _share(found, found + alarms),
        f"{alarms} of {score['sound']}",
        str(len(score["errors"])),
    ]
    return f"| {' | '.join(cells)} |"


def _class_table(results: Mapping[str, Any], counted: Mapping[str, Mapping[str, Count]]) -> str:
    """Found of taken for each class; a dash where the peer takes none of its cases."""
    ours = results.get("ours", {}).get("score")
    heads = ["class", "cases", *(["Steelyard"] if ours else []), *counted]
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for flaw in CLASSES:
        cases = sum(case.flaw == flaw for case in CASES)
        if not cases:
            continue
        cells = [flaw, str(cases)]
        if ours:
            cells.append(f"{ours['found'].get(flaw, 0)}/{ours['flawed'].get(flaw, 0)}")
        for counts in counted.values():
            number = counts[flaw]
            shown = f"{number.weighty}/{number.accepted}" if number.accepted else "–"
            more = f" ({number.any})" if number.any > number.weighty else ""
            cells.append(shown + more)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2f}" if whole else "n/a"
