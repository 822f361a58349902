// The keyboard: rows, pages, search, help.
import { h } from "./dom.js";

const main = document.getElementById("main");
const help = document.getElementById("help");
const JUMPS = { o: "overview", t: "tasks", g: "groups", e: "episodes" };
const ROWS = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 };
const LINES = [["j  →", "next episode, or row down"], ["k  ←", "previous episode, or row up"], ["Enter", "open the row"], ["/", "search"],
  ["g then o t g e", "go to overview, tasks, groups, episodes"], ["t", "tokens of the episode"], ["u", "up: from tokens to the episode, from there to its list"], ["?", "this help"], ["Esc", "close"]];

/** Starts listening, and returns what shows the help. `own(key)` is the page's own meaning of a key. */
export function listenForKeys({ go, to, own }) {
  let prefix = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.matches?.("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.shiftKey && event.key.startsWith("Arrow")) return; // it selects text
    const jump = prefix ? JUMPS[event.key] : null;
    prefix = !jump && event.key === "g";
    const key = { ArrowRight: "j", ArrowLeft: "k" }[event.key] ?? event.key;
    if (jump) to(jump);
    else if (key === "?") showHelp();
    else if (key === "/") {
      event.preventDefault();
      const box = main.querySelector("input[type=search]");
      if (box) box.focus();
      else to("episodes");
    } else if (own(key)) { event.preventDefault(); own(key)(); }
    else if (key in ROWS) moveRow(ROWS[key], event);
    else if (key === "Enter" && [document.body, main].includes(document.activeElement)) {
      const row = main.querySelector("tr.at[data-href]");
      if (row) go(row.dataset.href);
    }
  });
  help.addEventListener("click", (event) => { if (event.target === help) help.close(); });
  return showHelp;
}

function showHelp() {
  help.replaceChildren(h("h2", null, "Keyboard"), h("dl", null, LINES.map(([k, what]) => [h("dt", null, k.split("  ").map((one) => [h("kbd", null, one), " "])), h("dd", null, what)])),
    h("button", { type: "button", onclick: () => help.close() }, "Close"));
  help.showModal();
}

/** Marks another row and puts the focus on its link. An arrow scrolls where no row is in sight, and
 * beyond the last one. */
function moveRow(by, event) {
  const rows = [...main.querySelectorAll("tr[data-href]")];
  if (!rows.length || (event.key.startsWith("Arrow") && !rows.some(inSight))) return;
  const now = rows.findIndex((row) => row.classList.contains("at"));
  const next = Math.max(0, Math.min(rows.length - 1, now + by));
  if (next === now) return;
  event.preventDefault();
  rows[now]?.classList.remove("at");
  rows[next].classList.add("at");
  rows[next].querySelector("a[href]")?.focus({ preventScroll: true });
  rows[next].scrollIntoView({ block: "nearest" });
}

function inSight(row) {
  const { top, bottom } = row.getBoundingClientRect();
  return bottom > 0 && top < innerHeight;
}
