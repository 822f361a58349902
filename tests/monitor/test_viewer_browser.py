"""The viewer in a real headless Chromium: a click path through every page, and a hostile run."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
import uvicorn
from chromium import BINARY, Page
from hostile_run import BIDI, EPISODE, IMAGE, LINK, SCRIPT, TASK, write_hostile_run
from made_run import failed as failed_outcome
from made_run import training_group, write_run

from steelyard.monitor.viewer import Runs, application
from steelyard.store import RunStore

pytestmark = pytest.mark.skipif(
    BINARY is None, reason="no Chromium on PATH (chromium, chromium-browser or google-chrome)"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "demo")
    write_hostile_run(folder / "hostile")
    return folder


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    config = uvicorn.Config(application(Runs([folder])), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Page]:
    assert BINARY is not None
    page = Page(BINARY)
    yield page
    page.close()


@pytest.fixture
def page(browser: Page) -> Iterator[Page]:
    browser.problems.clear()
    yield browser
    assert browser.problems == []


def test_from_the_runs_to_the_overview(page: Page, address: str) -> None:
    page.goto(f"{address}/")
    assert "demo" in page.text()
    assert "null" not in page.text()
    page.click('a[href="/r/demo/overview"]')
    text = page.text()
    for part in (
        "Does the reward mean what it says?",
        "After RL, test",
        "57%",
        "sandbox failure 2",
    ):
        assert part in text, text
    page.wait("document.querySelectorAll('.uplot canvas').length >= 3")
    # Drawn, not merely there.
    page.wait("""(() => { const c = document.querySelector('.uplot canvas');
        const drawn = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        return drawn.some((v) => v); })()""")
    assert page.evaluate("document.querySelectorAll('svg.columns rect').length") >= 4


def test_tasks_sort_and_their_heat_map_leads_to_episodes(page: Page, address: str) -> None:
    page.goto(f"{address}/r/demo/overview")
    page.click('a[href="/r/demo/tasks"]')
    first = "document.querySelector('tbody tr').innerText"
    assert page.evaluate(first).startswith("a-or")
    page.evaluate("document.querySelectorAll('th button')[0].click()")
    page.evaluate("document.querySelectorAll('th button')[0].click()")
    assert page.evaluate(first).startswith("e-or")
    assert page.evaluate("document.querySelector('th').getAttribute('aria-sort')") == "descending"
    page.wait("document.querySelector('.heat canvas') !== null")
    page.act("""(() => { const c = document.querySelector('.heat canvas');
        const box = c.getBoundingClientRect();
        c.dispatchEvent(new MouseEvent('click', {clientX: box.left + 70, clientY: box.top + 5,
                                                 bubbles: true})); })()""")
    assert page.evaluate("location.search") == "?task=d-key&step=1&purpose=train"
    assert "4 match" in page.text()


def test_tasks_without_a_kind_are_filtered_by_that(page: Page, address: str, folder: Path) -> None:
    with RunStore.start(folder / "kindless", {"rl": {}}, model="m") as store:
        for task, n in (("plain-", 2), ("a-or", 3)):
            made = training_group(1, task, [failed_outcome()] * n, ["x = 1\n"] * n)
            store.add_group(1, made, "train", True)
        store.finish("finished")
    try:
        page.goto(f"{address}/r/kindless/tasks")
        page.act("""(() => { const box = document.querySelector('select[aria-label=kind]');
            box.value = '(none)'; box.dispatchEvent(new Event('change')); })()""")
        rows = "[...document.querySelectorAll('tbody tr')].map((r) => r.cells[0].innerText)"
        assert page.evaluate(rows) == ["plain-"]
        page.goto(f"{address}/r/kindless/tasks?rows=kind")
        page.wait("document.querySelector('.heat canvas') !== null")
        page.act("""(() => { const c = document.querySelector('.heat canvas');
            const box = c.getBoundingClientRect();
            c.dispatchEvent(new MouseEvent('click', {clientX: box.left + 70, clientY: box.top + 5,
                                                     bubbles: true})); })()""")
        assert page.evaluate("new URLSearchParams(location.search).get('kind')") == "(none)"
        assert "2 match" in page.text()
    finally:
        shutil.rmtree(folder / "kindless")


def test_groups_filter_and_one_side_by_side(page: Page, address: str) -> None:
    page.goto(f"{address}/r/demo/groups")
    page.act("[...document.querySelectorAll('button')].find("
             "(b) => b.innerText === 'mixed 2').click()")  # fmt: skip
    assert page.evaluate("document.querySelectorAll('tbody tr').length") == 2
    page.click("tbody tr a")
    assert page.evaluate("location.search") == "?id=step-2%2Fc-or"
    text = page.text()
    assert "Side by side" in text
    assert "From left to right" in text
    assert page.evaluate("document.querySelectorAll('.pair .turn').length") == 2


def test_episodes_are_searched_sorted_and_paged_with_the_keyboard(page: Page, address: str) -> None:
    page.goto(f"{address}/r/demo/episodes")
    page.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.act("""(() => { const box = document.activeElement; box.value = 'fix the bug';
        box.dispatchEvent(new Event('change')); box.blur(); })()""")
    assert page.evaluate("location.search") == "?text=fix+the+bug"
    assert "35 match" in page.text()
    page.act("[...document.querySelectorAll('th button')].find("
             "(b) => b.innerText === 'reward').click()")  # fmt: skip
    page.press("j")
    page.press("j")
    chosen = page.evaluate("document.querySelector('tr.at').innerText").split()[0]
    before = page.evaluate("document.getElementById('main').dataset.ready")
    page.press("Enter")
    page.wait(f"document.getElementById('main').dataset.ready !== '{before}'")
    seen = [page.evaluate("new URLSearchParams(location.search).get('id')")]
    assert seen == [chosen]
    for key in ("j", "ArrowRight", "k"):
        now = page.evaluate("location.search")
        page.press(key)
        page.wait(f"location.search !== {json.dumps(now)}")
        page.wait("document.title.startsWith(new URLSearchParams(location.search).get('id'))")
        seen.append(page.evaluate("new URLSearchParams(location.search).get('id')"))
    assert len(set(seen)) == 3
    assert seen[3] == seen[1]


def test_an_episode_and_its_tokens(page: Page, address: str) -> None:
    page.goto(f"{address}/r/demo/episode?{urlencode({'id': 'step-1/c-or/1'})}")
    text = page.text()
    for part in ("Turn 1", "edited settings.py", "3 of 4 pass", "expected 0, got 3", "sampling"):
        assert part in text, text
    page.click(".turn header a")
    assert page.evaluate("document.querySelectorAll('.tokens .t').length") == 7
    page.act("""(() => { const s = document.querySelector('select[aria-label="colour by"]');
        s.value = 'version'; s.dispatchEvent(new Event('change')); })()""")
    assert "overlay=version" in page.evaluate("location.search")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("alarms", "No alarm was raised"),
        ("metrics", "training tokens per second"),
        ("outcomes", "the sandbox died"),
        ("config", "rl.group_size"),
        ("audit", "nothing against any of 5 tasks: all sound"),
        ("events", "the run was started"),
    ],
)
def test_the_other_pages(page: Page, address: str, name: str, part: str) -> None:
    page.goto(f"{address}/r/demo/overview")
    page.click(f'a[href="/r/demo/{name}"]')
    assert part in page.text()
    assert page.evaluate("document.querySelector('nav a[aria-current]').innerText")


def test_runs_are_compared_and_their_configurations(page: Page, address: str) -> None:
    page.goto(f"{address}/compare?run=demo&run=hostile")
    assert "What was set differently" in page.text()
    assert "rl.group_size" in page.text()
    page.wait("document.querySelectorAll('.uplot canvas').length >= 4")
    page.goto(f"{address}/r/demo/config?with=hostile")
    assert "What differs" in page.text()


def test_themes_help_and_the_json_twin(page: Page, address: str, folder: Path) -> None:
    page.call(
        "Emulation.setEmulatedMedia",
        features=[{"name": "prefers-color-scheme", "value": "dark"}],
    )
    page.goto(f"{address}/r/demo/overview")
    theme = "document.documentElement.dataset.theme"
    paper = "getComputedStyle(document.documentElement).backgroundColor"
    assert (page.evaluate(theme), page.evaluate(paper)) == ("dark", "rgb(20, 23, 26)")
    page.click("#side .foot button")
    assert (page.evaluate(theme), page.evaluate(paper)) == ("light", "rgb(246, 246, 243)")
    page.evaluate("localStorage.clear()")
    page.call("Emulation.setEmulatedMedia", features=[])
    page.press("?")
    assert page.evaluate("document.getElementById('help').open")
    page.evaluate("document.getElementById('help').close()")
    command = page.evaluate("document.querySelector('.foot-twin code').textContent")
    assert command == f"steelyard show {folder / 'demo'} summary --json"


@pytest.mark.parametrize(
    "path",
    ["overview", "alarms", "metrics", "tasks", "groups", "episodes", "outcomes", "config", "audit",
     "events", "episode", "tokens", "group", "diagnosis", "findings"],
)  # fmt: skip
def test_a_hostile_run_is_only_text(page: Page, address: str, path: str) -> None:
    query = {
        "episode": {"id": EPISODE}, "tokens": {"id": EPISODE}, "group": {"id": "step-1/hostile"},
    }.get(path, {})  # fmt: skip
    page.goto(f"{address}/r/hostile/{path}?{urlencode(query)}")
    assert "cannot be drawn" not in page.text()
    assert page.evaluate("window.broken ?? null") is None
    inside = "#main script, #main img, #main iframe, #main [onerror], #main a[href^='javascript']"
    assert page.evaluate(f"document.querySelectorAll({json.dumps(inside)}).length") == 0


def test_what_a_hostile_policy_wrote_can_be_read(page: Page, address: str) -> None:
    page.goto(f"{address}/r/hostile/episode?{urlencode({'id': EPISODE})}")
    shown = page.evaluate("document.getElementById('main').textContent")
    for part in (SCRIPT, IMAGE, LINK, TASK):
        assert part in shown
    # Escapes and reordering are spelled out; none is left that a copy would carry along.
    for part in ("ESC[31mred", "U+009B", "U+202E", "U+2066", "U+200B"):
        assert part in shown
    for character in {"\x1b", "\x07", "\x9b", *BIDI} - set(BIDI.encode("ascii", "ignore").decode()):
        assert character not in shown
    title = page.evaluate("document.title")
    assert "‮" not in title


def test_the_policy_of_the_page_stops_markup(page: Page, address: str) -> None:
    """The second wall: even a mistake of ours could not make markup out of data."""
    page.goto(f"{address}/r/hostile/overview")
    made = page.evaluate(
        "(() => { try { document.createElement('div').innerHTML = '<b>x</b>'; return 'made'; }"
        " catch (e) { return e.name; } })()"
    )
    assert made == "TypeError"
    page.problems.clear()  # the browser reports the refusal, as it should


def test_a_live_run_is_followed(page: Page, address: str, folder: Path) -> None:
    with RunStore.start(folder / "live", {}, model="tiny") as store:
        store.add_metrics(1, "rl", {"entropy": 0.5}, version=1)
        page.goto(f"{address}/r/live/groups")
        assert "0 in all" in page.text()
        assert "running" in page.text()
        group = training_group(1, "x-or", [failed_outcome()] * 2, ["a = 1"] * 2)
        store.add_group(1, group, "train", True)
        page.wait("document.getElementById('main').innerText.includes('1 in all')", seconds=20)


def test_a_live_page_keeps_what_was_done_to_it(page: Page, address: str, folder: Path) -> None:
    order = "[...document.querySelectorAll('tbody td:first-child')].map((c) => c.innerText)"
    with RunStore.start(folder / "kept", {}, model="tiny") as store:
        for task in ("x-or", "y-or"):
            group = training_group(1, task, [failed_outcome()] * 2, ["a = 1"] * 2)
            store.add_group(1, group, "train", True)
        page.goto(f"{address}/r/kept/tasks")
        for _ in range(2):  # the first click sorts by task, the second turns it round
            page.evaluate("(() => { const b = document.querySelector('th button');"
                          " b.click(); b.focus(); })()")  # fmt: skip
        page.evaluate("document.querySelector('.foot-twin').open = true")
        assert page.evaluate(order) == ["y-or", "x-or"]
        group = training_group(2, "z-or", [failed_outcome()] * 2, ["a = 1"] * 2)
        store.add_group(2, group, "train", True)
        page.wait("document.getElementById('main').innerText.includes('z-or')", seconds=20)
        assert page.evaluate(order) == ["z-or", "y-or", "x-or"]
        assert page.evaluate("document.activeElement.innerText") == "task"
        assert page.evaluate("document.querySelector('.foot-twin').open")
        page.goto(f"{address}/r/kept/overview")
        page.wait("document.querySelector('.uplot') !== null"
                  " && document.documentElement.scrollHeight > innerHeight + 100")  # fmt: skip
        page.evaluate("scrollTo(0, 10_000)")
        at = page.evaluate("scrollY")
        drawn = page.evaluate("document.getElementById('main').dataset.ready")
        store.add_event("note", "something happened")
        page.wait(f"document.getElementById('main').dataset.ready !== '{drawn}'", seconds=20)
        page.wait(f"scrollY === {at}", seconds=5)
    shutil.rmtree(folder / "kept")


def test_the_end_of_a_run_is_drawn_after_a_selection(
    page: Page, address: str, folder: Path
) -> None:
    with RunStore.start(folder / "ends", {}, model="tiny") as store:
        page.goto(f"{address}/r/ends/events")
        page.evaluate("getSelection().selectAllChildren(document.querySelector('h1'))")
        store.finish("finished")
    time.sleep(5)  # a look at the record, which may not take the selection away
    assert "running" in page.text()
    page.evaluate("getSelection().removeAllRanges()")
    page.wait("document.getElementById('main').innerText.includes('finished')", seconds=40)
    shutil.rmtree(folder / "ends")


def test_a_link_to_a_turn_reaches_it_and_back_leads_to_the_same_place(
    page: Page, address: str
) -> None:
    page.goto(f"{address}/r/hostile/group?id=step-1%2Fhostile")
    page.click(".strip a:nth-child(2)")
    assert page.evaluate("location.hash") == "#turn-2"
    assert page.evaluate("document.getElementById('turn-2') !== null")
    page.goto(f"{address}/r/demo/episodes")
    page.evaluate("scrollTo(0, 300)")
    assert page.evaluate("scrollY") == 300
    page.click("tbody tr:nth-child(9) a")
    assert page.evaluate("scrollY") == 0
    page.act("history.back()")
    page.wait("scrollY === 300", seconds=5)


def test_a_late_answer_does_not_lead_away_from_a_newer_page(page: Page, address: str) -> None:
    page.goto(f"{address}/r/demo/episode?{urlencode({'id': 'step-1/c-or/1'})}")
    page.evaluate("""(() => { const real = fetch; window.late = 0;
        window.fetch = async (asked, options) => {
          if (asked.includes('/episodes?')) await new Promise((go) => setTimeout(go, 700));
          const answer = await real(asked, options);
          if (asked.includes('/episodes?')) window.late += 1;
          return answer;
        }; })()""")
    page.press("j")
    page.click('a[href="/r/demo/config"]')
    page.wait("window.late === 1")
    time.sleep(0.3)
    assert page.evaluate("location.pathname") == "/r/demo/config"


def test_the_overview_of_a_long_run_waits_for_no_signals(page: Page, address: str) -> None:
    page.goto(f"{address}/r/demo/config")
    page.evaluate("""(() => { const [ask, later] = [fetch, setTimeout];
        window.setTimeout = (...given) => (given[1] === 150 ? 0 : later(...given));
        window.fetch = async (asked, options) => {
          if (asked.includes('/signals')) await new Promise((go) => { window.reply = go; });
          const answer = await ask(asked, options);
          if (!asked.includes('/summary')) return answer;
          const body = await answer.json();
          body.cost.episodes.training = 100_000;
          return new Response(JSON.stringify(body));
        }; })()""")
    page.click('a[href="/r/demo/overview"]')
    assert "Step time" in page.text()
    page.evaluate("window.reply()")
    page.wait("document.body.innerText.includes('Cost and failure')")


def test_another_run_shows_its_list_where_it_has_no_such_episode(page: Page, address: str) -> None:
    page.goto(f"{address}/r/demo/episode?{urlencode({'id': 'step-1/c-or/1'})}")
    page.act("""(() => { const s = document.querySelector('select[aria-label="Run"]');
        s.value = 'hostile'; s.dispatchEvent(new Event('change')); })()""")
    assert page.evaluate("location.pathname") == "/r/hostile/episodes"
    assert "2 match" in page.text()


def test_the_list_of_an_episode_is_kept_through_its_tokens(page: Page, address: str) -> None:
    page.goto(f"{address}/r/demo/episodes?outcome=solved&sort=reward")
    page.click("tbody tr:nth-child(3) a")
    before = page.evaluate("location.search")
    assert "outcome=solved" in before
    page.act("document.dispatchEvent(new KeyboardEvent('keydown', {key: 't'}))")
    assert page.evaluate("location.pathname") == "/r/demo/tokens"
    page.act("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'u'}))")
    assert page.evaluate("[...new URLSearchParams(location.search)].sort().join()") == (
        page.evaluate(f"[...new URLSearchParams({json.dumps(before)})].sort().join()")
    )


def test_a_new_run_appears_on_the_list(page: Page, address: str, folder: Path) -> None:
    page.goto(f"{address}/")
    assert "newcomer" not in page.text()
    write_run(folder / "newcomer")
    try:
        page.wait("document.getElementById('main').innerText.includes('newcomer')", seconds=20)
    finally:
        shutil.rmtree(folder / "newcomer")


def test_a_page_or_run_that_is_not_there(page: Page, address: str) -> None:
    page.goto(f"{address}/r/nobody/overview")
    assert "No run is called nobody" in page.text()
    page.problems.clear()  # one warning with that sentence
    start = time.monotonic()
    page.goto(f"{address}/r/demo/episode?id=nobody")
    assert "the run has no episode 'nobody'" in page.text()
    assert time.monotonic() - start < 30
    page.problems.clear()
