// The shell: which page an address means, the side bar, the keyboard, live updates, themes.
import { append, h } from "./dom.js";
import { apiAddress, command, fetchJson, pageAddress } from "./api.js";
import { PAGES, SECTIONS } from "./pages/index.js";

const POLL_MS = 4000;
const main = document.getElementById("main");
const side = document.getElementById("side");
const help = document.getElementById("help");
const state = { index: null, run: null, page: null, keys: {}, stamp: null, turn: 0 };

// --- addresses ---------------------------------------------------------------------------------

export function go(address, replace = false) {
  history[replace ? "replaceState" : "pushState"](null, "", address);
  render({ scroll: !replace });
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
  go(anchor.pathname + anchor.search);
});
addEventListener("popstate", () => render({ scroll: true }));

// --- drawing -----------------------------------------------------------------------------------

async function render({ scroll = false } = {}) {
  const turn = ++state.turn;
  const { run, page, parameters } = located();
  try {
    state.index = await fetchJson("/api/");
    const entry = state.index.runs.find((r) => r.run === run);
    if (run !== null && !entry) throw new Error(`No run is called ${run}.`);
    if (page === "runs" && state.index.runs.length === 1) {
      go(pageAddress(state.index.runs[0].run, "overview"), true);
      return;
    }
    const draw = PAGES[page];
    if (!draw) throw new Error(`There is no page ${page}.`);
    if (entry?.error) throw new Error(entry.error);
    const asked = [];
    const context = contextOf(entry, page, parameters, asked);
    const drawn = await draw(context);
    if (turn !== state.turn) return; // another page was asked for meanwhile
    const top = scrollY;
    main.replaceChildren(...[drawn].flat(), twins(asked));
    state.keys = context.keys;
    state.stamp = stampOf(run);
    document.title = [context.title ?? page, run, "Steelyard"].filter(Boolean).join(" · ");
    scrollTo(0, scroll ? 0 : top);
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (scroll && target) target.scrollIntoView();
  } catch (error) {
    if (turn !== state.turn) return;
    console.warn(error.message);
    main.replaceChildren(h("div.head", null, h("h1", null, "This page cannot be drawn")), h("p", null, error.message),
      h("p", null, h("a", { href: "/" }, "All runs")));
    state.keys = {};
  }
  state.run = run;
  state.page = page;
  drawSide(run, page);
  main.dataset.ready = String(turn);
}

function contextOf(entry, page, parameters, asked) {
  const run = entry?.run ?? null;
  const ask = (of, view, params) => {
    asked.push([of, view, params]);
    return fetchJson(apiAddress(of, view, params));
  };
  return {
    run, entry, page, parameters, go, keys: {}, runs: state.index.runs,
    has: (view) => state.index.views.includes(view),
    get: (view, params) => ask(run, view, params),
    of: ask,
    /** A view that this Steelyard or this run may lack: null then. */
    async maybe(view, params) {
      if (!state.index.views.includes(view)) return null;
      try { return await ask(run, view, params); } catch (error) { console.info(`${view}: ${error.message}`); return null; }
    },
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

function twins(asked) {
  if (!asked.length) return null;
  const seen = new Map(asked.map(([run, view, params]) => [apiAddress(run, view, params), command(run, view, params)]));
  return h("details.foot-twin", null, h("summary", null, "This page as JSON"),
    [...seen].map(([address, text]) => h("div", null, h("a", { href: address, target: "_blank", rel: "noopener" }, "JSON"), " ", h("code", null, text))));
}

function drawSide(run, page) {
  const parts = [h("a.brand", { href: "/" }, h("img", { src: "/static/icon.svg", alt: "" }), "Steelyard")];
  const { runs } = state.index ?? { runs: [] };
  if (run !== null && runs.length) {
    parts.push(h("div", null, h("select", { "aria-label": "Run", onchange: (e) => go(pageAddress(e.target.value, PAGES[page] ? page : "overview")) },
      runs.map((r) => h("option", { value: r.run, selected: r.run === run }, r.run)))));
    for (const [title, links] of SECTIONS) {
      const shown = links.filter(([, , needs]) => !needs || state.index.views.includes(needs));
      if (!shown.length) continue;
      parts.push(h("div", null, h("h3", null, title), h("ul", null, shown.map(([name, label]) =>
        h("li", null, h("a", { href: pageAddress(run, name), "aria-current": active(name, page) ? "page" : null }, label))))));
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
const PARENTS = { episode: "episodes", tokens: "episodes", group: "groups" };
const active = (name, page) => name === page || PARENTS[page] === name;

// --- live --------------------------------------------------------------------------------------

const stampOf = (run) => (run === null ? JSON.stringify(state.index?.runs) : state.index?.runs.find((r) => r.run === run)?.stamp);
const isLive = () => state.index?.runs.some((r) => r.state === "running" && (state.run === null || r.run === state.run));

setInterval(async () => {
  if (document.hidden || !(isLive() || state.page === "runs")) return; // a new run may be listed any time
  try { state.index = await fetchJson("/api/"); } catch { return; }
  const busy = document.activeElement?.matches("input, select") || String(getSelection()) || main.dataset.busy;
  if (stampOf(state.run) !== state.stamp && !busy) render();
}, POLL_MS);

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

// --- keyboard ----------------------------------------------------------------------------------

function showHelp() {
  const keys = [["j  →", "next episode, or row down"], ["k  ←", "previous episode, or row up"], ["Enter", "open the row"], ["/", "search"],
    ["g then o t g e", "go to overview, tasks, groups, episodes"], ["t", "tokens of the episode"], ["u", "up: from an episode to its list"], ["?", "this help"], ["Esc", "close"]];
  help.replaceChildren(h("h2", null, "Keyboard"), h("dl", null, keys.map(([k, what]) => [h("dt", null, k.split("  ").map((one) => [h("kbd", null, one), " "])), h("dd", null, what)])));
  help.showModal();
}
help.addEventListener("click", (event) => { if (event.target === help) help.close(); });

let prefix = false;
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
  if (event.target.matches?.("input, select, textarea")) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const jump = { o: "overview", t: "tasks", g: "groups", e: "episodes" }[event.key];
  if (prefix && jump && state.run) { prefix = false; go(pageAddress(state.run, jump)); return; }
  prefix = event.key === "g";
  const alias = { ArrowRight: "j", ArrowLeft: "k" }[event.key] ?? event.key;
  if (event.key === "?") showHelp();
  else if (event.key === "/") {
    event.preventDefault();
    const box = main.querySelector("input[type=search]");
    if (box) box.focus();
    else if (state.run) go(pageAddress(state.run, "episodes"));
  } else if (state.keys[alias]) { event.preventDefault(); state.keys[alias](); }
  else if (alias === "j" || event.key === "ArrowDown" && !scrollable()) moveRow(1, event);
  else if (alias === "k" || event.key === "ArrowUp" && !scrollable()) moveRow(-1, event);
  else if (event.key === "Enter" && document.activeElement === document.body) {
    const row = main.querySelector("tr.at[data-href]");
    if (row) go(row.dataset.href);
  }
});
const scrollable = () => !main.querySelector("tr[data-href]");

function moveRow(by, event) {
  const rows = [...main.querySelectorAll("tr[data-href]")];
  if (!rows.length) return;
  event.preventDefault();
  const now = rows.findIndex((r) => r.classList.contains("at"));
  const next = Math.max(0, Math.min(rows.length - 1, now + by));
  rows[now]?.classList.remove("at");
  rows[next].classList.add("at");
  rows[next].scrollIntoView({ block: "nearest" });
}

applyTheme();
render();
