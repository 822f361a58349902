"""The sections of the report, each from one part of the story."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from steelyard.monitor.report.curves import Rate
from steelyard.monitor.report.html import Html, element, joined, table
from steelyard.monitor.report.story import Example, Story
from steelyard.monitor.report.transcript import difference, transcript
from steelyard.monitor.text import bounds, duration, percent


def alarms(story: Story) -> Html:
    """What raised an alarm, or that nothing did."""
    if not story.alarms:
        return element("p", "The record has no alarm.", class_="quiet")
    items = []
    for alarm in story.alarms:
        where = f"step {alarm.step}" if alarm.step is not None else ""
        shown = ", ".join(alarm.episodes[:3])
        more = f" and {len(alarm.episodes) - 3} more" if len(alarm.episodes) > 3 else ""
        items.append(
            element(
                "li",
                element("p", element("b", words(alarm.name)), f" · {where}" if where else None),
                element("p", alarm.text),
                element("p", f"episodes: {shown}{more}", class_="quiet") if shown else None,
                element("p", f"done about it: {words(alarm.action)}", class_="quiet")
                if alarm.action
                else None,
            )
        )
    undone = [element("p", text) for text in story.rollbacks]
    return joined([element("ul", *items, class_="alarms"), *undone])


def examples(story: Story) -> Html:
    """Episodes side by side, what the workspaces at their ends differ in, and a doubtful one."""
    parts: list[Html | None] = []
    if story.pair:
        parts.append(element("div", *(_example(e) for e in story.pair), class_="pair"))
        parts.append(_difference(story.pair[-1]))
    else:
        said = "The record has no failure before training with a success after it."
        parts.append(element("p", said, class_="quiet"))
    if story.suspect is not None:
        parts.append(element("div", _example(story.suspect), class_="alone"))
        parts.append(_difference(story.suspect))
    return joined(parts)


def _example(example: Example) -> Html:
    episode = example.episode
    return element(
        "article",
        element("h3", example.title),
        element("p", f"{episode['task']} · {episode['id']}", class_="quiet"),
        transcript(episode),
        class_=f"episode {example.style}",
    )


def _difference(example: Example) -> Html | None:
    changed = difference(example.changes)
    if changed is None:
        return None
    title = f"What changed in {example.episode['id']}, against {example.changes['against']}"
    return element("div", element("h3", title), changed, class_="alone")


def tasks(story: Story) -> Html:
    """Which tasks were tried, and what the audit of their verifiers said."""
    rows = [
        [split, str(sum(kinds.values())), ", ".join(f"{k or '–'} {n}" for k, n in kinds.items())]
        for split, kinds in story.tasks.items()
    ]
    drawn = table(["split", "tasks tried", "by kind"], rows)
    found = [t for t in story.audit["tasks"] if t["verdict"] != "sound"]
    if not found:
        return joined([drawn, element("p", story.audit["sentence"], class_="quiet")])
    shown = [
        element("li", ": ".join(part for part in (t["verdict"], t["task"], t["sentence"]) if part))
        for t in found[:12]
    ]
    more = f"… {len(found) - 12} more" if len(found) > 12 else None
    return joined(
        [
            drawn,
            element("p", story.audit["sentence"]),
            element("ul", *shown, class_="plain"),
            element("p", more, class_="quiet") if more else None,
        ]
    )


def unscored(story: Story) -> Html:
    """Every kind of ending that an episode had, and what carries no reward."""
    rows = [r for r in story.outcomes if r["training"] or r["evaluation"] or r["heldout"]]
    drawn = table(
        [
            "how it ended",
            "reward",
            "training",
            "evaluation",
            "held-out checks",
            "what is known of the first",
        ],
        [
            [
                words(r["outcome"]),
                "yes" if r["carries_reward"] else element("b", "no"),
                *(f"{r[column]:,}" for column in ("training", "evaluation", "heldout")),
                (r["detail"] or "")[:160],
            ]
            for r in rows
        ],
    )
    without = sum(r["training"] + r["evaluation"] for r in rows if not r["carries_reward"])
    said = (
        f"{without:,} episodes carry no reward; they enter no rate, no baseline and no loss."
        if without
        else "Every episode was scored."
    )
    return joined([element("p", said), drawn])


def diagnosis(story: Story) -> Html:
    """Why groups carried no gradient, and which kinds the final policy never solves."""
    found, kinds = story.diagnosis, story.summary["kinds_at_zero"]
    said = f"Of the others, first of all: {words(found['verdict'])} ({words(found['certainty'])})."
    causes = [
        [words(c["cause"]), str(c["groups"]), str(c["tasks"]), f"{c['example']}: {_list(c['why'])}"]
        for c in found["causes"]
    ]
    never = [
        element("li", element("b", kind or "all tasks"), f": {cause['cause']}.")
        for kind, cause in kinds.items()
    ]
    return joined(
        [
            element("p", f"{found['why'][0]}. ", element("b", said) if causes else None)
            if found["why"]
            else None,
            table(["cause", "groups", "tasks", "for example"], causes) if causes else None,
            element("p", f"To try next: {_list(found['next'])}.") if found["next"] else None,
            element("h3", "Kinds that the final policy never solves") if never else None,
            element("ul", *never, class_="plain") if never else None,
        ]
    )


def findings(story: Story) -> Html | None:
    """What the scanners found in trajectories: leads, for a person to judge."""
    if not story.findings:
        return None
    rows = []
    for f in story.findings[-12:]:
        where = f["episode"] if f["turn"] is None else f"{f['episode']}, turn {f['turn'] + 1}"
        rows.append([words(f["scanner"]), words(f["severity"]), where, f["split"], f["text"]])
    said = f"{len(story.findings):,} in all; the latest of them:"
    return joined(
        [element("p", said), table(["scanner", "severity", "where", "split", "what"], rows)]
    )


def _list(sentences: Sequence[str]) -> str:
    return "; ".join(map(str, sentences))


_KEYS = (
    "model.path", "rl.steps", "rl.groups_per_step", "rl.episodes_per_group", "rl.learning_rate",
    "rl.dynamic_sampling", "rl.epochs", "rl.minibatches", "rl.staleness", "engine.temperature",
    "engine.dtype", "learner.method", "learner.dtype", "learner.max_grad_norm", "agent.max_turns",
    "agent.max_turn_tokens", "agent.max_episode_tokens", "warm_start.epochs",
    "warm_start.learning_rate", "run.seed", "run.deterministic",
)  # fmt: skip


def recipe(story: Story) -> Html:
    """The algorithm's axes, and the settings that matter most."""
    axes = [
        [words(axis), _choice(value)]
        for axis, value in story.algorithm.items()
        if value is not None and axis not in ("source", "sources")
    ]
    source = story.algorithm.get("source")
    settings = [
        [key, _choice(value)]
        for key in _KEYS
        if (value := _at(story.config, key)) is not _ABSENT and value is not None
    ]
    return element(
        "div",
        element(
            "div",
            element("h3", "Algorithm"),
            table(["axis", "choice"], axes),
            element("p", f"Source: {source}", class_="quiet") if source else None,
        )
        if axes
        else None,
        element("div", element("h3", "Key settings"), table(["key", "value"], settings)),
        class_="pair",
    )


_ABSENT = object()


def _at(config: Any, dotted: str) -> Any:
    for part in dotted.split("."):
        if not isinstance(config, Mapping) or part not in config:
            return _ABSENT
        config = config[part]
    return config


def _choice(value: Any) -> str:
    if isinstance(value, Mapping):
        kind = str(value.get("kind", "")).replace("_", " ")
        rest = ", ".join(f"{k} {_choice(v)}" for k, v in value.items() if k != "kind")
        return f"{kind} ({rest})" if kind and rest else kind or rest
    if value is None:
        return "none"
    if isinstance(value, str):
        return words(value)
    return json.dumps(value)


def cost(story: Story) -> Html:
    """Seconds by part, tokens, episodes, memory."""
    spent = story.summary["cost"]
    sampled, trained, played = spent["tokens_sampled"], spent["tokens_trained"], spent["episodes"]
    parts = sorted(spent["seconds"].items(), key=lambda part: -part[1])
    memory = spent["peak_memory_bytes"]
    rows = [
        ["wall time", duration(spent["seconds_total"])],
        *([words(name), duration(value)] for name, value in parts if value),
        ["episodes", f"{played['training']:,} training, {played['evaluation']:,} evaluation"],
        [
            "tokens sampled",
            f"{sampled['training']:,} training, {sampled['evaluation']:,} evaluation",
        ],
        ["tokens trained", f"{trained['warm_start']:,.0f} warm start, {trained['rl']:,.0f} RL"],
        [
            "groups with signal",
            f"{story.summary['groups_with_signal']:,} of {story.summary['groups']:,}",
        ],
        ["peak memory", "not recorded" if memory is None else f"{memory / 2**30:.2f} GiB"],
    ]
    return table(["part", "cost"], rows, class_="facts")


def reproduce(story: Story) -> Html:
    """The command that runs it again, the versions, and the whole run file."""
    summary = story.summary
    again = (
        f"steelyard train {shlex.quote(summary['run_directory'] + '/run.toml')}"
        f" --set run.name={shlex.quote(summary['name'] + '-again')}"
    )
    if story.audit["verdicts"]["broken"]:
        again += " --accept-audit"  # without it this run had not begun
    seed = story.config.get("run", {}).get("seed")
    facts = f"Steelyard {summary['steelyard']} · {summary['model']} · seed {seed}"
    exact = (
        "Bit for bit: the run was deterministic."
        if story.config.get("run", {}).get("deterministic")
        else "Not bit for bit: run.deterministic was off, so numbers vary as their intervals say."
    )
    file = (
        element("details", element("summary", "The whole run file"), element("pre", story.run_file))
        if story.run_file
        else None
    )
    notes = [element("li", text) for text in story.notes[:20]]
    return joined(
        [
            element("pre", again),
            element("p", f"{facts}. {exact}"),
            element("ul", *notes, class_="plain quiet") if notes else None,
            file,
        ]
    )


def rate_words(rate: Rate | None) -> str:
    """`62% (57–67%)`."""
    return "–" if rate is None else f"{percent(rate.value)} ({bounds(rate.low, rate.high)})"


def words(name: str) -> str:
    return name.replace("_", " ")
