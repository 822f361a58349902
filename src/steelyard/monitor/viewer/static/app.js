// The shell: which page an address means, drawing it, the side bar, live updates, themes.
import { append, h, plain } from "./dom.js";
import { apiAddress, command, fetchJson, pageAddress } from "./api.js";
import { listenForKeys } from "./keyboard.js";
import { remember, restore, scrollAgain } from "./keep.js";
import { PAGES, PARENTS, SECTIONS } from "./pages/index.js";

const POLL_MS = 4000;
const POLL_IDLE_MS = 20_000; // an ended run may be resumed
const TYPING_MS = 15_000;
const CLICK_MS = 1000;
const main = document.getElementById("main");
const side = document.getElementById("side");
/** `turn` counts drawings, `drawn` is the last that ended; `stamp` is what it showed of the record. */
const state = { index: null, run: null, page: null, address: null, keys: {}, stamp: null, turn: 0, drawn: 0 };

// --- addresses ---------------------------------------------------------------------------------

function go(address, replace = false) {
  history.replaceState({ top: scrollY }, "");
  history[replace ? "replaceState" : "pushState"]({ top: replace ? scrollY : 0 }, "", address);
  render({ top: replace ? null : 0 });
}

function located() {
  const parts = location.pathname.split("/").filter(Boolean).map(decodeURIComponent);
  const parameters = new URLSearchParams(location.search);
  if (parts[0] === "r") return { run: parts[1], page: parts[2], parameters };
  return { run: null, page: parts[0] === "compare" ? "compare" : "runs", parameters };
}

document.addEventListener("click", (event) => {
  if (event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const anchor = event.target.closest?.("a[href]");
  const row = anchor ? null : event.target.closest?.("tr[data-href]");
  if (row && !event.target.closest("button, select, input") && !String(getSelection())) go(row.dataset.href);
  if (!anchor || anchor.origin !== location.origin || anchor.pathname.startsWith("/api/") || anchor.target) return;
  if (anchor.getAttribute("href").startsWith("#")) return;
  event.preventDefault();
  go(anchor.pathname + anchor.search + anchor.hash);
});
// The browser would restore the scroll position before the page is drawn.
history.scrollRestoration = "manual";
addEventListener("scrollend", () => history.replaceState({ top: scrollY }, ""));
addEventListener("popstate", (event) => render({ top: event.state?.top ?? 0 }));

// --- drawing -----------------------------------------------------------------------------------

/** Draws what the address means, and scrolls to `top`, or stays where the page is. */
async function render({ top = null } = {}) {
  const turn = ++state.turn;
  const address = location.pathname + location.search;
  const asked = [];
  let [place, index, context, content, stamp] = [{ run: null, page: null }, state.index, null, null, null];
  try {
    place = located();
    index = await fetchJson("/api/");
    if (place.page === "runs" && index.runs.length === 1) {
      if (turn === state.turn) go(pageAddress(index.runs[0].run, "overview"), true);
      return;
    }
    stamp = stampOf(index, place.run);
    context = contextOf(index, place, asked);
    content = [[await PAGES[place.page](context)].flat(), twins(index, asked)];
  } catch (error) {
    if (turn !== state.turn) return;
    if (error.passing) stamp = null; // and so it is tried again
    context = { keys: {} };
    content = failure(error);
  }
  if (turn !== state.turn) return; // another page was asked for meanwhile
  const [before, kept] = [scrollY, remember(document.body, state.address === address)];
  const redrawn = state.address?.split("?")[0] === location.pathname;
  main.replaceChildren();
  append(main, [content]);
  Object.assign(state, { ...place, index, address, stamp, keys: context.keys, drawn: turn });
  document.title = [context.title ?? place.page, place.run, "Steelyard"].filter(Boolean).map(plain).join(" · ");
  drawSide(place.run, place.page);
  if (redrawn) restore(document.body, kept);
  else restore(side, kept);
  const target = top === 0 && location.hash ? document.getElementById(location.hash.slice(1)) : null;
  const settle = () => (target ? target.scrollIntoView() : scrollTo(0, top ?? before));
  settle();
  requestAnimationFrame(() => { // by now the charts have their height
    if (turn !== state.turn) return;
    settle();
    if (redrawn) scrollAgain(main, kept);
  });
  main.dataset.ready = String(turn);
}

function failure(error) {
  console.warn(plain(error.message));
  return [h("div.head", null, h("h1", null, "This page cannot be drawn")), h("p", null, error.message),
    h("p", null, h("a", { href: "/" }, "All runs"))];
}

/** What a page gets to draw itself with. */
function contextOf(index, { run, page, parameters }, asked) {
  const entry = index.runs.find((r) => r.run === run);
  if (run !== null && !entry) throw new Error(`No run is called ${run}.`);
  if (!Object.hasOwn(PAGES, page)) throw new Error(`There is no page ${page}.`);
  if (entry?.error) throw new Error(entry.error);
  const of = (name, view, params) => {
    asked.push([name, view, params]);
    return fetchJson(apiAddress(name, view, params));
  };
  return {
    run, entry, parameters, go, of, keys: {}, runs: index.runs,
    get: (view, params) => of(run, view, params),
    to: (name, params) => pageAddress(run, name, params),
    /** This page with some parameters changed; null removes one. */
    here(changes) {
      const next = new URLSearchParams(parameters);
      for (const [name, value] of Object.entries(changes)) {
        next.delete(name);
        for (const one of Array.isArray(value) ? value : [value]) if (one !== null && one !== undefined && one !== "") next.append(name, one);
      }
      const text = next.toString();
      return location.pathname + (text ? `?${text}` : "");
    },
  };
}

/** The page's questions as addresses of JSON and as commands. */
function twins(index, asked) {
  if (!asked.length) return null;
  const directories = new Map(index.runs.map((r) => [r.run, r.directory]));
  const seen = new Map(asked.map(([run, view, params]) => [apiAddress(run, view, params), command(directories.get(run) ?? run, view, params)]));
  return h("details.foot-twin", null, h("summary", null, "This page as JSON"),
    [...seen].map(([address, text]) => h("div", null, h("a", { href: address, target: "_blank", rel: "noopener" }, "JSON"), " ", h("code", null, text))));
}

function drawSide(run, page) {
  const parts = [h("a.brand", { href: "/" }, h("img", { src: "/static/icon.svg", alt: "" }), "Steelyard")];
  const { runs } = state.index ?? { runs: [] };
  const listed = PARENTS[page] ?? page;
  if (run !== null && runs.length) {
    // Another run has other episodes and groups: there the list is shown instead.
    const target = Object.hasOwn(PAGES, listed) ? listed : "overview";
    parts.push(h("div", null, h("select", { "aria-label": "Run", onchange: (e) => go(pageAddress(e.target.value, target)) },
      runs.map((r) => h("option", { value: r.run, selected: r.run === run }, r.run)))));
    for (const [title, links] of SECTIONS) {
      parts.push(h("div", null, h("h3", null, title), h("ul", null, links.map(([name, label]) =>
        h("li", null, h("a", { href: pageAddress(run, name), "aria-current": name === listed ? "page" : null }, label))))));
    }
  }
  if (runs.length > 1) parts.push(h("ul", null, h("li", null, h("a", { href: "/compare", "aria-current": page === "compare" ? "page" : null }, "Compare runs"))));
  parts.push(h("div.foot", null,
    h("button", { type: "button", onclick: toggleTheme, title: "Light or dark" }, "◐ Theme"),
    h("button", { type: "button", onclick: showHelp, title: "Keyboard" }, "?")));
  const scroll = side.scrollTop;
  side.replaceChildren();
  append(side, parts);
  side.scrollTop = scroll;
}

// --- live --------------------------------------------------------------------------------------

/** Changes whenever the run (without one, any run) is no longer what was drawn. */
function stampOf(index, run) {
  if (run === null) return JSON.stringify(index.runs);
  const entry = index.runs.find((r) => r.run === run);
  return `${entry?.state} ${entry?.stamp}`;
}

let touched = 0; // when a key or the pointer was last used
for (const kind of ["pointerdown", "pointerup", "keydown"]) addEventListener(kind, () => { touched = Date.now(); }, true);
addEventListener("pointermove", (event) => { if (event.buttons) touched = Date.now(); }, true);

/** Whether a new drawing would take something out of the user's hands. */
function busy() {
  const active = document.activeElement;
  if (active?.matches("input") && active.value !== active.defaultValue) return true; // half-typed
  if (String(getSelection())) return true;
  return Date.now() - touched < (active?.matches("input, select") ? TYPING_MS : CLICK_MS);
}

async function follow() {
  if (!document.hidden && state.drawn === state.turn) {
    const index = await fetchJson("/api/").catch(() => null); // no server, nothing new
    const stale = index !== null && stampOf(index, state.run) !== state.stamp;
    if (stale && state.drawn === state.turn && !busy()) render();
  }
  const live = state.page === "runs" || state.index?.runs.some((r) => r.state === "running" && (state.run === null || r.run === state.run));
  setTimeout(follow, live || state.stamp === null ? POLL_MS : POLL_IDLE_MS);
}

// --- theme -------------------------------------------------------------------------------------

const dark = matchMedia("(prefers-color-scheme: dark)");
function applyTheme() {
  const chosen = localStorage.getItem("theme");
  document.documentElement.dataset.theme = chosen ?? (dark.matches ? "dark" : "light");
}
function toggleTheme() {
  localStorage.setItem("theme", document.documentElement.dataset.theme === "dark" ? "light" : "dark");
  applyTheme();
  render();
}
dark.addEventListener("change", () => { applyTheme(); render(); });

const showHelp = listenForKeys({
  go, to: (page) => state.run && go(pageAddress(state.run, page)), own: (key) => state.keys[key],
});
applyTheme();
render({ top: history.state?.top ?? 0 });
setTimeout(follow, POLL_MS);
