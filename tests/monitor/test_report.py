"""The report tells the run's numbers, in one file that nothing in the run can turn against us."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from made_run import episode, evaluated, failed, passed, training_group, write_run

from steelyard.episodes import Cause, Check, Group, Scored, ToolCall, Turn, Unscored
from steelyard.monitor import wilson_interval
from steelyard.monitor.report import markdown, write_report
from steelyard.monitor.report.charts import Frame, Line, Point, line_chart, nice_top, stacked_bars
from steelyard.monitor.report.curves import clustered_rate, step_rates
from steelyard.monitor.report.html import Html, element, joined
from steelyard.monitor.report.story import read_story
from steelyard.store import BASE_STEP, RunNotFound, RunReader, RunStore

HOSTILE = (
    "<script>x()</script></pre></style>\"' onload=x() \x1b[31m\x00\x9b \u202ekcab\u2066 &amp; |`*"
)


class Document(HTMLParser):
    """Elements with their attributes, and the text outside the style sheet."""

    VOID = frozenset({"meta"})

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []  # everything that was opened was closed

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def run(tmp_path: Path) -> Path:
    write_run(tmp_path / "demo")
    return tmp_path / "demo"


def read(run: Path) -> Document:
    path = write_report(run)
    assert path == run / "report.html"
    return Document(path.read_text(encoding="utf-8"))


def test_the_report_tells_the_runs_numbers(run: Path) -> None:
    text = read(run).text
    for part in (
        # Two tasks of four episodes that all failed say as much as two episodes.
        "Success on test tasks went from 0% [0–66%] (base model) to 57%",
        "base model 0% ",
        "after RL 57%",
        "8 episodes of 2 tasks",
        "1 unscored, in no rate",
        "No training episode has held-out checks",
        "3 episodes carry no reward; they enter no rate, no baseline and no loss.",
        "sandbox failure no 2 1",
        "the sandbox died",
        "key : submitted a wrong program in 75% of 4 episodes",
        "Before training a-or · base/a-or/0",
        "After a-or · final/a-or/0",
        "zero: expected 0, got 3",
        '- return config.get("retries") or 3',
        "+ return 3 if value is None else value",
        "groups with signal 2 of 4",
        "peak memory 2.00 GiB",
        "--set run.name=demo-again Steelyard",
        "The record has no alarm.",
    ):
        assert part in text, f"{part!r} is missing in\n{text}"


def test_the_report_needs_nothing_else(run: Path) -> None:
    document = read(run)
    names = {name for name, _ in document.elements}
    assert not names & {"script", "img", "link", "iframe", "object", "embed", "a", "form", "base"}
    for _, attributes in document.elements:
        assert not {a for a in attributes if a.startswith("on") or a in ("src", "href", "style")}
    policy = next(a for _, a in document.elements if "http-equiv" in a)
    assert policy["content"] is not None
    assert policy["content"].startswith("default-src 'none'; style-src 'unsafe-inline'")
    raw = (run / "report.html").read_text()
    assert "url(" not in raw
    assert "@import" not in raw
    assert "http://" not in raw.replace("http-equiv", "")
    assert "prefers-color-scheme: dark" in raw
    assert (run / "report.md").read_text() == markdown(run)


def write_hostile_run(path: Path) -> None:
    call = ToolCall(HOSTILE, {HOSTILE: HOSTILE, "n": [HOSTILE]}, HOSTILE, error=True)
    bad = Check(HOSTILE, False, HOSTILE)

    def spoiled(name: str, outcome: Scored | Unscored) -> object:
        made = episode(name, f"t{HOSTILE}-or", outcome, heldout=Scored(0.0, (bad,)))
        turns = [*made.trajectory.turns, Turn(0, (7, 7), (7, 7), HOSTILE, ())]
        turns.append(Turn(0, (7, 7), (7, 7), HOSTILE, (call,)))
        made.trajectory.turns[:] = turns
        return replace(made, files={f"{HOSTILE}.py": HOSTILE.encode()}, kind=HOSTILE)

    with RunStore.start(path, {"run": {"seed": 1}}, model=HOSTILE) as store:
        store.add_event("audit", HOSTILE)
        store.add_event("note", HOSTILE)
        store.add_event("alarm", HOSTILE, step=1, name=HOSTILE, action=HOSTILE, episodes=[HOSTILE])
        store.add_evaluation("base", BASE_STEP, "test", [spoiled("b/0", Scored(0.0, (bad,)))])
        members = [
            spoiled("g/0", Scored(1.0, (bad,))),
            spoiled("g/1", Unscored(Cause.VERIFIER_ERROR, HOSTILE)),
        ]
        store.add_group(1, Group("g", f"t{HOSTILE}-or", members), "train", True)
        store.add_metrics(1, "rl", {"entropy": 0.1, f"seconds_{HOSTILE}": 1.0})
        final = replace(spoiled("f/0", Scored(1.0)), heldout=None)
        store.add_evaluation("final", 1, "test", [final])


def test_what_the_model_wrote_stays_text(tmp_path: Path) -> None:
    write_hostile_run(tmp_path / "hostile")
    document = read(tmp_path / "hostile")
    names = {name for name, _ in document.elements}
    assert "script" not in names
    for _, attributes in document.elements:
        assert not {a for a in attributes if a.startswith("on")}
    # It is shown, in each of the places where it was written, and as it was written.
    assert document.text.count("<script>x()</script></pre></style>\"' onload=x()") >= 12
    raw = (tmp_path / "hostile" / "report.html").read_text(encoding="utf-8")
    steering = {c for c in raw if unicodedata.category(c) in ("Cc", "Cf") and c != "\n"}
    assert steering == set()


def test_markdown_has_the_numbers_and_no_foreign_markup(run: Path, tmp_path: Path) -> None:
    text = markdown(run)
    assert text.startswith("# demo\n")
    assert "| all | 0% (0–66%) | 25%" in text
    assert "Kind key stays at 0" in text
    write_hostile_run(tmp_path / "hostile")
    hostile = markdown(tmp_path / "hostile")
    assert "<script>" not in hostile
    assert "\\<script\\>x()" in hostile
    rows = [line for line in hostile.splitlines() if line.startswith("| ")]
    assert len({len(row.replace("\\|", "").split("|")) for row in rows[:3]}) == 1


def test_a_gap_is_said_and_shaded(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "gap", {}) as store:
        for step in (1, 2):
            group = training_group(
                step, "c-or", [passed(), passed(), failed(), failed()], ["x"] * 4
            )
            for i, member in enumerate(group.episodes):
                member.heldout = Scored(1.0 if i < 2 - step else 0.0)
            store.add_group(step, group, "train", True)
        nothing_is_paid = "broken: c-or: doing nothing is paid"
        store.add_event("audit", nothing_is_paid, task="c-or", verdict="broken", kinds=["cheat"])
        store.add_event("alarm", "the gap has grown", step=2, name="divergence", episodes=["a"])
    document = read(tmp_path / "gap")
    said = "accept 0% [0–79%] of the same ones: a gap of 50.0 points (25.0 at step 1)."
    assert said in document.text
    assert "run.name=gap-again --accept-audit" in document.text
    assert nothing_is_paid in document.text
    assert "1 alarm, the first at step 2: the gap has grown." in document.text
    (shaded,) = (a for name, a in document.elements if a.get("class") == "gap")
    assert shaded["points"]
    assert "step 2: divergence: the gap has grown" in document.text  # the mark in the chart
    assert "Paid by the verifier, rejected by held-out checks" in document.text


def test_a_shaped_reward_is_drawn_by_its_parts(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "shaped", {}) as store:
        for step in (1, 2):
            group = training_group(step, "c-or", [passed(), failed()], ["x"] * 2)
            if step == 2:
                group.episodes[0].trajectory.turns.clear()
            store.add_group(step, group, "train", True)
            parts = {"reward_shaped_mean": 0.4, "component_brevity_mean": -0.1}
            store.add_metrics(step, "rl", parts)
    document = read(tmp_path / "shaped")
    for said in ("as trained, step 2: 0.4", "verifier alone, step 2: 0.5", "brevity, step 2: -0.1"):
        assert said in document.text
    assert "Tool calls per episode, step 1: 2" in document.text
    assert "Tool calls per episode, step 2: 1" in document.text
    assert "Failed tool calls per episode" not in document.text  # there was never one


def test_a_run_that_has_only_begun_has_a_report(tmp_path: Path) -> None:
    RunStore.start(tmp_path / "new", {}).close()
    assert "No evaluation on unseen tasks has ended yet." in read(tmp_path / "new").text
    assert "No evaluation on unseen tasks" in markdown(tmp_path / "new")
    with pytest.raises(RunNotFound):
        write_report(tmp_path / "nothing")


def test_a_live_run_has_a_report(tmp_path: Path) -> None:
    write_run(tmp_path / "live", finished=False)
    assert "Success on test tasks went from 0% [0–66%] (base model) to 25%" in (
        read(tmp_path / "live").text
    )


def test_an_interval_knows_which_episodes_agree() -> None:
    often = clustered_rate([1.0, 0.0, 1.0, 1.0] * 8, list("abcd") * 8)
    assert often is not None
    once = clustered_rate([1.0, 0.0, 1.0, 1.0], list("abcd"))
    assert once is not None
    # Four tasks, each tried eight times with the same result, say as much as four episodes.
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert often.low < wilson_interval(24, 32)[0]
    assert (often.value, often.n, often.tasks) == (0.75, 32, 4)
    assert clustered_rate([], []) is None


def test_rates_of_a_step_are_over_the_same_episodes(run: Path) -> None:
    with RunReader(run) as reader:
        records = reader.episode_records(purpose="train", step=1)
    some = [replace(r, heldout_reward=0.0 if i < 2 else None) for i, r in enumerate(records)]
    (rates,) = step_rates(some)
    assert rates.reward is not None
    assert rates.paid is not None
    assert rates.accepted is not None
    assert (rates.reward.n, rates.unscored) == (7, 1)
    assert (rates.paid.n, rates.accepted.n) == (2, 2)
    assert rates.gap == pytest.approx(0.5)  # one of the two was paid, none is accepted
    beyond = [replace(r, raw=None if r.raw is None else 3.0) for r in records]
    assert step_rates(beyond)[0].reward is None


def test_charts_put_values_where_they_belong() -> None:
    frame = Frame(500, 200, (0, 10), (0, 1))
    assert frame.y(0.0) > frame.y(0.5) > frame.y(1.0)
    assert frame.x(0) < frame.x(10)
    paid = Line("paid", "train", [Point(1, 0.5, 0.4, 0.6), Point(2, 0.9, 0.8, 1.0)])
    true = Line("true", "truth", [Point(1, 0.7), Point(2, 0.3)])
    drawn = line_chart("both", [paid, true], width=500, height=200, x_range=(1, 2),
                       y_text=str, between=(paid, true))  # fmt: skip
    elements = Document(f"<p>{drawn}</p>").elements
    (gap,) = (a["points"] for _, a in elements if a.get("class") == "gap")
    assert gap is not None
    corners = [tuple(map(float, corner.split(","))) for corner in gap.split()]
    frame = Frame(500, 200, (1, 2), (0, 1))
    # Nothing is shaded where the paid curve is the lower one.
    assert corners[0] == corners[3] == (frame.x(1), frame.y(0.7))
    assert corners[1:3] == [(frame.x(2), frame.y(0.9)), (frame.x(2), frame.y(0.3))]
    bars = stacked_bars("bars", [1, 2], [("a", "pass", [1, 0]), ("b", "fail", [2, 4])],
                        width=500, height=200, y_text=str)  # fmt: skip
    heights = [float(a["height"] or 0) for n, a in Document(bars).elements if n == "rect"]
    assert heights[1] == pytest.approx(2 * heights[0], abs=0.2)
    assert heights[2] == pytest.approx(4 * heights[0], abs=0.2)
    assert [nice_top(v) for v in (0, 0.03, 0.7, 1, 17, 300)] == [1, 0.04, 0.8, 1, 20, 400]


def test_markup_is_escaped_unless_it_is_markup() -> None:
    made = element("p", "<b>", Html("<i></i>"), None, class_='a"b', data_x=1, title=None)
    assert made == '<p class="a&quot;b" data-x="1">&lt;b&gt;<i></i></p>'
    assert joined(["\ud800a\x07", Html("<br>")]) == "\ufffda\ufffd<br>"


def test_an_evaluation_without_groups_is_a_story_too(tmp_path: Path) -> None:
    with RunStore.start(tmp_path / "eval", {}) as store:
        store.add_evaluation("final", 0, "test", evaluated("final", {"a-or": (1, 2)}))
    story = read_story(tmp_path / "eval")
    assert [stage.key for stage in story.stages] == ["final"]
    assert "Success on test tasks, after RL: 50%" in read(tmp_path / "eval").text
