// One episode: what it did turn by turn, what it was credited with, and what the checks say.
import { block, h } from "../dom.js";
import { key } from "../charts.js";
import { count, duration, number, outcomePill, signed, stepName, words } from "../format.js";
import { card, head, nothing } from "./parts.js";
import { changesPart, checksPart, transcript } from "./transcript.js";
import { creditOf, creditStrip } from "./groups.js";
import { filtersOf, LIMIT, trailOf } from "./episodes.js";

export async function episode(ctx) {
  const { parameters: p } = ctx;
  const id = p.get("id");
  const [{ episodes: [e] }, changes, { findings }] = await Promise.all([ctx.get("episode", { ids: id }), ctx.get("changes", { ids: id }), ctx.get("findings", { ids: id })]);
  ctx.title = e.id;
  const found = findings.filter((f) => f.episode === id); // the id may be a task's name too
  const walk = walker(ctx, e);
  const trail = trailOf(p);
  Object.assign(ctx.keys, { j: () => walk(1), k: () => walk(-1), u: () => ctx.go(ctx.to("episodes", { ...filtersOf(p), offset: LIMIT * Math.floor(Number(trail.at) / LIMIT) })), t: () => ctx.go(ctx.to("tokens", { id: e.id, ...trail })) });
  const top = Math.max(...e.turns.map((t) => Math.abs(t.learned.advantage ?? 0)), 1e-9);
  const from = e.purpose === "train" ? h("a", { href: ctx.to("group", { id: e.group }) }, `group ${e.group}`) : `evaluation ${e.evaluation}`;
  return [head(e.task, h("span", null, `${e.split} · step ${stepName(e.step)} · sample ${e.sample} · `, from), outcomePill(e),
      h("button", { type: "button", onclick: () => walk(-1), title: "k or ←" }, "← Previous"), h("button", { type: "button", onclick: () => walk(1), title: "j or →" }, "Next →")),
    h("div.split", null,
      h("div.stack", null,
        found.length ? h("section.card.alarm-item", null, h("h2", null, "Findings"), found.map((f) => h("p", null, h("b", null, words(f.scanner)), f.turn === null || f.turn === undefined ? "" : ` in turn ${f.turn + 1}`, `: ${f.text}`))) : null,
        e.cause !== null ? card("Why it has no reward", words(e.cause), block(e.cause_detail ?? "")) : null,
        transcript(ctx, e, top, { anchors: true, trail }),
        changes.files.length ? card("What it changed", `against ${changes.against}`, changesPart(changes)) : card("Final files", `compared with ${changes.against}`, filesPart(e))),
      h("aside.stack.panel-sticky", null, figures(e),
        e.turns.some((t) => typeof t.learned.advantage === "number") ? card("Credit", "one cell a turn", creditStrip(e, top, ctx.here({}))) : null,
        card("Training checks", passed(e.checks), checksPart(e.checks, e.cause === null ? "None ran: the episode was decided without them." : "None ran.")),
        card("Held-out checks", passed(e.heldout_checks), checksPart(e.heldout_checks, e.heldout_cause ? `No verdict: ${words(e.heldout_cause)}.` : e.heldout_reward === null ? "The task has none, or they did not run." : "None ran: decided without them.")),
        timeLine(e), segments(ctx, e, trail)))];
}

/** Steps to the next or previous episode of the list that this one was opened from, or of its group. */
function walker(ctx, e) {
  const { parameters: p } = ctx;
  return async (by) => {
    const filters = filtersOf(p);
    const listed = p.get("at") !== null;
    if (!listed) Object.assign(filters, e.purpose === "train" ? { group: e.group } : { evaluation: e.evaluation, split: e.split, task: e.task });
    const here = location.href;
    const place = await placeOf(ctx, e.id, filters, listed ? Number(p.get("at")) : e.sample).catch((error) => console.info(error.message));
    const next = place?.episodes[place.index + by];
    if (next && location.href === here) ctx.go(ctx.to("episode", { id: next.id, ...filters, at: place.at + by }), true);
  };
}

/** Where an episode stands in the list, with its neighbours. As a live run goes on, episodes that
 * come before it push it away from `at`, where it was; null if it is far away by now. */
async function placeOf(ctx, id, filters, at) {
  for (const around of [1, 250]) {
    const [offset, limit] = [Math.max(0, at - around), 2 * around + 1];
    const { episodes } = await ctx.get("episodes", { ...filters, offset, limit });
    const index = episodes.findIndex((e) => e.id === id);
    const isEdge = (index === 0 && offset > 0) || index === limit - 1; // a neighbour is not among them
    if (index >= 0 && !isEdge) return { at: offset + index, index, episodes };
  }
  return null;
}

const passed = (checks) => (checks.length ? `${checks.filter((c) => c.passed).length} of ${checks.length} pass` : null);

function figures(e) {
  const rows = [["reward", number(e.reward)], ["raw outcome", number(e.raw)], ...Object.entries(e.components).map(([name, v]) => [words(name), signed(v)]),
    ["held-out", number(e.heldout_reward)], ["advantage", signed(creditOf(e))], ["ended", words(e.stop_reason)], ["turns", count(e.n_turns)],
    ["calls", count(e.n_calls)], ["calls with errors", count(e.n_call_errors)],
    ["repeated calls", count(e.n_repeated_calls)], ["tokens sampled", count(e.n_action_tokens)], ["tokens in all", count(e.n_tokens)], ["seed", e.seed === null ? "–" : String(e.seed)]];
  return card(null, null, h("table.figures", null, h("tbody", null, rows.map(([name, value]) => h("tr", null, h("td.quiet", null, name), h("td.right", null, value))))));
}

function timeLine(e) {
  const parts = Object.entries(e.seconds).filter(([, s]) => s > 0);
  if (!parts.length) return null;
  const names = parts.map(([name]) => name);
  const total = parts.reduce((sum, [, s]) => sum + s, 0);
  return card("Time", duration(total), h("div.bar", null, parts.map(([name, s], i) => h(`span.p${i % 8}`, { title: `${words(name)}: ${duration(s)}`, css: { width: `${(100 * s) / total}%` } }))),
    key(names, names, (n) => `${words(n)} ${duration(e.seconds[n])}`));
}

function segments(ctx, e, trail) {
  return card("Segments", "token sequences as the model saw them", h("ul.checks", null, e.segments.map((s, i) => h("li", null, h("span.faint", null, i),
    h("a", { href: ctx.to("tokens", { id: e.id, segment: i, ...trail }) }, `${count(s.tokens)} tokens, ${count(s.action_tokens)} sampled`,
      s.versions.length ? ` by version ${s.versions.join(", ")}` : "", s.parent === null ? "" : `, left segment ${s.parent} at ${s.fork_position}`)))));
}

function filesPart(e) {
  const names = Object.keys(e.files);
  return names.length ? h("div.stack", null, names.map((name) => h("div.diff", null, h("header", null, h("b.mono", null, name)), h("div", { css: { padding: "6px 12px" } }, block(e.files[name]))))) : nothing("No file was handed over for grading.");
}
