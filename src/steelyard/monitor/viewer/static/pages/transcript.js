// An episode's turns, checks and changed files: what the policy wrote is only ever text.
import { block, h } from "../dom.js";
import { signedColour } from "../charts.js";
import { number, signed, words } from "../format.js";
import { keeps } from "../keep.js";
import { nothing } from "./parts.js";

/** The turns with their calls and outputs; `top` scales the colour of the credit. With `anchors` an
 * address can name a turn; `trail` are the parameters that lead back to the list. */
export function transcript(ctx, episode, top, { anchors = false, trail = {} } = {}) {
  if (!episode.turns.length) return nothing("The episode has no turn.");
  return h("div.stack", null, episode.turns.map((turn, i) => {
    const credit = turn.learned.advantage;
    return h("article.turn", { id: anchors ? `turn-${i + 1}` : null, css: typeof credit === "number" ? { "border-left-color": signedColour(credit, top) } : {} }, h("header", null,
      h("b", null, `Turn ${i + 1}`), `${turn.action[1] - turn.action[0]} tokens`,
      typeof credit === "number" ? h("span.num", null, `credit ${signed(credit)}`) : null,
      typeof turn.learned.entropy === "number" ? h("span.num", null, `entropy ${number(turn.learned.entropy)}`) : null,
      h("a.right", { href: ctx.to("tokens", { id: episode.id, segment: turn.segment, token: turn.action[0], ...trail }) }, "tokens")),
    saidPart(turn), turn.calls.map(callPart));
  }));
}

function saidPart(turn) {
  const text = turn.text.trim();
  if (!text) return turn.calls.length ? null : h("div.said.faint", null, "(nothing)");
  if (!turn.calls.length) return h("div.said", null, block(text));
  return h("details.said", null, h("summary.quiet", null, "What it wrote, as sampled"), block(text));
}

function callPart(call) {
  const entries = Object.entries(call.arguments ?? {});
  return h("div.call", null, h("span.name", null, call.name), call.error ? [" ", h("span.pill.bad", null, "error")] : null,
    entries.length ? h("dl", null, entries.map(([name, value]) => [h("dt", null, name), h("dd", null, block(typeof value === "string" ? value : JSON.stringify(value, null, 1)))])) : null,
    call.result ? outputPart(call) : null);
}

const LONG = 40;
function outputPart(call) {
  const lines = call.result.split("\n");
  const look = `div.out${call.error ? ".bad" : ""}`;
  if (lines.length <= LONG) return h(look, null, block(call.result));
  const more = h("button.plain", { type: "button", onclick: () => expand(true) }, `… ${lines.length - LONG} more lines`);
  const part = h(look, null, block(lines.slice(0, LONG).join("\n")), more);
  let opened = false;
  function expand(wanted) {
    if (wanted && !opened) part.replaceChildren(block(call.result));
    opened ||= wanted;
  }
  return keeps(part, "output", { get: () => opened, set: expand });
}

export function checksPart(checks, empty) {
  if (!checks.length) return nothing(empty);
  return h("ul.checks", null, [...checks].sort((a, b) => a.passed - b.passed).map((c) => h("li", null,
    h(`span.${c.passed ? "yes" : "no"}`, { "aria-label": c.passed ? "passed" : "failed" }, c.passed ? "✓" : "✗"),
    h("span", null, c.name, c.detail ? h("small", null, h("span.text", null, c.detail)) : null))));
}

const MARKS = { "+": "add", "-": "del", "@": "at", " ": "same" };
export function changesPart(changes) {
  const same = changes.files.filter((file) => file.status === "unchanged").map((file) => file.name);
  return h("div.stack", null, changes.files.filter((file) => file.status !== "unchanged").map((file) => h("div.diff", null, h("header", null, h("b.mono", null, file.name), " ", h("span.faint", null, words(file.status))),
    file.lines.length ? h("div.mono", null, file.lines.map(([mark, text]) => h(`div.l.${MARKS[mark]}`, null, h("span.faint", null, mark === "@" ? "" : mark), block(text || " ")))) : null)),
    same.length ? nothing(`Unchanged: ${same.join(", ")}`) : null);
}
